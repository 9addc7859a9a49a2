package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds of a latency histogram: no measurement waits for an hour, and figures are quoted with three digits.
const (
	mostLatencyUS = 3_600_000_000
	digits        = 3
)

// A Latency is the distribution of latencies, in microseconds.
type Latency struct {
	hist *hdrhistogram.Histogram
	min  float64
}

// NewLatency makes a distribution of values in microseconds. They must have been taken from intended
// instants: only then do those that came while the subject was busy count as what they are, and coordinated
// omission is corrected at its root.
func NewLatency(valuesUS []float64) *Latency {
	l := &Latency{hist: hdrhistogram.New(1, mostLatencyUS, digits), min: math.Inf(1)}
	for _, us := range valuesUS {
		l.min = min(l.min, us)
		// A histogram holds nothing below 0: what ran early counts as on time here, and Min tells.
		_ = l.hist.RecordValue(int64(math.Round(min(max(us, 0), mostLatencyUS))))
	}
	return l
}

// At is the value that so many percent of all are not above.
func (l *Latency) At(percent float64) float64 {
	return float64(l.hist.ValueAtPercentile(percent))
}

// Count is how many values there are.
func (l *Latency) Count() int64 { return l.hist.TotalCount() }

// Min is the least value, which may be negative for a job that ran before it was due.
func (l *Latency) Min() float64 { return l.min }

// Max is the greatest value, to the histogram's digits.
func (l *Latency) Max() float64 { return float64(l.hist.Max()) }

// LatencyMetrics are the columns that AddLatency fills, in units of so many microseconds: ("ms", 1000).
// The headline is the named percentile.
func LatencyMetrics(unit, headline string) []Metric {
	metrics := make([]Metric, 0, len(percentiles))
	for _, p := range percentiles {
		metrics = append(metrics, Metric{Name: p.name, Unit: unit, Less: true, Log: true, Plot: p.name == "p50" || p.name == "p99"})
	}
	at := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == headline })
	if at < 0 {
		panic(fmt.Sprintf("report: no percentile %q", headline))
	}
	first := metrics[at]
	return append([]Metric{first}, slices.Delete(metrics, at, at+1)...)
}

// percentiles are the reported ones. The last three stand for what an operator sees on a bad day.
var percentiles = []struct {
	name    string
	percent float64
}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}}

// AddLatency adds one repeat's distribution as a figure of each percentile to the rows like row, divided by
// unitUS.
func (r *Result) AddLatency(row Row, l *Latency, unitUS float64) {
	for _, p := range percentiles {
		row.Metric = p.name
		r.Add(row, l.At(p.percent)/unitUS)
	}
}
