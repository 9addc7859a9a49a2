package report

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes in points: a slide's width, and a row high enough for a label that the last bench can read.
const (
	plotWidth   = 800
	rowHeight   = 25
	panelFrame  = 62 // a panel's own title and axis
	headHeight  = 48
	footHeight  = 30
	plotPadding = 18
)

// plotTo draws the plotted metrics of a result, a panel each, once for each path, whose ending says the format.
func plotTo(r *Result, paths ...string) error {
	panels, rows := panelsOf(r)
	if len(panels) == 0 {
		return nil
	}
	height := vg.Points(float64(headHeight + footHeight + len(panels)*panelFrame + rows*rowHeight))
	for _, path := range paths {
		canvas, err := draw.NewFormattedCanvas(vg.Points(plotWidth), height, path[strings.LastIndex(path, ".")+1:])
		if err != nil {
			return err
		}
		page := draw.New(canvas)
		page.FillPolygon(color.White, []vg.Point{page.Min, {X: page.Max.X, Y: page.Min.Y}, page.Max, {X: page.Min.X, Y: page.Max.Y}})
		drawFrame(page, r)
		drawPanels(draw.Crop(page, vg.Points(plotPadding), -vg.Points(plotPadding), vg.Points(footHeight), -vg.Points(headHeight)), panels)
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		_, err = canvas.WriteTo(file)
		if closed := file.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drawFrame writes the title above and where the figures are from below.
func drawFrame(page draw.Canvas, r *Result) {
	at := vg.Point{X: page.Min.X + vg.Points(plotPadding), Y: page.Max.Y - vg.Points(14)}
	page.FillText(style(19, inkColour, text.YTop), at, r.Title)
	at.Y = page.Min.Y + vg.Points(10)
	page.FillText(style(9, dimColour, text.YBottom), at, fmt.Sprintf("%s · %s · %s", r.Machine, r.Date.Format("2006-01-02"), barsAre(r)))
}

// barsAre says what a bar and its whiskers are.
func barsAre(r *Result) string {
	least, most := math.MaxInt, r.mostRuns()
	for _, row := range r.Rows {
		if row.Kind != Floor {
			least = min(least, len(row.Values))
		}
	}
	switch {
	case most <= 1:
		return "one run each"
	case least < most:
		return fmt.Sprintf("median of %d to %d runs, whiskers from least to most", least, most)
	}
	return fmt.Sprintf("median of %d runs, whiskers from least to most", most)
}

// A panel is one metric's bars.
type panel struct {
	plot *plot.Plot
	rows int
}

func panelsOf(r *Result) (panels []panel, rows int) {
	for _, metric := range r.Metrics {
		var of []Row
		for _, like := range r.subjects() {
			if row, found := r.find(like, metric); found && metric.Plot {
				of = append(of, row)
			}
		}
		if len(of) > 0 {
			panels = append(panels, panel{newPanel(metric, of), len(of)})
			rows += len(of)
		}
	}
	return panels, rows
}

func newPanel(metric Metric, rows []Row) *plot.Plot {
	p := plot.New()
	better := "more is better"
	if metric.Less {
		better = "less is better"
	}
	p.Title.Text = fmt.Sprintf("%s (%s; %s)", metric.Name, metric.Unit, better)
	if metric.Unit == metric.Name {
		p.Title.Text = fmt.Sprintf("%s (%s)", metric.Name, better)
	}
	p.Title.TextStyle = style(12, dimColour, text.YTop)
	p.Title.TextStyle.XAlign = text.XCenter
	p.Title.Padding = vg.Points(6)
	b := bars{rows: rows, label: style(11, inkColour, text.YCenter)}
	names := make([]plot.Tick, len(rows))
	for i, row := range rows {
		names[i] = plot.Tick{Value: b.at(i), Label: row.Name()}
	}
	p.HideY()
	p.Y.Tick.Marker = plot.ConstantTicks(names)
	p.Y.Tick.Label = style(11.5, inkColour, text.YCenter)
	p.Y.Tick.Label.XAlign = text.XRight
	p.Y.Padding = 0
	p.Add(b)
	scaleX(p, metric, rows)
	return p
}

// scaleX chooses the horizontal axis: from nothing, or on a logarithmic scale from the power of ten below
// half the least value. The tenth on the right is for the figures.
func scaleX(p *plot.Plot, metric Metric, rows []Row) {
	p.X.LineStyle.Width = vg.Points(0.5)
	p.X.LineStyle.Color = gridColour
	p.X.Tick.LineStyle.Color = gridColour
	p.X.Tick.Label = style(9, dimColour, text.YTop)
	p.X.Tick.Label.XAlign = text.XCenter
	least, most := math.Inf(1), 0.0
	for _, row := range rows {
		most = math.Max(most, math.Max(row.Median, row.Max))
		if row.Min > 0 {
			least = math.Min(least, row.Min)
		}
	}
	switch {
	case most <= 0:
		p.X.Min, p.X.Max = 0, 1
	case metric.Log && most > 20*least:
		p.X.Scale = plot.LogScale{}
		p.Title.Text += ", logarithmic"
		p.X.Min = math.Pow10(int(math.Floor(math.Log10(least / 2))))
		p.X.Max = most * math.Pow(most/p.X.Min, 0.12)
		p.X.Tick.Marker = ticks(powersOfTen)
	default:
		p.X.Min, p.X.Max = 0, most*1.12
		p.X.Tick.Marker = ticks(roundNumbers)
	}
}

// ticks is a function that places ticks.
type ticks func(from, to float64) []plot.Tick

// Ticks places them; package plot calls it.
func (t ticks) Ticks(from, to float64) []plot.Tick { return t(from, to) }

func powersOfTen(from, to float64) (all []plot.Tick) {
	for v := from; v <= to; v *= 10 {
		all = append(all, plot.Tick{Value: v, Label: tickLabel(v)})
	}
	return all
}

// tickLabel is a round number without the zeros that a figure has: 0.5, 20, 1,000.
func tickLabel(v float64) string {
	if v >= 1000 {
		return Figure(v)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// roundNumbers are three to seven ticks at 1, 2 or 5 times a power of ten.
func roundNumbers(from, to float64) (all []plot.Tick) {
	step := math.Pow10(int(math.Floor(math.Log10((to - from) / 3))))
	for _, times := range []float64{5, 2} {
		if (to-from)/(step*times) >= 3 {
			step *= times
			break
		}
	}
	for i := 0; from+float64(i)*step <= to; i++ {
		v := from + float64(i)*step
		all = append(all, plot.Tick{Value: v, Label: tickLabel(v)})
	}
	return all
}

// drawPanels draws the panels below each other, their bars beginning at one line, each as high as its rows
// need.
func drawPanels(area draw.Canvas, panels []panel) {
	var widest vg.Length
	for _, p := range panels {
		widest = max(widest, p.plot.DataCanvas(area).Min.X-area.Min.X)
	}
	top := area.Max.Y
	for _, p := range panels {
		height := vg.Points(float64(panelFrame + p.rows*rowHeight))
		part := draw.Canvas{Canvas: area.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: area.Min.X, Y: top - height}, Max: vg.Point{X: area.Max.X, Y: top},
		}}
		part = draw.Crop(part, widest-(p.plot.DataCanvas(part).Min.X-part.Min.X), 0, vg.Points(8), 0)
		p.plot.Draw(part)
		top -= height
	}
}

// style is sans serif, which a projector shows best.
func style(size float64, colour color.Color, align text.YAlignment) text.Style {
	return text.Style{
		Color: colour, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)},
		XAlign: text.XLeft, YAlign: align, Handler: plot.DefaultTextHandler,
	}
}
