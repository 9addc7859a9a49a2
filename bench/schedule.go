package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

// dueRate is how many jobs fall due a second, where they do so one by one.
const dueRate = 100

var scheduleMeasure = measurement{
	name:  "schedule",
	title: "Running a job when it is due",
	short: "How late scheduled jobs start: due one by one, and all at once",
	what: fmt.Sprintf("One worker process runs. First, it has jobs that fall due one by one, %d a second. Then, in an empty Redis, many "+
		"jobs fall due at the same instant, which is so late that all of them are stored well before. Measured is the time "+
		"between the instant at which a job is due and the first line of its handler, whether late or early.", dueRate),
	read: "\"earliest\" is the minimum lateness: if it is below zero, jobs ran that long before they were due. The columns of the burst grow " +
		"with the number of jobs, and \"burst last\" is when the last of them had started.",
	unused: []string{"profile"},
	metrics: []report.Metric{
		{Name: "p50", Unit: "ms", Less: true, Log: true, Plot: true},
		{Name: "p99", Unit: "ms", Less: true, Log: true},
		{Name: "max", Unit: "ms", Less: true, Log: true},
		{Name: "earliest", Unit: "ms"},
		{Name: "burst p50", Unit: "ms", Less: true, Log: true},
		{Name: "burst p99", Unit: "ms", Less: true, Log: true},
		{Name: "burst last", Unit: "ms", Less: true, Log: true, Plot: true},
	},
	run: schedule,
}

func schedule(ctx context.Context, b *bench, r *report.Result) error {
	concurrency := b.pick(b.concurrency, idleConcurrency, idleConcurrency)
	oneByOne := subject.Task{Measure: "schedule", Rate: dueRate, Seconds: float64(b.pick(0, 10, 60)), Concurrency: concurrency}
	burst := subject.Task{Measure: "burst", Jobs: b.size(10_000, 50_000), Concurrency: concurrency}
	var turns []turn
	pollers := []string{"asynq"}
	if b.full {
		pollers = []string{"asynq", "River", "Sidekiq"}
	}
	for _, v := range b.variants(r, pollers...) {
		oneByOne.Best, burst.Best = v.best, v.best
		turns = append(turns,
			b.dueTurn(r, v, oneByOne, fmt.Sprintf("%d/s", dueRate), func(off *report.Latency, earliest float64) map[string]float64 {
				return map[string]float64{"p50": off.At(50), "p99": off.At(99), "max": off.Max(), "earliest": earliest}
			}),
			b.dueTurn(r, v, burst, report.Count(burst.Jobs)+" due", func(off *report.Latency, _ float64) map[string]float64 {
				return map[string]float64{"burst p50": off.At(50), "burst p99": off.At(99), "burst last": off.Max()}
			}))
	}
	r.Notes = append(r.Notes, fmt.Sprintf("The burst is %s jobs.", report.Count(burst.Jobs)))
	return b.rounds(ctx, r, b.repeats(1, 5), turns)
}

// dueTurn is one contender's run of that task. figures are of how far off jobs were, and of the least lateness,
// all in microseconds.
func (b *bench) dueTurn(r *report.Result, v variant, task subject.Task, what string, figures func(off *report.Latency, earliest float64) map[string]float64) turn {
	t := b.turn(r, v.who, v.name, task, func(f found) (map[string]float64, string) {
		off := report.NewLatency(distances(f.LatenciesUS))
		found := figures(off, slices.Min(f.LatenciesUS))
		for metric := range found {
			found[metric] /= usPerMS
		}
		return found, fmt.Sprintf("off by %s ms (p50), %s ms (max)", report.Figure(off.At(50)/usPerMS), report.Figure(off.Max()/usPerMS))
	})
	t.what += ", " + what
	return t
}

// distances returns the latenesses without their signs: a job that ran half a second before it was due is as
// wrong as one that ran half a second after.
func distances(late []float64) []float64 {
	off := make([]float64, len(late))
	for i, us := range late {
		off[i] = math.Abs(us)
	}
	return off
}
