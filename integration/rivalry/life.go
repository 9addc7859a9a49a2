package rivalry

import (
	"time"

	"github.com/belayq/belay/integration/history"
)

// never is later than anything that happens.
const never = time.Duration(1<<63 - 1)

// A span is a stretch of time.
type span struct{ from, to time.Duration }

// A life is what is known of one job.
type life struct {
	jid, key, mode string
	// pushed is the push that it came by; a job that runs for others has none.
	pushed            bool
	push              span
	accepted, refused bool
	runs              []*run
}

// A run is one start, and the handler's last word of it, if there was one.
type run struct {
	start, finish time.Duration
	outcome       string
	interrupted   int
}

// first is when the job first started; never for one that did not.
func (l *life) first() time.Duration {
	if len(l.runs) == 0 {
		return never
	}
	return l.runs[0].start
}

// last is the last that was heard of it: up to then it cannot have ended.
func (l *life) last() (at time.Duration) {
	for _, r := range l.runs {
		at = max(at, r.start, r.finish)
	}
	return at
}

// sure is from when on the job is known to have been accepted.
func (l *life) sure() time.Duration {
	if l.accepted {
		return l.push.to
	}
	return l.first()
}

// ended says whether one of its runs came to an end that is the job's.
func (l *life) ended() bool {
	for _, r := range l.runs {
		switch r.outcome {
		case history.OK, history.Discarded, history.Killed:
			return true
		}
	}
	return false
}

// A refusal is a push that was told of a holder.
type refusal struct {
	of     *life
	holder string
}

// read sorts what was written down, which is in the order of time.
func (j *judge) read(events []history.Event) {
	runs, begun := make(map[string]*run), make(map[string]time.Duration)
	for _, e := range events {
		switch e.Kind {
		case history.Invoke:
			l := j.life(e)
			l.pushed, l.push = true, span{e.At, never}
			j.verdict.Asked++
		case history.Accepted, history.Refused, history.Unknown, history.Duplicate:
			j.answer(e)
		case history.Start:
			r := &run{start: e.At, interrupted: e.Interrupted}
			runs[e.Run] = r
			l := j.life(e)
			l.runs = append(l.runs, r)
			j.verdict.Starts++
		case history.Finish:
			if r := runs[e.Run]; r != nil {
				r.finish, r.outcome = e.At, e.Outcome
			}
		case history.Signalled, history.Begin: // a process that leaves hands back what it has; Redis is away
			if e.Kind == history.Begin || e.Fault == "TERM" {
				begun[e.Proc] = e.At
			}
		case history.Gone, history.End:
			if from, ok := begun[e.Proc]; ok {
				j.troubles = append(j.troubles, span{from, e.At + j.Settling})
				delete(begun, e.Proc)
			}
		}
	}
}

func (j *judge) life(e history.Event) *life {
	l := j.lives[e.JID]
	if l == nil {
		l = &life{jid: e.JID, key: e.Token}
		j.lives[e.JID] = l
	}
	if e.Spec != nil {
		l.mode = e.Spec.Kind
	}
	return l
}

func (j *judge) answer(e history.Event) {
	l := j.life(e)
	l.push.to = e.At
	switch e.Kind {
	case history.Accepted:
		l.accepted = true
		j.verdict.Accepted++
	case history.Unknown:
		j.verdict.Unknown++
	case history.Duplicate:
		l.refused = true
		j.refusals = append(j.refusals, refusal{l, e.Text})
		j.verdict.Refused++
	default:
		l.refused = true
	}
}

// troubled says whether something was amiss in a stretch of time that hides what happened in it.
func (j *judge) troubled(s span) bool {
	for _, t := range j.troubles {
		if t.from <= s.to && s.from <= t.to {
			return true
		}
	}
	return false
}
