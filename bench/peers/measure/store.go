package measure

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/bench/subject"
)

// The classes of jobs.
const (
	Noop  = "Noop"         // does nothing
	Email = "WelcomeEmail" // has a payload such as people have, is stored, and never runs
)

// Noops are the jobs that do nothing.
func Noops(n int) Job { return Job{N: n, Class: Noop} }

func emails(n int) Job { return Job{N: n, Class: Email} }

// enqueue times Producers callers who store Jobs jobs between them, one call each, every reply awaited.
func (t *task) enqueue(ctx context.Context) (e subject.Event, err error) {
	if t.Jobs < 1 || t.Producers < 1 {
		return e, errors.New("jobs and producers are at least 1")
	}
	started := time.Now()
	err = Share(t.Jobs, t.Producers, func(n int) error { return t.peer.Enqueue(ctx, Noops(n)) })
	e.Seconds = time.Since(started).Seconds()
	return e, err
}

// Share calls do for every number below count from so many goroutines, and returns their errors when all have
// ended. A goroutine stops at its first error.
func Share(count, goroutines int, do func(n int) error) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, goroutines)
	for g := range goroutines {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < count && errs[g] == nil; n = int(next.Add(1)) - 1 {
				errs[g] = do(n)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// bulk times the same jobs stored in the system's fastest way.
func (t *task) bulk(ctx context.Context) (subject.Event, error) {
	took, err := t.storeAll(ctx, Noops)
	return subject.Event{Seconds: took.Seconds()}, err
}

// push stores jobs with a payload and holds still, so that the bench can look at the store's memory.
func (t *task) push(ctx context.Context) (subject.Event, error) {
	took, err := t.storeAll(ctx, emails)
	if err == nil {
		err = t.talk.Pushed(ctx, took)
	}
	return subject.Event{Seconds: took.Seconds()}, err
}

// storeAll stores the task's jobs in bulk and returns how long that took.
func (t *task) storeAll(ctx context.Context, job func(n int) Job) (time.Duration, error) {
	if t.Jobs < 1 {
		return 0, errors.New("jobs is at least 1")
	}
	started := time.Now()
	err := t.peer.EnqueueAll(ctx, t.Jobs, job)
	return time.Since(started), err
}

// fill stores no-op jobs before the part of a measure that is timed, and tells the bench.
func (t *task) fill(ctx context.Context) error {
	pushed, err := t.storeAll(ctx, Noops)
	if err == nil {
		err = t.peer.Rest(ctx)
	}
	if err == nil {
		err = t.talk.Pushed(ctx, pushed)
	}
	return err
}

// drain times one worker that empties a full queue, from its start to the last completion in the store: not
// until the queue is empty, which comes earlier.
func (t *task) drain(ctx context.Context) (e subject.Event, err error) {
	if err := t.fill(ctx); err != nil {
		return e, err
	}
	timing := NewTiming(t.Jobs)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	started := time.Now()
	err = t.peer.Start(ctx, "", func(n int, _ string) error {
		if err := timing.Starts(n, started); err != nil {
			return err
		}
		return t.work(ctx)
	})
	if err == nil {
		err = t.peer.WaitAcknowledged(ctx, t.Jobs)
	}
	e.Seconds = time.Since(started).Seconds()
	if err != nil {
		return e, err
	}
	runtime.ReadMemStats(&after)
	e.Extra = map[string]float64{"allocs_per_job": float64(after.Mallocs-before.Mallocs) / float64(t.Jobs)}
	return e, timing.check()
}
