package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

const (
	// maxClasses bounds the classes that one Classes lists, those with the most runs.
	maxClasses = 500
	// maxSeen bounds the classes that it keeps while it reads. Each worker writes a few hundred at most.
	maxSeen = 4 * maxClasses
	// maxHistograms bounds the histograms that one Classes reads. With more, it reads those of the classes
	// with the most runs. Redis serves so many within some 20 ms, in pages.
	maxHistograms = 20_000
	// histogramsAtOnce is how many go in one pipeline.
	histogramsAtOnce = 512
	// bucketsAtOnce is how many hashes of figures go in one pipeline: each has three fields for each class.
	bucketsAtOnce = 32
)

// MaxWindow is the longest window of Classes, because Redis keeps the figures for this long.
const MaxWindow = lua.KeepTens

// A ClassWindow selects the classes and the time that Classes reads.
type ClassWindow struct {
	// Last is the length of the window, which ends now. Up to eight hours it is counted in minutes, and Run and
	// Wait are known; longer ones, up to 72 hours, are counted in tens of minutes. Default: an hour.
	Last time.Duration
	// Class reads that class alone. Default: all.
	Class string
}

// Classes are the statistics of classes over a window of time, from Sidekiq's execution metrics, which workers
// of Belay and of Sidekiq 8 write every few seconds.
type Classes struct {
	// At is when they were read, by Redis' clock. From is the beginning of the first step.
	At   time.Time `json:"at"`
	From time.Time `json:"from"`
	// Step is the length of a step: a minute or ten. The last step is still being counted.
	Step Seconds `json:"step_seconds"`
	// ClassCount counts the classes with runs in the window; Classes are at most 500 of them, those with the
	// most runs first.
	ClassCount int     `json:"class_count"`
	Classes    []Class `json:"classes"`
	// Problems describes what could not be read, at most 20.
	Problems []string `json:"problems"`
}

// A Class is the statistics of one class.
type Class struct {
	Name string `json:"class"`
	// Runs counts the runs that succeeded or failed, and Failed those that failed. Time is the sum of the
	// durations of the successful ones, and Mean their mean; nil if there are none.
	Runs   int64    `json:"runs"`
	Failed int64    `json:"failed"`
	Time   Seconds  `json:"time_seconds"`
	Mean   *Seconds `json:"mean_seconds"`
	// Run is how long successful runs took, and Wait how long the jobs had waited in their queues before. nil
	// means unknown: in a window of more than eight hours, and Wait for the runs of Ruby workers.
	Run  *Durations `json:"run"`
	Wait *Durations `json:"wait"`
	// Steps are the figures of each step from From on.
	Steps []ClassStep `json:"steps"`
}

// A ClassStep is the figures of a class in one step.
type ClassStep struct {
	Runs   int64   `json:"runs"`
	Failed int64   `json:"failed"`
	Time   Seconds `json:"time_seconds"`
}

// Durations is a distribution. Its percentiles are estimated within the bucket of a histogram, so they are
// accurate to about a quarter. Below 20 ms and above 335 s, only these bounds are known: a percentile of at
// most 20 ms says no more than that. PercentileText writes one for people.
type Durations struct {
	Count   int64     `json:"count"`
	P50     Seconds   `json:"p50_seconds"`
	P95     Seconds   `json:"p95_seconds"`
	P99     Seconds   `json:"p99_seconds"`
	Buckets Histogram `json:"buckets"` // see HistogramBounds
}

// PercentileText writes a percentile of Durations for people: below the first of HistogramBounds only that
// bound. write writes a duration.
func PercentileText(p Seconds, write func(Seconds) string) string {
	if bound := lua.HistogramBounds[0]; p.Duration <= bound {
		return "< " + write(Seconds{bound})
	}
	return write(p)
}

// TookText writes the Time or the Mean of a Class for people. Workers count in whole milliseconds.
func TookText(took Seconds, write func(Seconds) string) string {
	if took.Duration < time.Millisecond {
		return "< " + write(Seconds{time.Millisecond})
	}
	return write(took)
}

// A Histogram counts durations by bucket: see HistogramBounds.
type Histogram = lua.Histogram

