package main

import (
	"context"
	"fmt"
	"time"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

var backlogMeasure = measurement{
	name:  "backlog",
	title: "Working off a long queue",
	short: "Whether a long queue slows a worker down",
	what: "A worker runs, and the same program pushes a new job, in bulk, for each that has ended, so that the length of the queue stays the same. " +
		"The same number of jobs is run with a short queue and with a long one, in turn.",
	read: "The two rates should be the same: a queue that slows down as it grows never catches up. They are lower than those of a drain, " +
		"because jobs are pushed at the same time. Redis' CPU includes pushing and running.",
	alone:  true,
	unused: []string{"profile"},
	metrics: []report.Metric{
		{Name: "jobs/s", Unit: "jobs/s", Plot: true},
		{Name: "redis", Unit: "µs CPU/job", Less: true, Plot: true},
	},
	run: backlog,
}

func backlog(ctx context.Context, b *bench, r *report.Result) error {
	const sample, full = 100_000, 200_000
	lengths := []int{10_000, b.pick(0, 500_000, 5_000_000)}
	var turns []turn
	for _, c := range b.belays() {
		for _, length := range lengths {
			turns = append(turns, b.backlogTurn(r, c, subject.Task{
				Measure: "backlog", Jobs: b.size(sample, full), Backlog: length, Concurrency: b.pick(b.concurrency, defaultConcurrency, defaultConcurrency),
			}))
		}
	}
	return b.rounds(ctx, r, b.repeats(3, 5), turns)
}

func (b *bench) backlogTurn(r *report.Result, c contender, task subject.Task) turn {
	return b.turn(r, c, report.Count(task.Backlog)+" waiting", task, func(f found) (map[string]float64, string) {
		ended := f.Extra["ended"]
		return rate(map[string]float64{"jobs/s": ended / f.Seconds, "redis": f.us(subject.Pushed, subject.Done, ended)}, "jobs/s")
	})
}

// belayBacklog fills the queue to its length, and then runs jobs while as many are pushed.
func belayBacklog(ctx context.Context, talk *subject.Talk, p *belayPeer) error {
	if err := p.employ(launcher.Config{Concurrency: p.task.Concurrency}); err != nil {
		return err
	}
	p.worker.Handle(measure.Noop, func(context.Context, *job.Job) error { return nil }, launcher.Class{})
	if err := p.fill(ctx, talk, p.task.Backlog); err != nil {
		return err
	}
	started := time.Now()
	p.run(ctx)
	ended, err := p.replace(ctx, p.task.Jobs)
	if err != nil {
		return err
	}
	// Said before the worker stops: what it still works off meanwhile is not in Seconds, and must not be in
	// Redis' CPU.
	return talk.Done(subject.Event{
		Seconds: time.Since(started).Seconds(), Extra: map[string]float64{"ended": float64(ended)},
		Settings: fmt.Sprintf("concurrency %d", p.task.Concurrency),
	})
}

// replace pushes a job for each that has ended, until n have ended, and returns how many have.
func (p *belayPeer) replace(ctx context.Context, jobs int) (ended int, err error) {
	for pushed := 0; ended < jobs; {
		if ended, err = p.processed(ctx); err != nil {
			return ended, err
		}
		if err := p.EnqueueAll(ctx, ended-pushed, measure.Noops); err != nil {
			return ended, err
		}
		pushed = ended
		if err := measure.Pause(ctx, 2*time.Millisecond); err != nil {
			return ended, err
		}
	}
	return ended, nil
}
