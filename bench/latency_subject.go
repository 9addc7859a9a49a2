package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/launcher"
)

// latencySubject enqueues jobs into an idle worker at instants that were fixed beforehand, and times each
// from its instant.
func latencySubject(ctx context.Context, task subject.Task, talk *subject.Talk) (err error) {
	w, err := openTimed(ctx, task, launcher.Config{Concurrency: task.Concurrency})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	timing := newTiming(countOf(task))
	w.worker.Handle("Noop", timing.handle, launcher.Class{})
	if err := w.warm(ctx); err != nil {
		return err
	}
	sent, err := openLoop(ctx, task, timing.due, func(n int) error {
		_, err := w.Push(ctx, noop(n))
		return err
	})
	if err != nil {
		return err
	}
	e, err := timing.finish(ctx)
	if err != nil {
		return err
	}
	e.Settings, e.Extra = "default settings", sent
	return talk.Done(e)
}

// countOf is how many jobs a rate for so many seconds makes.
func countOf(task subject.Task) int { return int(task.Rate * task.Seconds) }

// openLoop draws the instants and calls send at each of them, each in a goroutine of its own that waits for
// its instant: no slow call holds up the next, and none waits for a goroutine to be woken. It answers how
// late the calls began, in the median: that much of the times is the machine's, and not the system's.
func openLoop(ctx context.Context, task subject.Task, due []time.Time, send func(n int) error) (map[string]float64, error) {
	begin := time.Now().Add(idleFor)
	for n, at := range instants(rand.New(rand.NewPCG(rand.Uint64(), 0)), task.Rate, len(due)) {
		due[n] = begin.Add(at)
	}
	var sending sync.WaitGroup
	errs, behind := make([]error, len(due)), make([]float64, len(due))
	for n, at := range due {
		sending.Go(func() {
			if errs[n] = wakeUntil(ctx, at); errs[n] == nil {
				behind[n] = inMicros(time.Since(at))
				errs[n] = send(n)
			}
		})
	}
	sending.Wait()
	return map[string]float64{"sent_late_us": report.Median(behind)}, errors.Join(errs...)
}
