package dedup

import (
	"math"
	"time"

	"github.com/belayq/belay/job"
)

// A Lock is what makes one job unique, as its payload says it, and the decisions that follow from it. That
// the job holds the lock is known to Redis alone: it may have lapsed, and be another's by now. So every
// script that is told to release, clear or renew one does so only where the lock's holder is JID.
//
// The zero Lock is that of a job that is not unique, and decides nothing.
type Lock struct {
	// Digest names the lock: what Digest answered at the push.
	Digest string
	// JID is the job's, by which it is known as the holder.
	JID string
	// Until is when the lock ends.
	Until Until
	// TTL is how long it stands at most, from when the job may run; see Lifetime.
	TTL time.Duration
	// Again says that the job is run once more if another was refused after its start (see
	// Rule.RescheduleOnce).
	Again bool
	// Scheduled says that a push for later takes the lock too.
	Scheduled bool
	// Mark says that duplicates are stored and marked (see Rule.MarkDuplicates): then none waits for
	// another's end, and who has died is run again whoever has the lock. Payloads of older versions do not
	// say it.
	Mark bool
}

// None says that there is no lock.
func (l Lock) None() bool { return l.Digest == "" }

// Takes says whether a push with this delay asks for the lock. One that does not is accepted whoever holds
// it; see Meets.
func (l Lock) Takes(delay time.Duration) bool { return !l.None() && (delay <= 0 || l.Scheduled) }

// Meets says whether the job asks for the lock when it comes to its queue from the schedule: it was scheduled
// without. If somebody else holds it the job is promoted all the same, because it was accepted.
func (l Lock) Meets() bool { return !l.None() && !l.Scheduled }

// Lifetime is how long the lock is to stand from now for a job that waits this long before it may run: at the
// push, or at a retry or a snooze, which renew the lock. It is a whole number of milliseconds, rounded up,
// because a lock that ends a moment early lets a duplicate in. A delay below 0 is none.
func (l Lock) Lifetime(delay time.Duration) time.Duration {
	if l.None() {
		return 0
	}
	// The longest that a Duration holds in whole milliseconds; what comes near it was no plan.
	const longest = math.MaxInt64 - math.MaxInt64%time.Millisecond
	delay = max(delay, 0)
	if delay > longest-l.TTL {
		return longest
	}
	if part := delay % time.Millisecond; part > 0 {
		delay += time.Millisecond - part
	}
	return l.TTL + delay
}

// A Start is what becomes of a lock when its job starts. It must be done, by a script that also sees that the
// job is still ours, before the handler is called.
type Start int

const (
	// StartNothing needs no script.
	StartNothing Start = iota
	// StartRelease releases the lock: it was for the time before the run.
	StartRelease
	// StartClear says that this run serves those who were refused before it. From here on a refused one is
	// remembered.
	StartClear
)

// AtStart says what becomes of the lock when the job starts, at its first run as at any later.
func (l Lock) AtStart() Start {
	switch {
	case l.None():
		return StartNothing
	case l.Until == UntilExecuting:
		return StartRelease
	case l.Again:
		return StartClear
	}
	return StartNothing
}

// InHand says whether the lock stands while the job runs, so that it has to be renewed if the run outlasts it.
func (l Lock) InHand() bool { return l.Until == UntilExecuted }

// Releases says whether a run that ends so releases the lock: the job has ended, well or badly. One that
// lives on (retry, snoozed, handed back) keeps it. With UntilExecuting the start has released it already, and
// what is released here is the lock of a job that ended without one, such as one that an operator deletes
// while it waits.
func (l Lock) Releases(exit job.Exit) bool {
	switch exit {
	case job.ExitDone, job.ExitDiscarded, job.ExitDead:
		return !l.None()
	}
	return false
}

// Reruns says whether a run that ends so is followed by one more, if any other job was refused after its
// start: the script that settles the job then stores Rerun's payload and gives it the lock. A job that died
// does not take the work of those that were refused for its sake with it.
func (l Lock) Reruns(exit job.Exit) bool { return l.Again && l.Releases(exit) }
