package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/bench/subject"
)

// startTimed starts the worker that will run so many timed jobs.
func (t *task) startTimed(ctx context.Context, jobs int) (*Timing, error) {
	if jobs < 1 {
		return nil, errors.New("there is not one job to time: rate, seconds or jobs is missing")
	}
	timing := NewTiming(jobs)
	return timing, t.peer.Start(ctx, "", func(n int, _ string) error { return timing.Starts(n, time.Now()) })
}

// latency enqueues at instants that were fixed beforehand, into an idle worker, and times each job from its
// instant: a system that stalls makes all the jobs late that came meanwhile, not only the one that was being
// sent.
func (t *task) latency(ctx context.Context) (e subject.Event, err error) {
	timing, err := t.startTimed(ctx, Count(t.Task))
	if err != nil {
		return e, err
	}
	sent, err := OpenLoop(ctx, t.Task, timing.Due, func(n int) error { return t.peer.Enqueue(ctx, Noops(n)) })
	if err == nil {
		e, err = timing.Finish(ctx)
	}
	e.Extra = sent
	return e, err
}

// notice is how far ahead of the first instant storing begins, and for a burst ends: what is late is never the
// storing.
const notice = 3 * time.Second

// wallClock takes away the monotonic clock: instants that stand in the store are of the wall's, and so must
// their lateness be.
func wallClock(t time.Time) time.Time { return t.Round(0) }

// schedule stores jobs that fall due one by one and times each from the instant that it is due.
func (t *task) schedule(ctx context.Context) (subject.Event, error) {
	return t.scheduled(ctx, Count(t.Task), 0, func(n int, now time.Time) time.Time {
		return now.Add(notice + time.Duration(float64(n)/t.Rate*float64(time.Second)))
	})
}

const (
	// slowestStore is a rate, in jobs a second, at which every system can store jobs. A burst is due when they
	// are certainly stored.
	slowestStore = 3000
	// hiccup is how long the machine may do something else meanwhile.
	hiccup = 5 * time.Second
)

// burst stores jobs that all fall due at once. The instant is a whole second: there are systems that keep
// instants in seconds, and theirs would all run early, which is another measure's to show.
func (t *task) burst(ctx context.Context) (subject.Event, error) {
	storing := time.Duration(t.Jobs) * time.Second / slowestStore
	return t.scheduled(ctx, t.Jobs, notice, func(_ int, now time.Time) time.Time {
		return now.Add(storing + hiccup + notice + time.Second).Truncate(time.Second)
	})
}

// scheduled stores jobs for the instants that due draws, so long ahead of the first, and times them.
func (t *task) scheduled(ctx context.Context, jobs int, ahead time.Duration, due func(n int, now time.Time) time.Time) (subject.Event, error) {
	timing, err := t.startTimed(ctx, jobs)
	if err != nil {
		return subject.Event{}, err
	}
	now := wallClock(time.Now())
	for n := range timing.Due {
		timing.Due[n] = due(n, now)
	}
	if err := t.peer.EnqueueAll(ctx, jobs, func(n int) Job { return Job{N: n, Class: Noop, DueAt: timing.Due[n]} }); err != nil {
		return subject.Event{}, err
	}
	if left := time.Until(timing.Due[0]); left < ahead {
		return subject.Event{}, fmt.Errorf("all jobs were stored %s before they were due, and that is too close to tell a late "+
			"run from a late push: ask for fewer jobs", left)
	}
	return timing.Finish(ctx)
}

const (
	// RecoverQueue is the victim's and the survivor's alone.
	RecoverQueue = "recover"
	// held is how long a victim's job runs: far longer than the bench takes to kill its process.
	held = time.Minute
)

// victim takes jobs that do not end and waits to be killed.
func (t *task) victim(ctx context.Context) (e subject.Event, err error) {
	if t.Jobs < 1 || t.Jobs > t.Concurrency {
		return e, fmt.Errorf("%d jobs cannot all start at a concurrency of %d", t.Jobs, t.Concurrency)
	}
	if _, err := t.storeAll(ctx, func(n int) Job { return Job{N: n, Class: Noop, Queue: RecoverQueue} }); err != nil {
		return e, err
	}
	timing := NewTiming(t.Jobs)
	err = t.peer.Start(ctx, RecoverQueue, func(n int, _ string) error {
		if err := timing.Starts(n, time.Now()); err != nil {
			return err
		}
		return Pause(ctx, held)
	})
	if err == nil {
		err = timing.wait(ctx, patience)
	}
	if err == nil {
		err = t.talk.SayAndWait(ctx, subject.Event{Event: subject.Holding})
	}
	return e, err
}

// survivor runs what the victim has left, at the system's default settings, until the bench ends it.
func (t *task) survivor(ctx context.Context) (e subject.Event, err error) {
	err = t.peer.Start(ctx, RecoverQueue, func(_ int, id string) error {
		return t.talk.Say(subject.Event{Event: subject.Ran, JID: id, UnixNS: time.Now().UnixNano()})
	})
	if err == nil {
		<-ctx.Done()
	}
	return e, err
}
