package verdict

import (
	"slices"
	"time"

	"github.com/belayq/belay/integration/history"
)

// judgeSchedule holds that a job which was pushed for later did not start before, by Redis' clock, and notes how late it was.
func (w *world) judgeSchedule(t *token) {
	delay := time.Duration(t.spec().DelayMillis) * time.Millisecond
	first := slices.IndexFunc(t.pushes, func(p *push) bool { return p.answer != history.Refused })
	if delay == 0 || first < 0 || len(t.runs) == 0 {
		return
	}
	p, r := t.pushes[first], t.runs[0]
	if took := w.elapsed(span{p.invoked, r.start}); took < delay {
		w.violate(Early, t.name, r.start, "it started on %s %v after its push, and was to wait for %v", r.proc.name, took.Round(time.Millisecond), delay)
	}
	if p.answer != history.Accepted || r.interrupted != 0 {
		return
	}
	waited := span{p.invoked + delay, max(r.start, p.invoked+delay)}
	late := max(r.start-p.answered-delay, 0)
	if waited.touches(w.upsets) || waited.within(w.free) != waited.length() {
		w.verdict.LatenessInTrouble = append(w.verdict.LatenessInTrouble, late)
		return
	}
	w.verdict.Lateness = append(w.verdict.Lateness, late)
}