// HistogramBounds returns the upper bounds of the buckets of a Histogram, exclusive. One more bucket counts
// what is longer.
func HistogramBounds() []time.Duration { return slices.Clone(lua.HistogramBounds[:]) }

// Classes reads the statistics of classes. It fails only if nothing can be read.
func (i *Inspector) Classes(ctx context.Context, window ClassWindow) (Classes, error) {
	var r reading
	now := r.time(i.do(ctx, []driver.Call{lua.AskTime})[0])
	w, err := newClassReading(i.keys, window, now)
	if err != nil {
		return Classes{}, err
	}
	i.readFigures(ctx, &r, w)
	if len(w.classes) == 0 && r.err == nil && len(r.refused) > 0 && driver.Denial(r.refused[0]) != "" {
		r.err = fmt.Errorf("nothing can be read: %w", r.refused[0])
	}
	list := Classes{At: now, From: w.from, Step: Seconds{w.step}, ClassCount: len(w.classes)}
	list.Classes = w.sorted()
	if w.step == time.Minute {
		i.readHistograms(ctx, &r, w, list.Classes)
	}
	list.Problems = orEmpty(r.problems)
	return list, r.err
}

// A classReading is Classes being read.
type classReading struct {
	keys    lua.Keys
	only    string
	from    time.Time
	step    time.Duration
	steps   int
	classes map[string]*Class
}

func newClassReading(keys lua.Keys, window ClassWindow, now time.Time) (*classReading, error) {
	last := cmp.Or(window.Last, time.Hour)
	w := &classReading{keys: keys, only: window.Class, step: time.Minute, classes: map[string]*Class{}}
	switch {
	case last < 0 || last > lua.KeepTens:
		return nil, fmt.Errorf("a window of %v: redis keeps the statistics of %v", last, lua.KeepTens)
	case last > lua.KeepMinutes:
		w.step = 10 * time.Minute
	}
	w.steps = int((last + w.step - 1) / w.step)
	w.from = now.UTC().Truncate(w.step).Add(-time.Duration(w.steps-1) * w.step)
	return w, nil
}

// at returns the beginning of a step.
func (w *classReading) at(step int) time.Time { return w.from.Add(time.Duration(step) * w.step) }

func (i *Inspector) readFigures(ctx context.Context, r *reading, w *classReading) {
	for first := 0; first < w.steps && r.err == nil; first += bucketsAtOnce {
		var calls []driver.Call
		for step := first; step < min(first+bucketsAtOnce, w.steps); step++ {
			calls = append(calls, w.figures(step))
		}
		for n, reply := range i.do(ctx, calls) {
			parts := r.texts("the statistics of "+w.at(first+n).Format(time.DateTime), reply)
			if w.only != "" {
				parts = w.named(parts)
			}
			for at := 0; at+1 < len(parts); at += 2 {
				if !w.add(first+n, parts[at], parts[at+1]) {
					r.problem("more than %d classes: the others are not shown", maxSeen)
				}
			}
		}
	}
}

// figures returns the call that reads the counts of a step.
func (w *classReading) figures(step int) driver.Call {
	key := w.keys.ClassMinute(w.at(step))
	if w.step != time.Minute {
		key = w.keys.ClassTen(w.at(step))
	}
	if w.only == "" {
		return driver.Command("HGETALL", key)
	}
	return driver.Command("HMGET", key, w.only+lua.FieldProcessed, w.only+lua.FieldFailed, w.only+lua.FieldTime)
}

// named puts the names of the fields before their values.
func (w *classReading) named(values []string) []string {
	var parts []string
	for n, field := range []string{lua.FieldProcessed, lua.FieldFailed, lua.FieldTime} {
		if n < len(values) && values[n] != "" {
			parts = append(parts, w.only+field, values[n])
		}
	}
	return parts
}

