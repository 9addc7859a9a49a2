package dedup

import (
	"math"
	"time"

	"github.com/belayq/belay/job"
)

// A Lock is the lock of one unique job, as its payload describes it, with the decisions that follow from it.
// Only Redis knows whether the job still holds the lock: it may have expired and belong to another job. So
// each script that releases, clears or renews a lock first checks that its holder is JID.
//
// The lock of a stored job is never UntilExpired: see Kept. The zero Lock belongs to a job that is not unique.
type Lock struct {
	// Digest names the lock: the result of the function Digest at the push.
	Digest string
	// JID is the jid of the job, which identifies the holder.
	JID string
	// Until is when the lock ends.
	Until Until
	// TTL is when the lock expires unless it is renewed, counted from when the job may run; see Lifetime.
	TTL time.Duration
	// Rerun makes the job run once more if a duplicate is refused after its start (see Rule.RescheduleOnce).
	Rerun bool
	// Scheduled makes a push for later take the lock too.
	Scheduled bool
	// Mark makes duplicates be stored and marked (see Rule.MarkDuplicates). Such a job can be retried from
	// the dead set while another job holds the lock. Payloads of older versions lack this field.
	Mark bool
}

// Kept reports whether the lock is held until its TTL has passed, whatever becomes of the job. Only the push
// needs such a lock: it is in the payload of a prepared job, and the push removes it.
func (l Lock) Kept() bool { return l.Until == UntilExpired }

// None reports whether there is no lock.
func (l Lock) None() bool { return l.Digest == "" }

// Takes reports whether a push with this delay takes the lock. A push that does not is accepted even if
// another job holds it; see Meets.
func (l Lock) Takes(delay time.Duration) bool { return !l.None() && (delay <= 0 || l.Scheduled) }

// Meets reports whether the job, which was scheduled without the lock, takes it when it moves to its queue.
// If another job holds the lock, the job moves all the same, because it was accepted.
func (l Lock) Meets() bool { return !l.None() && !l.Scheduled }

// Lifetime returns when the lock of a job that waits for this delay expires, counted from now: at the push, a
// retry or a snooze, which all renew the lock. It is a whole number of milliseconds, rounded up, because a
// lock that ends a moment early lets a duplicate in. A negative delay counts as 0.
func (l Lock) Lifetime(delay time.Duration) time.Duration {
	if l.None() {
		return 0
	}
	// The longest Duration in whole milliseconds. No real delay comes near it.
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

// A Start is the change of a lock when its job starts. A script makes it before the handler is called, and
// checks that the process still owns the job.
type Start int

const (
	// StartNothing needs no script.
	StartNothing Start = iota
	// StartRelease releases the lock: it covered the time before the run.
	StartRelease
	// StartClear clears the mark of refused duplicates, which this run serves. Duplicates refused from here
	// on set the mark again.
	StartClear
)

// AtStart returns the change of the lock when the job starts, at its first run and at each later one.
func (l Lock) AtStart() Start {
	switch {
	case l.None():
		return StartNothing
	case l.Until == UntilExecuting:
		return StartRelease
	case l.Rerun:
		return StartClear
	}
	return StartNothing
}

// InHand reports whether the job holds the lock while it runs, so that it must be renewed if the run outlasts
// it.
func (l Lock) InHand() bool { return l.Until == UntilExecuted }

// Releases reports whether a run with this exit releases the lock: the job has ended, successfully or not. A
// job that continues (retry, snooze, requeue) keeps it. With UntilExecuting the start has already released
// it; then this applies to a job that ended without a start, such as one that an operator deletes while it
// waits.
func (l Lock) Releases(exit job.Exit) bool { return exit.Ends() && !l.None() }

// Reruns reports whether a run with this exit is followed by one more if a duplicate was refused after its
// start. The script that settles the job then stores the result of Rerun and gives it the lock. A job that died
// also reruns: otherwise the work of the refused duplicates would be lost.
func (l Lock) Reruns(exit job.Exit) bool { return l.Rerun && l.Releases(exit) }
