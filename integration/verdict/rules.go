package verdict

import (
	"reflect"
	"slices"
	"time"

	"github.com/belayq/belay/integration/history"
)

// judgeStart holds that what starts is what was pushed.
func (w *world) judgeStart(t *token, e history.Event) {
	pushes := slices.DeleteFunc(slices.Clone(t.pushes), func(p *push) bool { return p.event.JID != e.JID })
	if len(pushes) == 0 {
		w.violate(Phantom, t.name, "it started as jid %s, and no push has that", e.JID)
		return
	}
	switch p := pushes[0].event; {
	case !slices.ContainsFunc(pushes, func(p *push) bool { return p.answer != history.Refused }):
		w.violate(Phantom, t.name, "it started, and every push of it was refused")
	case p.Queue != "" && e.Queue != "" && p.Queue != e.Queue:
		w.violate(Phantom, t.name, "it started from queue %s, and was pushed to %s", e.Queue, p.Queue)
	case !reflect.DeepEqual(p.Spec, e.Spec): // to the byte: a number that was rewritten is another
		w.violate(Phantom, t.name, "its arguments are not those that were pushed")
	}
}

// judgeStarts holds that each start has a take, and that none follows a success which Redis must have recorded.
func (w *world) judgeStarts(t *token) {
	w.verdict.Starts += len(t.runs)
	w.verdict.Again += max(len(t.runs)-1, 0)
	taken := 0
	jids := make(map[string]bool)
	for _, p := range t.pushes {
		if !jids[p.event.JID] {
			jids[p.event.JID] = true
			taken += w.Taken[p.event.JID]
		}
	}
	if w.Taken != nil && len(t.runs) > taken {
		w.violate(Phantom, t.name, "it started %d times, and Redis gave it to workers %d times", len(t.runs), taken)
	}
	for i, done := range t.runs {
		if !done.ended(history.OK) || !w.recorded(done) {
			continue
		}
		for _, r := range t.runs[i+1:] {
			if r.start > done.finish && !w.troubled(r.proc, span{done.start, r.start}) {
				w.violate(Phantom, t.name, "it started on %s, %v after it was done on %s", r.proc.name,
					(r.start - done.finish).Round(time.Millisecond), done.proc.name)
				return
			}
		}
	}
}

// recorded reports whether the end of a run must have reached Redis: the process lived on, and nothing was in
// its way.
func (w *world) recorded(r *run) bool {
	settling := span{r.finish, r.finish + w.Settling}
	died, ok := r.proc.died()
	return (!ok || died > settling.to) && !w.troubled(r.proc, settling)
}

// troubled reports whether a fault of the process or of all may have held up its calls.
func (w *world) troubled(p *process, during span) bool {
	return slices.ContainsFunc(w.faults, func(f fault) bool {
		return (f.proc == "" || f.proc == p.name) && f.later(w.healing()).overlaps(during)
	})
}

// healing is how long the effects of a fault may last after it: a call that waits for its deadline, of half a
// TTL and at least a second, and then a backoff of a quarter of the TTL.
func (w *world) healing() time.Duration { return max(w.TTL/2, time.Second) + w.TTL/4 + time.Second/2 }

// judgeTimes holds that no run starts before its time.
func (w *world) judgeTimes(t *token) {
	if len(t.runs) == 0 {
		return
	}
	delay := time.Duration(t.spec().DelayMillis) * time.Millisecond
	if at := slices.IndexFunc(t.pushes, func(p *push) bool { return p.answer != history.Refused }); at >= 0 {
		w.judgeDelay(t, span{t.pushes[at].invoked, t.runs[0].start}, delay, "its push")
	}
	for i, r := range t.runs[1:] {
		before := t.runs[i]
		waits := span{before.finish, r.start}
		// The counts say that this run follows that one, and not a crash.
		if before.interrupted != r.interrupted || before.finish == 0 || before.finish > r.start {
			continue
		}
		switch {
		case r.failures == before.failures+1 && before.failed() && before.outcome == history.Later:
			w.judgeDelay(t, waits, w.MinLater, "the failure before it")
		case r.failures == before.failures+1 && before.failed():
			w.judgeDelay(t, waits, w.MinBackoff, "the failure before it")
		case r.failures == before.failures && before.ended(history.Snoozed):
			w.judgeDelay(t, waits, w.MinSnooze, "its snooze")
		}
	}
}

// rounding is by how much scores and timers may differ from what was asked for.
const rounding = time.Millisecond

func (w *world) judgeDelay(t *token, waited span, delay time.Duration, since string) {
	if took := w.elapsed(waited); took < delay {
		w.violate(Early, t.name, "it started %v after %s, and had to wait for %v", took.Round(time.Millisecond), since, delay)
	}
}

// elapsed returns the most time that can have passed in a span by Redis' clock.
func (w *world) elapsed(during span) time.Duration {
	var ahead time.Duration
	values := []time.Duration{0}
	for _, s := range w.clock {
		if s.at > during.to+fringe {
			break
		}
		ahead += s.shift
		if s.at < during.from-fringe {
			values = values[:0]
		}
		values = append(values, ahead)
	}
	return during.length() + slices.Max(values) - slices.Min(values) + rounding
}

const crashed = "Belay::Interrupted"

// judgeEnd holds that a job came to an end that there is, and counts it.
func (w *world) judgeEnd(t *token) {
	v := w.verdict
	if len(t.pushes) > 0 {
		v.Tokens++
	}
	pushed := slices.ContainsFunc(t.pushes, func(p *push) bool { return p.answer != history.Refused })
	if len(t.left) > 0 && !pushed && len(t.runs) == 0 {
		w.violate(Phantom, t.name, "it lies in %s, and no push can have stored it", t.left[0].place)
		return
	}
	if !t.stored() && len(t.left) == 0 {
		return
	}
	v.Accepted++
	if at := slices.IndexFunc(t.left, func(lies remnant) bool { return lies.place != "dead" }); at >= 0 {
		v.Missing++
		w.violate(Lost, t.name, "it still lies in %s", t.left[at].place)
		return
	}
	ended := func(outcome string) bool {
		return slices.ContainsFunc(t.runs, func(r *run) bool { return r.ended(outcome) })
	}
	switch {
	case len(t.left) > 0:
		w.judgeDead(t, t.left[0].held, ended(history.Killed))
	case ended(history.OK):
		v.Done++
	case ended(history.Discarded):
		v.Discarded++
	case t.marked:
		v.Cancelled++
	default:
		v.Missing++
		w.violate(Lost, t.name, "it was accepted, started %d times, has not ended, and is nowhere", len(t.runs))
	}
}

// judgeDead holds that a dead job crashed too often, was killed by its handler, or has no retry left.
func (w *world) judgeDead(t *token, held payload, killed bool) {
	v := w.verdict
	if held.ErrorClass == crashed {
		v.Crashed++
		return
	}
	v.Dead++
	most := w.MaxRetries
	if spec := t.spec(); spec.Retries >= 0 {
		most = spec.Retries
	}
	if failures := held.failures(); !killed && failures != most+1 {
		w.violate(Lost, t.name, "it is dead after %d failed runs, and has %d retries", failures, most)
	}
}

func (p payload) failures() int {
	if p.RetryCount == nil {
		return 0
	}
	return *p.RetryCount + 1
}
