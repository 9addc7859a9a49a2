package measure

import (
	"context"
	"errors"
	"fmt"
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

func noops(n int) Job  { return Job{N: n, Class: Noop} }
func emails(n int) Job { return Job{N: n, Class: Email} }

// enqueue times Producers callers who store Jobs jobs between them, one call each, every reply awaited.
func (t *task) enqueue(ctx context.Context) (subject.Event, error) {
	if t.Jobs < 1 || t.Producers < 1 {
		return subject.Event{}, errors.New("jobs and producers are at least 1")
	}
	if err := t.talk.Ready(ctx); err != nil {
		return subject.Event{}, err
	}
	started := time.Now()
	err := Share(t.Jobs, t.Producers, func(n int) error { return t.peer.Enqueue(ctx, noops(n)) })
	return subject.Event{Seconds: time.Since(started).Seconds()}, err
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
	if err := t.talk.Ready(ctx); err != nil {
		return subject.Event{}, err
	}
	took, err := t.storeAll(ctx, noops)
	return subject.Event{Seconds: took.Seconds()}, err
}

// push stores jobs with a payload and holds still, so that the bench can look at the store's memory.
func (t *task) push(ctx context.Context) (subject.Event, error) {
	if err := t.talk.Ready(ctx); err != nil {
		return subject.Event{}, err
	}
	took, err := t.storeAll(ctx, emails)
	if err != nil {
		return subject.Event{}, err
	}
	return subject.Event{Seconds: took.Seconds()}, t.talk.Pushed(ctx, took)
}

// storeAll stores the task's jobs in bulk and returns how long that took.
func (t *task) storeAll(ctx context.Context, job func(n int) Job) (time.Duration, error) {
	if t.Jobs < 1 {
		return 0, errors.New("jobs is at least 1")
	}
	started := time.Now()
	if err := t.peer.EnqueueAll(ctx, t.Jobs, job); err != nil {
		return 0, fmt.Errorf("store %d jobs: %w", t.Jobs, err)
	}
	return time.Since(started), nil
}
