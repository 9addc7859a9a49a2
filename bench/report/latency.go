package report

import (
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

// LatencyMetrics are the columns of Percentiles; the headline comes first.
func LatencyMetrics(unit string) []Metric {
	var metrics []Metric
	for _, p := range percentiles {
		metrics = append(metrics, Metric{Name: p.name, Unit: unit, Less: true, Log: true, Plot: p.name == "p50" || p.name == "p99"})
	}
	return metrics
}

// percentiles are those that are shown. The last three stand for what an operator sees on a bad day.
var percentiles = []struct {
	name    string
	percent float64
}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}}

// Percentiles is the figure of each percentile by its name, in units of so many microseconds.
func (l *Latency) Percentiles(unitUS float64) map[string]float64 {
	figures := make(map[string]float64, len(percentiles))
	for _, p := range percentiles {
		figures[p.name] = l.At(p.percent) / unitUS
	}
	return figures
}
