package main

import (
	"context"
	"fmt"
	"time"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

// idleRate is how many jobs a second come to an idle worker. They come one by one: the gaps, 25 ms on
// average, are many times what a job takes with any system that waits for jobs. With one that looks for them
// from time to time, asynq above all, which by default looks at an empty queue once a second, the rate
// changes little: a look takes all that is there, so that a job that comes at any moment finds the same sleep
// before it as on a queue where nothing has come for hours.
const idleRate = 40

// idleConcurrency is how many jobs the idle worker could run at once: Belay's default. There is never more
// than one or two.
const idleConcurrency = 25

var latencyMeasure = measurement{
	name:  "latency",
	title: "Picking up a job on an idle queue",
	short: "How long it takes from the enqueuing of a job to its handler, where the worker has nothing else to do",
	what: fmt.Sprintf("A worker is idle. Jobs come one by one, %d a second, at instants that were drawn before the first of them. "+
		"What is counted is the time from the intended instant, not from the call, to the first line of the handler: a system that stalls "+
		"makes all jobs late that came meanwhile. Enqueuing and running happen in the same process, over the same Redis.", idleRate),
	read: "The floor is a bare BLMOVE that another connection's LPUSH ends: no system on Redis can be faster over that client on this " +
		"machine. The rest is scripts, JSON, and goroutines. A percentile is of one run, the median over the runs is shown: where a run has " +
		"fewer than a thousand jobs, its p99.9 is its slowest job. Redis' processor time is what all of it costs: a worker that looks " +
		"for jobs often finds them soon, and spends that all day.",
	unused:  []string{"jobs", "profile"},
	metrics: append(report.LatencyMetrics("ms", "p50"), report.Metric{Name: "redis CPU", Unit: "% of a core", Less: true}),
	run:     latency,
}

func latency(ctx context.Context, b *bench, r *report.Result) error {
	seconds := 6.0
	if b.full {
		seconds = 60
	}
	task := subject.Task{Measure: "latency", Rate: idleRate, Seconds: seconds, Concurrency: b.pick(b.concurrency, idleConcurrency, idleConcurrency)}
	var turns []turn
	for _, v := range b.variants(r, "asynq", "River") {
		task.Best = v.best
		turns = append(turns, b.latencyTurn(r, v.who, v.name, task))
	}
	task.Measure, task.Best = "pingpong", false
	for _, who := range b.floors("bare BLMOVE") {
		turns = append(turns, b.latencyTurn(r, who, "", task))
	}
	return b.rounds(ctx, r, b.repeats(2, 5), turns)
}

func (b *bench) latencyTurn(r *report.Result, who contender, which string, task subject.Task) turn {
	return turn{who: who, what: which, run: func(ctx context.Context) (string, error) {
		var redis load
		done, err := b.do(ctx, who, task, func(e subject.Event) error { return redis.at(ctx, b, e) })
		if err != nil {
			return "", err
		}
		latency := report.NewLatency(done.LatenciesUS)
		row := who.row(which)
		row.Settings = done.Settings
		r.AddLatency(row, latency, usPerMS)
		if !who.postgres {
			row.Metric = "redis CPU"
			r.Add(row, redis.percent)
		}
		return saidLatency(latency, done.Extra), nil
	}}
}

// saidLatency returns a line of progress. It includes how late jobs were sent if the subject reports that.
func saidLatency(latency *report.Latency, extra map[string]float64) string {
	said := fmt.Sprintf("p50 %s ms, p99 %s ms", report.Figure(latency.At(50)/usPerMS), report.Figure(latency.At(99)/usPerMS))
	if late, known := extra["sent_late_us"]; known {
		said += fmt.Sprintf(", sent %s µs late", report.Figure(late))
	}
	return said
}

// A load is Redis' share of a core from a subject's beginning to its end, in percent.
type load struct {
	began   time.Time
	before  time.Duration
	percent float64
}

func (l *load) at(ctx context.Context, b *bench, e subject.Event) error {
	used, err := redisCPU(ctx, b.look)
	switch e.Event {
	case subject.Ready:
		l.began, l.before = time.Now(), used
	case subject.Done:
		l.percent = 100 * (used - l.before).Seconds() / time.Since(l.began).Seconds()
	}
	return err
}

const usPerMS = 1000
