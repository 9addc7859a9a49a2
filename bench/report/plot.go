package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Sizes in pixels: a slide's width, and a row high enough for a label that can be read from afar.
const (
	plotWidth, padding = 800.0, 18.0
	rowHeight, bar     = 25.0, 15.5
	headHeight         = 48.0
	panelHead, axis    = 34.0, 28.0
	letter             = 6.3 // the width of a letter of a label, about
)

// The colours: one for Belay, a grey for its peers, an outline for floors, which nothing competes with.
var colours = map[Kind]string{Belay: "#c83e24", Peer: "#9aa3ae", Floor: "#f1f2f4"}

const ink, dim, grid = "#22262b", "#6b727c", "#e3e5e8"

// svg draws the plotted metrics of a result, a panel of horizontal bars each; empty if there are none.
func svg(r *Result) string {
	left, y := padding, headHeight
	var panels [][]Row
	var metrics []Metric
	for _, metric := range r.Metrics {
		var of []Row
		for _, like := range r.subjects() {
			if row, found := r.find(like, metric); found && metric.Plot {
				of = append(of, row)
				left = max(left, 2*padding+letter*float64(utf8.RuneCountInString(row.Name())))
			}
		}
		if len(of) > 0 {
			panels, metrics = append(panels, of), append(metrics, metric)
		}
	}
	if len(panels) == 0 {
		return ""
	}
	var out strings.Builder
	text(&out, padding, 30, 19, "start", ink, r.Title)
	for i, rows := range panels {
		y = drawPanel(&out, left, y, metrics[i], rows)
	}
	y += padding
	text(&out, padding, y, 9, "start", dim, fmt.Sprintf("%s · %s · %s", r.Machine, r.Date.Format("2006-01-02"), barsAre(r)))
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="Liberation Sans, sans-serif">`+
		`<rect width="100%%" height="100%%" fill="#fff"/>`+"\n%s</svg>\n", plotWidth, y+padding, &out)
}

func text(out *strings.Builder, x, y, size float64, anchor, colour, words string) {
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f" font-size="%g" text-anchor="%s" fill="%s">%s</text>`+"\n",
		x, y, size, anchor, colour, html.EscapeString(words))
}

func line(out *strings.Builder, x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(out, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, colour)
}

// drawPanel draws one metric's rows, the first on top, with whiskers from least to most and the median in
// figures beside them, and returns where it ends.
func drawPanel(out *strings.Builder, left, y float64, metric Metric, rows []Row) (end float64) {
	scale, ticks, kind := scaleOf(metric, rows)
	x := func(v float64) float64 { return left + scale(v)*(plotWidth-padding-left) }
	better := "more is better"
	if metric.Less {
		better = "less is better"
	}
	if metric.Unit != metric.Name {
		better = metric.Unit + "; " + better
	}
	text(out, plotWidth/2, y+16, 12, "middle", dim, fmt.Sprintf("%s (%s)%s", metric.Name, better, kind))
	y += panelHead
	bottom := y + rowHeight*float64(len(rows))
	for _, tick := range ticks {
		line(out, x(tick), y, x(tick), bottom+4, grid)
		text(out, x(tick), bottom+16, 9, "middle", dim, tickLabel(tick))
	}
	for _, row := range rows {
		middle := y + rowHeight/2
		text(out, left-8, middle+4, 11.5, "end", ink, row.Name())
		border := colours[row.Kind]
		if row.Kind == Floor {
			border = dim
		}
		fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" stroke="%s"/>`+"\n",
			left, middle-bar/2, x(row.Median)-left, bar, colours[row.Kind], border)
		right := x(row.Median)
		if len(row.Values) > 1 {
			least, most := x(row.Min), x(row.Max)
			line(out, least, middle, most, middle, ink)
			line(out, least, middle-3, least, middle+3, ink)
			line(out, most, middle-3, most, middle+3, ink)
			right = max(right, most)
		}
		text(out, right+6, middle+4, 11, "start", ink, Figure(row.Median))
		y += rowHeight
	}
	return bottom + axis
}

// scaleOf returns a metric's horizontal axis: from nothing, or on a logarithmic scale from the power of ten
// below half the least value. The tenth on the right is for the figures.
func scaleOf(metric Metric, rows []Row) (scale func(v float64) float64, ticks []float64, kind string) {
	least, most := math.Inf(1), 0.0
	for _, row := range rows {
		most = max(most, row.Median, row.Max)
		if row.Min > 0 {
			least = min(least, row.Min)
		}
	}
	if metric.Log && most > 20*least {
		from := math.Pow10(int(math.Floor(math.Log10(least / 2))))
		for v := from; v <= most; v *= 10 {
			ticks = append(ticks, v)
		}
		return func(v float64) float64 { return math.Log(max(v, from)/from) / math.Log(most/from) / 1.12 }, ticks, ", logarithmic"
	}
	if most <= 0 {
		most = 1
	}
	// Three to seven ticks at 1, 2 or 5 times a power of ten.
	step := math.Pow10(int(math.Floor(math.Log10(most / 3))))
	for _, times := range []float64{5, 2} {
		if most/(step*times) >= 3 {
			step *= times
			break
		}
	}
	for i := 0; float64(i)*step <= most; i++ {
		ticks = append(ticks, float64(i)*step)
	}
	return func(v float64) float64 { return max(v, 0) / most / 1.12 }, ticks, ""
}

// tickLabel is a round number without the zeros that a figure has: 0.5, 20, 1,000.
func tickLabel(v float64) string {
	if v >= 1000 {
		return Figure(v)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// barsAre describes a bar and its whiskers.
func barsAre(r *Result) string {
	least, most := math.MaxInt, r.maxRuns()
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
