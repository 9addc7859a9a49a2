package report

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colours: one for Belay, a grey for its peers, an outline for floors.
var (
	belayColour = color.NRGBA{R: 0xc8, G: 0x3e, B: 0x24, A: 0xff}
	peerColour  = color.NRGBA{R: 0x9a, G: 0xa3, B: 0xae, A: 0xff}
	floorColour = color.NRGBA{R: 0xf1, G: 0xf2, B: 0xf4, A: 0xff}
	inkColour   = color.NRGBA{R: 0x22, G: 0x26, B: 0x2b, A: 0xff}
	dimColour   = color.NRGBA{R: 0x6b, G: 0x72, B: 0x7c, A: 0xff}
	gridColour  = color.NRGBA{R: 0xe3, G: 0xe5, B: 0xe8, A: 0xff}
)

// bars are the rows of one metric as horizontal bars, the first on top, with whiskers from least to most and
// the median in figures beside them.
type bars struct {
	rows  []Row
	label text.Style
}

// thickness is of a bar, in rows; the rest is air.
const thickness = 0.62

// Plot draws the bars; package plot calls it.
func (b bars) Plot(canvas draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&canvas)
	left := canvas.Min.X
	for i, row := range b.rows {
		middle := y(b.at(i))
		half := (y(1) - y(0)) * thickness / 2
		right := x(math.Max(row.Median, p.X.Min))
		box := []vg.Point{{X: left, Y: middle - half}, {X: right, Y: middle - half}, {X: right, Y: middle + half}, {X: left, Y: middle + half}}
		canvas.FillPolygon(colourOf(row.Kind), box)
		if row.Kind == Floor {
			canvas.StrokeLines(draw.LineStyle{Color: dimColour, Width: vg.Points(0.7)}, append(box, box[0]))
		}
		end := right
		if len(row.Values) > 1 {
			least, most := x(math.Max(row.Min, p.X.Min)), x(math.Max(row.Max, p.X.Min))
			whisker := draw.LineStyle{Color: inkColour, Width: vg.Points(1)}
			canvas.StrokeLine2(whisker, least, middle, most, middle)
			for _, at := range []vg.Length{least, most} {
				canvas.StrokeLine2(whisker, at, middle-half/3, at, middle+half/3)
			}
			end = max(end, most)
		}
		canvas.FillText(b.label, vg.Point{X: end + vg.Points(6), Y: middle}, Figure(row.Median))
	}
}

// at is where on the vertical axis a row stands.
func (b bars) at(i int) float64 { return float64(len(b.rows) - 1 - i) }

// DataRange is the extent of the bars, with room for the figures on the right.
func (b bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	for _, row := range b.rows {
		xmax = math.Max(xmax, math.Max(row.Median, row.Max))
	}
	return 0, xmax, -0.5, float64(len(b.rows)) - 0.5
}

func colourOf(kind Kind) color.Color {
	switch kind {
	case Belay:
		return belayColour
	case Floor:
		return floorColour
	default:
		return peerColour
	}
}
