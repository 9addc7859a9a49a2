package main

import (
	"context"
	"fmt"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

// idleRate is how many jobs a second come to an idle worker. They come one by one: the gaps, 40 ms on average, are many times
// what a job takes with any system that waits for jobs. With one that looks for them at times, asynq above all, which looks
// at an empty queue once a second, the rate changes nothing: a look takes all that is there, so that a job that comes at
// any moment finds the same sleep before it as on a queue where nothing has come for hours.
const idleRate = 25

// idleConcurrency is how many jobs the idle worker could run at once: Belay's default. There is never more than one or two.
const idleConcurrency = 25

var latencyMeasure = measure{
	name:  "latency",
	title: "Picking up a job on an idle queue",
	short: "How long it takes from the enqueuing of a job to its handler, where the worker has nothing else to do",
	what: fmt.Sprintf("A worker is idle. Jobs come one by one, %d a second, at instants that were drawn before the first of them. "+
		"What is counted is the time from the intended instant, not from the call, to the first line of the handler: a system that stalls "+
		"makes all jobs late that came meanwhile. Enqueuing and running happen in the same process, over the same Redis.", idleRate),
	read: "The floor is a bare BLMOVE that another connection's LPUSH ends: no system on Redis can be faster over that client on this " +
		"machine. The rest is scripts, JSON, and goroutines. A percentile is of one run, the median over the runs is shown: where a run has " +
		"fewer than a thousand jobs, its p99.9 is its slowest job.",
	metrics: report.LatencyMetrics("ms", "p50"),
	run:     latency,
}

func latency(ctx context.Context, b *bench, r *report.Result) error {
	seconds := 8.0
	if b.full {
		seconds = 60
	}
	task := subject.Task{Measure: "latency", Rate: idleRate, Seconds: seconds, Concurrency: b.pick(b.concurrency, idleConcurrency, idleConcurrency)}
	var turns []turn
	for _, who := range append(b.belays(), b.able(r)...) {
		turns = append(turns, b.latencyTurn(r, who, task))
	}
	for _, who := range b.floors("bare BLMOVE") {
		task.Measure = "pingpong"
		turns = append(turns, b.latencyTurn(r, who, task))
	}
	return b.rounds(ctx, r, b.repeats(2, 5), turns)
}

func (b *bench) latencyTurn(r *report.Result, who contender, task subject.Task) turn {
	what := fmt.Sprintf("%v jobs/s for %v s", task.Rate, task.Seconds)
	return turn{who: who, what: what, run: func(ctx context.Context) (string, error) {
		done, err := b.do(ctx, who, task, nil)
		if err != nil {
			return "", err
		}
		latency := report.NewLatency(done.LatenciesUS)
		row := who.row("")
		row.Settings = done.Settings
		r.AddLatency(row, latency, usPerMS)
		return fmt.Sprintf("p50 %s ms, p99 %s ms, sent %s µs late", report.Figure(latency.At(50)/usPerMS),
			report.Figure(latency.At(99)/usPerMS), report.Figure(done.Extra["sent_late_us"])), nil
	}}
}

const usPerMS = 1000