// add adds a field of a step, and reports whether there was room for its class. What is no number counts as
// nothing.
func (w *classReading) add(step int, field, value string) bool {
	at := strings.LastIndexByte(field, '|')
	n, err := strconv.ParseInt(value, 10, 64)
	if at < 0 || err != nil || n < 0 || n > maxTime {
		return true
	}
	class := w.classes[field[:at]]
	if class == nil {
		if len(w.classes) == maxSeen {
			return false
		}
		class = &Class{Name: field[:at], Steps: make([]ClassStep, w.steps)}
		w.classes[class.Name] = class
	}
	classStep := &class.Steps[step]
	switch field[at:] {
	case lua.FieldProcessed:
		classStep.Runs, class.Runs = n, class.Runs+n
	case lua.FieldFailed:
		classStep.Failed, class.Failed = n, class.Failed+n
	case lua.FieldTime:
		took := time.Duration(n) * time.Millisecond
		classStep.Time, class.Time = Seconds{took}, Seconds{class.Time.Duration + took}
	}
	return true
}

// maxTime bounds a count, and the milliseconds of a step, so that sums of them fit: 317 years of work.
const maxTime = 1e13 / 1000

// sorted returns the classes with the most runs.
func (w *classReading) sorted() []Class {
	list := make([]Class, 0, len(w.classes))
	for _, class := range w.classes {
		if succeeded := class.Runs - class.Failed; succeeded > 0 {
			class.Mean = &Seconds{class.Time.Duration / time.Duration(succeeded)}
		}
		list = append(list, *class)
	}
	slices.SortFunc(list, func(a, b Class) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), maxClasses)]
}

// readHistograms fills in Run and Wait. Only minutes in which a class ran have histograms to read.
func (i *Inspector) readHistograms(ctx context.Context, r *reading, w *classReading, classes []Class) {
	type minute struct{ class, step int }
	var minutes []minute
	for n := range classes {
		for step := w.steps - 1; step >= 0; step-- {
			if classes[n].Steps[step].Runs > 0 {
				minutes = append(minutes, minute{n, step})
			}
		}
	}
	if len(minutes) > maxHistograms/2 {
		minutes = minutes[:maxHistograms/2]
		r.problem("the durations of some classes are not read: ask for one class, or for a shorter window")
	}
	runs, waits := make([]lua.Histogram, len(classes)), make([]lua.Histogram, len(classes))
	for page := range slices.Chunk(minutes, histogramsAtOnce/2) {
		if r.err != nil {
			return
		}
		var calls []driver.Call
		for _, m := range page {
			calls = append(calls, w.keys.ReadHistograms(classes[m.class].Name, w.at(m.step))...)
		}
		replies := i.do(ctx, calls)
		for n, m := range page {
			step := classes[m.class].Steps[m.step]
			run, _ := r.value("a histogram of "+classes[m.class].Name, replies[2*n]).(string)
			wait, _ := r.value("a histogram of "+classes[m.class].Name, replies[2*n+1]).(string)
			sum(&runs[m.class], lua.RunsOf(run, uint64(max(step.Runs-step.Failed, 0))))
			sum(&waits[m.class], lua.WaitsOf(wait))
		}
	}
	for n := range classes {
		classes[n].Run, classes[n].Wait = durationsOf(runs[n]), durationsOf(waits[n])
	}
}

func sum(total *lua.Histogram, more lua.Histogram) {
	for i, n := range more {
		total[i] += n
	}
}

// durationsOf returns the percentiles of a histogram; nil if it is empty.
func durationsOf(h lua.Histogram) *Durations {
	count := h.Count()
	if count == 0 {
		return nil
	}
	return &Durations{
		Count: int64(count), P50: percentile(&h, count, 0.5), P95: percentile(&h, count, 0.95), P99: percentile(&h, count, 0.99), Buckets: h,
	}
}

// percentile estimates a percentile as if the durations of a bucket were spread evenly over it. In the last
// bucket, which has no upper bound, it is the lower one.
func percentile(h *lua.Histogram, count uint64, part float64) Seconds {
	rank := part * float64(count)
	for i, n := range h {
		if float64(n) < rank {
			rank -= float64(n)
			continue
		}
		var lower time.Duration
		if i > 0 {
			lower = lua.HistogramBounds[i-1]
		}
		if i == len(lua.HistogramBounds) {
			return Seconds{lower}
		}
		return Seconds{lower + time.Duration(rank/float64(n)*float64(lua.HistogramBounds[i]-lower))}
	}
	return Seconds{}
}
