package verdict

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
)

// An effect is what a fault may do to a process, and therefore what it may excuse.
type effect int

const (
	unknownEffect effect = iota
	// hides: the process does not run, or does not reach Redis. To others it is absent.
	hides
	// slows: nothing is absent, and nothing runs again for it. What is under way may take longer.
	slows
	// steps: Redis' clock is set.
	steps
)

// effects are those of all faults that last, or come as one instant.
var effects = map[chaosplan.Fault]effect{
	// Of one process, or of its way to Redis.
	chaosplan.Stop: hides, chaosplan.Freeze: hides, chaosplan.DropRequests: hides, chaosplan.DropReplies: hides,
	chaosplan.Unheard: hides, chaosplan.Unanswered: hides, chaosplan.Blackhole: hides, chaosplan.HangUp: hides,
	chaosplan.Errors: hides, chaosplan.Delay: slows, chaosplan.Latency: slows, chaosplan.Bandwidth: slows,
	// Of Redis, and so of everybody.
	chaosplan.RedisStop: hides, chaosplan.RedisKill: hides, chaosplan.KillClients: hides, chaosplan.PauseAll: hides,
	chaosplan.PauseWrites: hides, chaosplan.FleetStop: hides, chaosplan.FlushScripts: slows, chaosplan.Full: slows,
	chaosplan.Clock: steps,
}

// halts are the faults under which a process does not run at all.
var halts = []chaosplan.Fault{chaosplan.Stop, chaosplan.Freeze, chaosplan.FleetStop}

// fringe is how far from what it tells an event may be written: a signal is sent, and then that is written down.
const fringe = 100 * time.Millisecond

// A fault is one that lasted, of a process or, without one, of everybody.
type fault struct {
	span
	name   chaosplan.Fault
	proc   string
	effect effect
}

func (f fault) String() string {
	if f.proc == "" {
		return string(f.name)
	}
	return string(f.name) + " of " + f.proc
}

// A step is a change of Redis' clock.
type step struct{ at, shift time.Duration }

// readFaults pairs beginnings and ends.
func (w *world) readFaults() {
	type open struct {
		name chaosplan.Fault
		proc string
	}
	begun, unknown := make(map[open]time.Duration), make(map[string]bool)
	add := func(key open, s span) {
		w.faults = append(w.faults, fault{span: s, name: key.name, proc: key.proc, effect: effects[key.name]})
	}
	for _, e := range w.events {
		if e.Kind != history.Begin && e.Kind != history.End {
			continue
		}
		key := open{chaosplan.Fault(e.Fault), e.Proc}
		from, lasted := begun[key]
		switch {
		case effects[key.name] == unknownEffect && unknown[e.Fault]:
		case effects[key.name] == unknownEffect:
			unknown[e.Fault] = true
			w.violate(CannotJudge, "", e.At, "a fault that nobody knows: %q", e.Fault)
		case effects[key.name] == steps:
			if e.Shift != 0 {
				w.clock = append(w.clock, step{e.At, e.Shift})
			}
			add(key, span{e.At - fringe, e.At + fringe})
		case e.Kind == history.Begin:
			if !lasted {
				begun[key] = e.At
			}
		case lasted:
			add(key, span{from - fringe, e.At + fringe})
			delete(begun, key)
		default:
			add(key, span{e.At - fringe, e.At + fringe})
		}
	}
	for key, from := range begun {
		to := w.end
		if p := w.procs[key.proc]; p != nil && p.gone != 0 {
			to = p.gone
		}
		add(key, span{from - fringe, max(to, from)})
	}
	slices.SortStableFunc(w.faults, func(a, b fault) int { return cmp.Compare(a.from, b.from) })
}

// An absence is a time in which a process was out of Redis' sight without a break that was long enough to be seen.
type absence struct {
	span
	// own says that the process was, at some time, alone in that: an outage of Redis, or a pause of the whole fleet, is no
	// reason to take anybody for dead.
	own   bool
	names []string
}

func (a absence) String() string { return strings.Join(a.names, ", ") }

// absences joins the faults that hid a process from Redis, or Redis from it.
func (w *world) absences(proc string) []absence {
	var found []absence
	for _, f := range w.faults {
		if f.effect != hides || (f.proc != "" && f.proc != proc) {
			continue
		}
		own := f.proc != "" && !w.common(f)
		if last := len(found) - 1; last >= 0 && f.from <= found[last].later(w.regain()).to {
			found[last].to = max(found[last].to, f.to)
			found[last].own = found[last].own || own
			found[last].names = append(found[last].names, f.String())
			continue
		}
		found = append(found, absence{span: f.span, own: own, names: []string{f.String()}})
	}
	return found
}

// common says whether a process' own fault made no difference, because nobody reached Redis meanwhile.
func (w *world) common(own fault) bool {
	return slices.ContainsFunc(w.faults, func(f fault) bool {
		return f.proc == "" && f.effect == hides && f.covers(own.later(w.regain()))
	})
}

// troubles are the times in which a process may not have told Redis what it should, with what came of that: after it could not
// be reached it takes a while until calls are made again, while what is only slow is slow as long as it lasts.
func (w *world) troubles(proc string) []span {
	var spans []span
	for _, f := range w.faults {
		switch {
		case f.proc != "" && f.proc != proc:
		case f.effect == hides:
			spans = append(spans, f.later(w.healing()))
		case f.effect == slows:
			spans = append(spans, f.span)
		}
	}
	return union(spans)
}

// ahead answers the least and the most by which Redis' clock was set ahead in a span.
func (w *world) ahead(during span) (least, most time.Duration) {
	var sum time.Duration
	first := true
	note := func() {
		if first {
			least, most, first = sum, sum, false
		}
		least, most = min(least, sum), max(most, sum)
	}
	for _, s := range w.clock {
		if s.at > during.to+fringe {
			break
		}
		if s.at >= during.from-fringe {
			note()
		}
		sum += s.shift
	}
	note()
	return least, most
}

// halted says whether the fault keeps a process from running.
func (f fault) halted(p *process) bool {
	return (f.proc == p.name || f.proc == "") && slices.Contains(halts, f.name)
}
