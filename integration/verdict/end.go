package verdict

import (
	"slices"

	"github.com/belayq/belay/integration/history"
)

// judgeEnd holds that a token came to an end that there is, and counts it.
func (w *world) judgeEnd(t *token) {
	v := w.verdict
	if len(t.pushes) == 0 && len(t.runs) == 0 {
		for _, lies := range t.left {
			w.violate(Phantom, t.name, 0, "it lies in %s, and nobody had pushed it", lies.place)
		}
		return
	}
	if !t.accepted() && len(t.left) == 0 {
		return
	}
	if len(t.runs) == 0 && !slices.ContainsFunc(t.pushes, func(p *push) bool { return p.answer != history.Refused }) {
		w.violate(Phantom, t.name, 0, "it lies in %s, and every push of it had been refused", t.left[0].place)
		return
	}
	v.Accepted++
	done := t.find(func(r *run) bool { return r.ended(history.OK) })
	discarded := t.find(func(r *run) bool { return r.ended(history.Discarded) })
	dead := slices.IndexFunc(t.left, func(lies remnant) bool { return lies.place == "dead" })
	for i, lies := range t.left {
		if i != dead {
			w.judgeWaiting(t, lies, done)
		}
		w.judgeBlame(t, lies)
	}
	switch {
	case dead >= 0:
		w.judgeDead(t, t.left[dead].held, done)
	case len(t.left) > 0:
		v.Missing++
	case done != nil:
		v.Done++
		w.countPast(t)
	case discarded != nil:
		v.Discarded++
	default:
		v.Missing++
		w.lose(t)
	}
}

// find answers the last of the token's runs that is as wanted, or nil.
func (t *token) find(wanted func(*run) bool) *run {
	for _, r := range slices.Backward(t.runs) {
		if wanted(r) {
			return r
		}
	}
	return nil
}

// countPast counts what a job that was done had behind it.
func (w *world) countPast(t *token) {
	if t.find((*run).failed) != nil {
		w.verdict.FailedFirst++
	}
	if t.find(func(r *run) bool { return r.cause.lost() }) != nil {
		w.verdict.Recovered++
	}
}

// judgeWaiting: nothing may wait when all has been waited for.
func (w *world) judgeWaiting(t *token, lies remnant, done *run) {
	if done != nil && len(w.ways(done)) == 0 {
		w.violate(Final, t.name, 0, "it was done on %s, which had had all the time to say so, and lies in %s", done.proc.name, lies.place)
		return
	}
	w.violate(Stuck, t.name, 0, "it lies in %s", lies.place)
}

// judgeBlame holds that a job was blamed for no more crashes than there were.
func (w *world) judgeBlame(t *token, lies remnant) {
	since, before := t.since(), 0
	if len(t.runs) > 0 {
		last := t.runs[len(t.runs)-1]
		since, before = last.start, last.interrupted
	}
	if crashes := w.lost(span{since, w.end}); lies.held.Interrupted > before+crashes {
		w.violate(Counts, t.name, 0, "it lies in %s with %d interruptions; when it was last seen to start it had %d, and %d processes were lost since",
			lies.place, lies.held.Interrupted, before, crashes)
	}
}

// lose tells of a job that is nowhere.
func (w *world) lose(t *token) {
	if len(t.runs) == 0 {
		w.violate(Lost, t.name, 0, "it was accepted and never started, and is nowhere")
		return
	}
	last := t.runs[len(t.runs)-1]
	if last.finish == 0 {
		w.violate(Lost, t.name, 0, "its last run, on %s, did not end, and it is nowhere", last.proc.name)
		return
	}
	w.violate(Lost, t.name, 0, "its last run, on %s, ended with %q, and it is nowhere", last.proc.name, last.outcome)
}

// judgeDead holds that a job among the dead was killed by its handler, ran out of retries, or died of crashes.
func (w *world) judgeDead(t *token, held payload, done *run) {
	v := w.verdict
	most := w.maxRetries(t)
	failed := 0
	for _, r := range t.runs {
		if r.failed() {
			failed++
		}
	}
	killed := t.find(func(r *run) bool { return r.ended(history.Killed) })
	switch {
	case held.ErrorClass == interruptedClass:
		v.Condemned++
		if held.Interrupted < w.facts.MaxInterruptions {
			w.violate(Buried, t.name, 0, "it died of %d crashes, and %d are allowed", held.Interrupted, w.facts.MaxInterruptions)
		}
	case killed != nil:
		v.Dead++
	default:
		v.Dead++
		stranger := t.spec().Kind == "stranger"
		if held.failures() != most+1 || failed < most+1 && !stranger {
			w.violate(Buried, t.name, 0, "it is dead after %d failed runs, %d by its own count, and has %d retries", failed, held.failures(), most)
		}
	}
	if done != nil && len(w.ways(done)) == 0 {
		w.violate(Final, t.name, 0, "it was done on %s, which had had all the time to say so, and lies among the dead", done.proc.name)
	}
}
