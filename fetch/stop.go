package fetch

import (
	"slices"
	"time"

	"github.com/belayq/belay/job"
)

const (
	// Moment is the time that a cancelled handler gets to return. Its return value still decides the outcome.
	Moment = time.Second
	// LastSettle is the maximum time of a stop after all handlers have ended, deregistration included. If
	// Redis is away for longer, the jobs are recovered as after a crash. There is one deadline for all calls,
	// because a Redis that does not reply would use up each deadline.
	LastSettle = 2 * time.Second
	// Goodbye is the part of LastSettle that is reserved for deregistration: many times what a healthy Redis
	// needs.
	Goodbye = 250 * time.Millisecond
)

// stopping is the progress of a stop. Each instant is zero until it is set.
type stopping struct {
	asked     bool
	cancelAt  time.Time // when handlers are cancelled
	requeueAt time.Time // when unfinished jobs are requeued
	leaveAt   time.Time // when the loop ends, settled or not
}

func (l *Loop) beginStop() {
	l.beQuiet()
	if !l.stop.asked {
		l.stop.asked, l.stop.cancelAt = true, time.Now().Add(l.cfg.ShutdownTimeout)
	}
}

func (l *Loop) beginStopNow() {
	l.beQuiet()
	l.stop.asked = true
	if l.stop.requeueAt.IsZero() {
		l.stop.cancelAt = time.Now()
	}
}

// beQuiet takes no more jobs, for the rest of the process. Jobs that still arrive are requeued.
func (l *Loop) beQuiet() {
	l.quiet = true
	for _, k := range l.spaces {
		k.requeueAll()
		k.release()
	}
	l.quarantine.endDrain()
}

// advance begins the next step of a stop when it is due, and returns when it must be called again.
func (l *Loop) advance(now, wake time.Time) time.Time {
	s := &l.stop
	if !s.asked {
		return wake
	}
	working := l.count(running, abandoned) > 0
	if working && s.requeueAt.IsZero() && !now.Before(s.cancelAt) {
		l.cfg.Cancel()
		s.requeueAt = now.Add(Moment)
	}
	if working && !s.requeueAt.IsZero() && !now.Before(s.requeueAt) {
		l.requeueUnfinished()
		working, wake = false, now // there is something to send
	}
	if !working && s.leaveAt.IsZero() {
		s.leaveAt = now.Add(LastSettle - Goodbye)
		l.cfg.Leaving(now.Add(LastSettle))
	}
	for _, at := range []time.Time{s.leaveAt, s.requeueAt, s.cancelAt} {
		if at.After(now) {
			wake = earlier(wake, at)
		}
	}
	return wake
}

// requeueUnfinished returns every job that came back unfinished, or still runs, to the head of its queue, byte
// for byte. A handler that still runs may continue, but its return value has no effect: this process does not
// have the job any more.
func (l *Loop) requeueUnfinished() {
	for _, k := range l.spaces {
		for _, s := range []state{running, abandoned, returned} {
			for r := range k.ledger.in(s) {
				k.finish(r, job.Requeued())
			}
		}
	}
}

// done reports whether the stop is complete: every outcome is confirmed, or the time for that is over.
func (l *Loop) done() bool {
	if !l.stop.asked || l.count(running, abandoned) > 0 {
		return false
	}
	return l.settled() || (!l.stop.leaveAt.IsZero() && !time.Now().Before(l.stop.leaveAt))
}

// settled reports whether this process can do nothing more for its jobs.
func (l *Loop) settled() bool { return !slices.ContainsFunc(l.spaces, (*Keyspace).unsettled) }
