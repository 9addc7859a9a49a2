package oracle

import (
	"fmt"
	"time"

	"github.com/belayq/belay/integration/history"
)

// A Tenure is the time in which a job held its lock, by the log's seconds; To is zero while it holds it.
type Tenure struct{ From, To time.Time }

// slack is how far apart the log and a history may be: a second is the log's precision, and another the time
// between a step and its record.
const slack = 2 * time.Second

// Answers are the histories of pushers and handlers of unique jobs, in the order of time, and the instant of
// their zero.
type Answers struct {
	Events []history.Event
	Zero   time.Time
	// Again is the kind of the jobs that run once more for the duplicates refused while they ran, Until that
	// of the jobs whose lock ends with their start. The locks of all others end with the job.
	Again, Until string
	// Dead are the jids in the dead set at the end.
	Dead map[string]bool
}

// unique is what the histories say of one job.
type unique struct {
	key, kind                                    string
	asked, accepted, refused, ended, interrupted bool
	invoked, first, last                         time.Duration
	starts                                       int
}

// JudgeAnswers holds what pushers and handlers saw against the log. The log shows that a lock has one owner
// at a time, and goes with its job; what it does not show is what a push was answered, and which handler ran
// when:
//
//   - an accepted push had the lock, and its job has ended; a refused one has not run;
//   - a refusal names a job of the same key that held the lock then;
//   - no job started more often than Redis gave it to a worker;
//   - no job starts before the last record of one of its key whose lock ends with the job;
//   - a job with one more run for duplicates has it if one was refused while it ran, and not if none can
//     have been.
//
// It counts the events of each kind.
func (r *Report) JudgeAnswers(a Answers) (counts map[history.Kind]int, breaches []string) {
	counts = make(map[history.Kind]int)
	jobs := make(map[string]*unique)
	of := func(e history.Event) *unique {
		u := jobs[e.JID]
		if u == nil {
			u = &unique{key: e.Token}
			jobs[e.JID] = u
		}
		if e.Spec != nil {
			u.kind = e.Spec.Kind
		}
		return u
	}
	var refusals []history.Event
	breach := func(e history.Event, format string, args ...any) {
		breaches = append(breaches, fmt.Sprintf("%s, job %s at %v: ", e.Token, e.JID, e.At)+fmt.Sprintf(format, args...))
	}
	for _, e := range a.Events {
		counts[e.Kind]++
		switch e.Kind {
		case history.Invoke:
			u := of(e)
			u.asked, u.invoked = true, e.At
		case history.Accepted:
			of(e).accepted = true
			if len(r.Tenures[e.JID]) == 0 {
				breach(e, "its push was accepted, and it never held a lock")
			}
		case history.Refused:
			of(e).refused = true
		case history.Duplicate:
			of(e).refused = true
			refusals = append(refusals, e)
		case history.Start:
			u := of(e)
			if u.starts++; u.starts == 1 {
				u.first = e.At
			}
			u.last, u.interrupted = e.At, u.interrupted || e.Interrupted > 0
			if u.refused {
				breach(e, "its push was refused, and it ran")
			}
			if u.starts > r.Taken[e.JID] {
				breach(e, "it started %d times, and Redis gave it to workers %d times", u.starts, r.Taken[e.JID])
			}
		case history.Finish:
			u := of(e)
			u.last = e.At
			if e.Outcome == history.OK || e.Outcome == history.Discarded || e.Outcome == history.Killed {
				u.ended = true
			}
		}
	}
	unread := make(map[string]bool) // the keys with a push whose answer was not read
	for jid, u := range jobs {
		unread[u.key] = unread[u.key] || u.asked && !u.accepted && !u.refused
		if (u.accepted || u.starts > 0) && !u.ended && !a.Dead[jid] {
			breach(history.Event{Token: u.key, JID: jid, At: u.last}, "it was accepted, started %d times, and has not ended", u.starts)
		}
	}
	for _, u := range jobs {
		for jid, other := range jobs {
			if u != other && u.key == other.key && u.kind != a.Until && other.starts > 0 && u.starts > 0 &&
				u.first < other.first && other.first < u.last {
				breach(history.Event{Token: other.key, JID: jid, At: other.first}, "it started before another of its key had ended")
			}
		}
	}
	due, possible := make(map[string]bool), make(map[string]bool)
	for _, e := range refusals {
		d, h := jobs[e.JID], jobs[e.Text]
		switch {
		case h == nil || h.refused:
			breach(e, "it was refused because of %s, which was never accepted", e.Text)
			continue
		case h.key != e.Token:
			breach(e, "it was refused because of %s, which has another key: %s", e.Text, h.key)
			continue
		case !r.held(e.Text, a.Zero.Add(d.invoked-slack), a.Zero.Add(e.At+slack)):
			breach(e, "it was refused because of %s, which did not hold the lock then", e.Text)
			continue
		}
		// A start is written down before its handler does anything, and the end after that.
		due[e.Text] = due[e.Text] || h.starts > 0 && d.invoked > h.first && e.At < h.last
		possible[e.Text] = possible[e.Text] || h.starts == 0 || e.At > h.first-slack || h.interrupted
	}
	for jid, u := range jobs {
		e := history.Event{Token: u.key, JID: jid, At: u.last}
		switch _, follows := r.Follows[jid]; {
		case u.kind == a.Again && due[jid] && !follows:
			breach(e, "a duplicate was refused while it ran, and it did not run once more")
		case follows && !possible[jid] && !unread[u.key]:
			breach(e, "it ran once more, and no duplicate was refused while it ran")
		}
	}
	return counts, breaches
}

// held reports whether a job held its lock at any time in a span.
func (r *Report) held(jid string, from, to time.Time) bool {
	for _, t := range r.Tenures[jid] {
		if t.From.Before(to) && (t.To.IsZero() || t.To.After(from)) {
			return true
		}
	}
	return false
}
