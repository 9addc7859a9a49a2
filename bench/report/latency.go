package report

import (
	"fmt"
	"math"
	"slices"
)

// A Latency is the distribution of latencies, in microseconds.
type Latency struct{ sorted []float64 }

// NewLatency makes a distribution of values in microseconds. They must have been taken from intended instants:
// only then do those that came while the subject was busy count as what they are, and coordinated omission is
// corrected at its root. A job that ran early has a negative value.
func NewLatency(valuesUS []float64) *Latency {
	return &Latency{slices.Sorted(slices.Values(valuesUS))}
}

// At is the value that so many percent of all are not above.
func (l *Latency) At(percent float64) float64 {
	if len(l.sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(float64(len(l.sorted)) * percent / 100))
	return l.sorted[min(max(rank, 1), len(l.sorted))-1]
}

// Max is the greatest value.
func (l *Latency) Max() float64 { return l.At(100) }

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

// percentiles are those that are shown. The last three stand for what an operator sees on a bad day.
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
