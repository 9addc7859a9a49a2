package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/launcher"
)

// notice is how far ahead of the first instant storing begins, and for a burst ends: what is late is never
// the storing.
const notice = 3 * time.Second

// scheduleSubject stores jobs that are due one after the other, and times each from the instant at which it
// is due.
func scheduleSubject(ctx context.Context, task subject.Task, talk *subject.Talk) error {
	period := time.Duration(float64(time.Second) / task.Rate)
	return scheduled(ctx, task, talk, countOf(task), 0, func(due []time.Time) {
		begin := wallClock(time.Now()).Add(notice)
		for n := range due {
			due[n] = begin.Add(time.Duration(n) * period)
		}
	})
}

// slowestStore is a rate, in jobs a second, at which every system can store jobs. A burst is due when they
// are certainly stored.
const slowestStore = 5000

// burstSubject stores jobs that are all due at one instant. It is a whole second, for the sake of systems
// that keep instants in seconds.
func burstSubject(ctx context.Context, task subject.Task, talk *subject.Talk) error {
	return scheduled(ctx, task, talk, task.Jobs, notice, func(due []time.Time) {
		storing := time.Duration(task.Jobs) * time.Second / slowestStore
		at := wallClock(time.Now()).Add(storing + notice + time.Second).Truncate(time.Second)
		for n := range due {
			due[n] = at
		}
	})
}

// wallClock takes away the monotonic clock: instants that stand in Redis are of the wall's, and so must their
// lateness be.
func wallClock(t time.Time) time.Time { return t.Round(0) }

// scheduled runs a worker, stores the jobs for the instants that plan draws, so long ahead of the first, and
// times them.
func scheduled(ctx context.Context, task subject.Task, talk *subject.Talk, jobs int, ahead time.Duration, plan func(due []time.Time)) (err error) {
	w, err := openTimed(ctx, task, launcher.Config{Concurrency: task.Concurrency})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	timing := newTiming(jobs)
	w.worker.Handle("Noop", timing.handle, launcher.Class{})
	if err := w.warm(ctx); err != nil {
		return err
	}
	plan(timing.due)
	if err := w.pushAt(ctx, timing.due, ahead); err != nil {
		return err
	}
	e, err := timing.finish(ctx)
	if err != nil {
		return err
	}
	e.Settings = "default settings"
	return talk.Done(e)
}

// pushAt stores all the jobs in bulk, each for its instant, and makes sure that the first is still so far
// ahead.
func (w *timedWorker) pushAt(ctx context.Context, due []time.Time, ahead time.Duration) error {
	took, err := w.pushAll(ctx, numbered(len(due), func(n int) client.RawJob {
		j := noop(n)
		j.At = due[n]
		return j
	}))
	if err == nil && time.Until(due[0]) < ahead {
		err = fmt.Errorf("storing %d jobs took %v: too long to tell a late run from a late push; ask for fewer", len(due), took.Round(time.Millisecond))
	}
	return err
}
