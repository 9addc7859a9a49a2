package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// A timedWorker is Belay where times are measured: a client that puts jobs in, and a worker over the same
// connections.
type timedWorker struct {
	*pusher
	worker *launcher.Launcher
	ended  chan error // nil until the worker runs
}

// openTimed opens the connections. What config does not say is Belay's default. The caller closes it.
func openTimed(ctx context.Context, task subject.Task, config launcher.Config) (*timedWorker, error) {
	p, err := openPusher(ctx, task)
	if err != nil {
		return nil, err
	}
	config.Client, config.Prefix = p.conn, task.Prefix
	worker, err := launcher.New(config)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return &timedWorker{pusher: p, worker: worker}, nil
}

// start starts the worker.
func (w *timedWorker) start(ctx context.Context) {
	w.ended = make(chan error, 1)
	go func() { w.ended <- w.worker.Run(ctx) }()
}

// close stops the worker, if it was started, and closes the connections.
func (w *timedWorker) close() error {
	var stopped error
	if w.ended != nil {
		w.worker.Stop()
		stopped = <-w.ended
	}
	return errors.Join(stopped, w.Close())
}

const (
	// startWithin is how long a worker may take to run its first job. It takes milliseconds.
	startWithin = 30 * time.Second
	// idleFor is how long a worker has nothing to do before it counts as idle.
	idleFor = time.Second
	// missing is how long after the last instant a job may still come. A system that is later than that by
	// design has nothing to show in a figure of milliseconds.
	missing = 30 * time.Second
)

// warmUp is the class of the job that shows that the worker is up.
const warmUp = "WarmUp"

// warm starts the worker and returns when it has run a job, so that its scripts are loaded, and has then had
// nothing to do for a while.
func (w *timedWorker) warm(ctx context.Context) error {
	up := make(chan struct{}, 1)
	w.worker.Handle(warmUp, func(context.Context, *job.Job) error {
		up <- struct{}{}
		return nil
	}, launcher.Class{})
	w.start(ctx)
	if _, err := w.Push(ctx, client.RawJob{Class: warmUp}); err != nil {
		return err
	}
	if err := await(ctx, up, startWithin); err != nil {
		return fmt.Errorf("a worker that has just started ran no job: %w", err)
	}
	return pause(ctx, idleFor)
}

// A timing is a set of numbered jobs, the instant from which each is timed, and when it started.
type timing struct {
	// due is set before the first job is pushed.
	due  []time.Time
	late []time.Duration
	runs []atomic.Int32
	left atomic.Int64
	all  chan struct{} // closed when each has started
}

func newTiming(jobs int) *timing {
	t := &timing{due: make([]time.Time, jobs), late: make([]time.Duration, jobs), runs: make([]atomic.Int32, jobs), all: make(chan struct{})}
	t.left.Store(int64(jobs))
	return t
}

// handle is the handler of the jobs. It reads the clock before anything else.
func (t *timing) handle(_ context.Context, j *job.Job) error {
	now := time.Now()
	n, err := numberOf(j)
	if err != nil {
		return err
	}
	return t.starts(n, now)
}

// starts notes that a job has started. finish reports a job that starts twice.
func (t *timing) starts(n int, now time.Time) error {
	if n < 0 || n >= len(t.due) {
		return fmt.Errorf("job %d is none of ours", n)
	}
	if t.runs[n].Add(1) > 1 {
		return nil
	}
	t.late[n] = now.Sub(t.due[n])
	if t.left.Add(-1) == 0 {
		close(t.all)
	}
	return nil
}

// finish waits until all have started, and makes their times the last event.
func (t *timing) finish(ctx context.Context) (e subject.Event, err error) {
	last := t.due[0]
	for _, due := range t.due {
		if due.After(last) {
			last = due
		}
	}
	if err := await(ctx, t.all, time.Until(last)+missing); err != nil {
		return e, fmt.Errorf("%d of %d jobs have not started: %w", t.left.Load(), len(t.due), err)
	}
	for n := range t.late {
		if runs := t.runs[n].Load(); runs != 1 {
			return e, fmt.Errorf("job %d ran %d times", n, runs)
		}
		e.LatenciesUS = append(e.LatenciesUS, inMicros(t.late[n]))
	}
	return e, nil
}

func inMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// await waits for one word, or the close, of a channel.
func await(ctx context.Context, c <-chan struct{}, within time.Duration) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-c:
		return nil
	case <-timer.C:
		return fmt.Errorf("waited %v", within.Round(time.Millisecond))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pause waits so long, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
