package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/belayq/belay/bench/peers/talk"
)

// patience is how long after the last instant all may stand still while jobs are missing.
const patience = 30 * time.Second

// notice is how far ahead of its instant a future job is stored at the least, so that storing is never what
// is late.
const notice = 3 * time.Second

// latency enqueues at instants that were fixed beforehand, into an idle worker, and times each job from its
// instant: a system that stalls makes all the jobs late that came meanwhile, not only the one that was being
// sent.
func (t *task) latency(ctx context.Context) (talk.Event, error) {
	timed, err := t.startTimed(ctx, t.count())
	if err != nil {
		return talk.Event{}, err
	}
	begin := time.Now().Add(time.Second) // a worker that is idle, not one that is starting
	for n := range timed.due {
		timed.due[n] = begin.Add(t.after(n)).Add(time.Duration(rand.Float64() * float64(t.after(1))))
	}
	var group sync.WaitGroup
	errs := make([]error, len(timed.due))
	for n, due := range timed.due {
		group.Go(func() { // each its own, so that one that waits for its reply holds up no other
			sleepUntil(due)
			errs[n] = t.peer.Enqueue(ctx, noops(n))
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return talk.Event{}, err
	}
	return timed.finish(ctx)
}

// sleepUntil returns at that instant, to some microseconds. The last stretch is not slept: an idle Go
// program's timers are late by up to a millisecond, and that much would be Go's and not the system's.
func sleepUntil(at time.Time) {
	time.Sleep(time.Until(at) - 2*time.Millisecond)
	for time.Now().Before(at) {
		runtime.Gosched()
	}
}

// schedule stores jobs that fall due one by one and times each from the instant that it is due.
func (t *task) schedule(ctx context.Context) (talk.Event, error) {
	timed, err := t.startTimed(ctx, t.count())
	if err != nil {
		return talk.Event{}, err
	}
	begin := time.Now().Add(notice)
	for n := range timed.due {
		timed.due[n] = begin.Add(t.after(n))
	}
	if err := t.peer.EnqueueAll(ctx, len(timed.due), timed.job); err != nil {
		return talk.Event{}, err
	}
	return timed.finish(ctx)
}

// burst stores jobs that all fall due at once. The instant is a whole second: there are systems that keep
// instants in seconds, and theirs would all run early, which is another measure's to show.
func (t *task) burst(ctx context.Context) (talk.Event, error) {
	timed, err := t.startTimed(ctx, t.Jobs)
	if err != nil {
		return talk.Event{}, err
	}
	// Any of the systems stores 3,000 jobs in a second; that it did is looked at below.
	storing := time.Duration(t.Jobs) * time.Second / 3000
	due := time.Now().Add(storing + notice)
	due = due.Add(time.Second - time.Duration(due.Nanosecond()))
	for n := range timed.due {
		timed.due[n] = due
	}
	if err := t.peer.EnqueueAll(ctx, len(timed.due), timed.job); err != nil {
		return talk.Event{}, err
	}
	if left := time.Until(due); left < notice {
		return talk.Event{}, fmt.Errorf("all jobs were stored %s before they were due, and that is too close to tell a late "+
			"run from a late push: ask for fewer jobs", left)
	}
	return timed.finish(ctx)
}

// count is how many jobs Rate for Seconds makes.
func (t *task) count() int { return int(t.Rate * t.Seconds) }

// after is how long after the first job the n-th comes.
func (t *task) after(n int) time.Duration {
	return time.Duration(float64(n) / t.Rate * float64(time.Second))
}
