package report

import (
	"slices"
	"time"
)

// A Result is what one measure found in one run of the bench. Figures are of one machine on one day: compare
// them inside a Result, and quote its Command, Machine and Date with them.
type Result struct {
	// Measure is its name, Title a headline, and What the sentence that says what was measured.
	Measure string `json:"measure"`
	Title   string `json:"title"`
	What    string `json:"what"`
	// HowToRead says what to look at and what not to conclude.
	HowToRead string `json:"how_to_read"`

	Command  string            `json:"command"`
	Date     time.Time         `json:"date"`
	Machine  Machine           `json:"machine"`
	Versions map[string]string `json:"versions"`

	// Metrics are what Rows tell, in the order in which they are shown. The first is the headline: the one
	// that is compared in the summary, each subject by its best row.
	Metrics []Metric `json:"metrics"`
	Rows    []Row    `json:"rows"`
	// Notes are findings in words that belong below the table.
	Notes []string `json:"notes,omitempty"`
	// LeftOut are the subjects that were not measured, and why.
	LeftOut []LeftOut `json:"left_out"`
}

// A Metric is one column of figures.
type Metric struct {
	// Name is how rows refer to it: "jobs/s".
	Name string `json:"name"`
	// Unit is printed behind a figure: "jobs/s", "µs", "bytes".
	Unit string `json:"unit"`
	// Less says that less is better.
	Less bool `json:"less_is_better"`
	// Of says, if not 0, that a value is a count of things out of so many in each repeat, and that the sum
	// over the repeats is shown, "9 of 200": a median would hide what happens seldom, which is what such a
	// count is for.
	Of int `json:"of,omitempty"`
	// Log asks for a logarithmic axis, where values lie so far apart that the small ones would vanish.
	Log bool `json:"log,omitempty"`
	// Plot asks for a panel of the plot.
	Plot bool `json:"plot,omitempty"`
}

// Kind says in which role a row stands in the comparison.
type Kind string

// The kinds.
const (
	Belay Kind = "belay"
	Peer  Kind = "peer"
	Floor Kind = "floor" // what this machine allows at best, with nothing done for the job: a bound, not a competitor
)

// A Row is one subject in one case, and one figure of it, once for each repeat.
type Row struct {
	// Subject is who: "Belay, go-redis", "asynq".
	Subject string `json:"subject"`
	Kind    Kind   `json:"kind"`
	// Case tells rows of one subject apart: "concurrency 100", "its best". Empty where there is but one.
	Case string `json:"case,omitempty"`
	// Settings are the subject's own words about what it chose.
	Settings string `json:"settings,omitempty"`
	// Metric is the name of one of the Result's Metrics.
	Metric string `json:"metric"`
	// Values has one figure for each repeat, in the order in which they were taken.
	Values []float64 `json:"values"`
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	// Ratio is Median divided by that of the Base row; 0 where there is none. Finish computes it.
	Ratio float64 `json:"ratio,omitempty"`
	Base  string  `json:"base,omitempty"`
}

// LeftOut is a subject that was not measured.
type LeftOut struct {
	Subject string `json:"subject"`
	Why     string `json:"why"`
}

// Add adds one figure, one of a repeat, to the row of that subject, case and metric; the first makes the row.
func (r *Result) Add(row Row, value float64) {
	at := slices.IndexFunc(r.Rows, func(known Row) bool {
		return known.Subject == row.Subject && known.Case == row.Case && known.Metric == row.Metric
	})
	if at < 0 {
		r.Rows = append(r.Rows, row)
		at = len(r.Rows) - 1
	}
	known := &r.Rows[at]
	known.Values = append(known.Values, value)
	if row.Settings != "" {
		known.Settings = row.Settings
	}
}

// Finish computes what follows from the figures: medians, spreads, and for each metric the ratio to the base:
// Belay's best row, or the first row where Belay was not measured.
func (r *Result) Finish() {
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Median, row.Min, row.Max = Median(row.Values), slices.Min(row.Values), slices.Max(row.Values)
	}
	for _, metric := range r.Metrics {
		base := r.base(metric)
		for i := range r.Rows {
			row := &r.Rows[i]
			if base != nil && row.Metric == metric.Name && base.Median != 0 {
				row.Ratio, row.Base = row.Median/base.Median, base.Name()
			}
		}
	}
}

// Name is the subject with its case.
func (r Row) Name() string {
	if r.Case == "" {
		return r.Subject
	}
	return r.Subject + ", " + r.Case
}

// Sum is that of all repeats' values.
func (r Row) Sum() float64 {
	var sum float64
	for _, value := range r.Values {
		sum += value
	}
	return sum
}

// base is the row that the others of a metric are compared with: of the best row by the headline, so that one
// row is the base of all columns.
func (r *Result) base(metric Metric) *Row {
	best := r.Best(func(row Row) bool { return row.Kind == Belay })
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Metric == metric.Name && (best == nil || row.Name() == best.Name()) {
			return row
		}
	}
	return nil
}

// Best is the best row by the headline metric of those that match, or nil.
func (r *Result) Best(match func(Row) bool) *Row {
	if len(r.Metrics) == 0 {
		return nil
	}
	headline := r.Metrics[0]
	var best *Row
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Metric != headline.Name || !match(*row) {
			continue
		}
		if best == nil || row.Median != best.Median && row.Median < best.Median == headline.Less {
			best = row
		}
	}
	return best
}

// Median is the middle value, or the mean of the two in the middle.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
