package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/belayq/belay/integration/history"
)

// A world is what a verdict is made of: the events, put in order.
type world struct {
	facts  Facts
	events []history.Event
	end    time.Duration // of the last event

	procs      map[string]*process
	lives      []*process // in the order of their names
	tokens     map[string]*token
	order      []*token // as they are first heard of
	faults     []fault  // by their beginnings
	clock      []step
	losses     []span // of processes, with what they had in hand
	unreadable []Remnant
	// free and freer are when one process at least, and two, could take jobs; upsets are when anything was amiss.
	free, freer, upsets []span

	verdict *Verdict
}

func (w *world) lease() time.Duration   { return w.facts.lease() }
func (w *world) healing() time.Duration { return w.facts.healing() }

// Judge says whether what happened was lawful. The events may be in any order; histories that contradict themselves are
// violations too. It changes neither argument and keeps both.
func Judge(events []history.Event, facts Facts) *Verdict {
	w := &world{
		facts: facts.withDefaults(), events: slices.Clone(events),
		procs: make(map[string]*process), tokens: make(map[string]*token),
		verdict: newVerdict(),
	}
	w.verdict.world = w
	slices.SortStableFunc(w.events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	if len(w.events) > 0 {
		w.end = w.events[len(w.events)-1].At
	}
	w.readProcesses()
	w.readFaults()
	w.lives = slices.SortedFunc(maps.Values(w.procs), func(a, b *process) int { return cmp.Compare(a.name, b.name) })
	for _, p := range w.lives {
		p.troubles = w.troubles(p.name)
		p.stalls = w.stalls(p)
		p.absences = append(w.absences(p.name), p.stalls...)
		w.noteLosses(p)
	}
	w.readTokens()
	w.findHelp()
	for _, t := range w.order {
		w.chain(t)
		w.judgeKiller(t)
		w.judgeSchedule(t)
		w.judgeEnd(t)
	}
	w.judgeRecoveries()
	w.judgeCounters()
	w.judgeResidue()
	for _, p := range w.lives {
		w.judgeGrowth(p)
	}
	w.summarize()
	return w.verdict
}

// noteLosses notes when a process was lost with what it had in hand: it died, or was out of sight for longer than its lease.
func (w *world) noteLosses(p *process) {
	died, ok := p.died()
	if ok && (!p.graceful() || (span{died, died}).touches(p.troubles)) {
		w.losses = append(w.losses, span{died, max(died, p.killed, p.gone)})
	}
	for _, a := range p.absences {
		if a.own && a.length() >= w.lease() {
			w.losses = append(w.losses, a.span)
		}
	}
}

// violate tells of a breach.
func (w *world) violate(rule Rule, token string, at time.Duration, format string, args ...any) {
	v := w.verdict
	v.Breaches[rule]++
	if len(v.Violations) < mostViolations {
		v.Violations = append(v.Violations, Violation{Rule: rule, Token: token, At: at, Text: fmt.Sprintf(format, args...)})
	}
}
