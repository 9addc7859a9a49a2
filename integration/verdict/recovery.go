package verdict

import (
	"cmp"
	"slices"
	"time"
)

// The promise of recovery holds while some process can judge who is dead, and one, perhaps another, can take jobs. What
// follows finds these times, so that a recovery is charged with nothing else.

// turn is how long a processor must have nothing to do to count as free: between two jobs it has a moment.
const turn = 100 * time.Millisecond

// relook is how long a janitor needs, from its first good beat on, until it can act: two looks two beats apart, the delay that
// it draws, and another's claim, each below a beat.
func (w *world) relook() time.Duration { return 4 * w.facts.Beat }

// acquaint is the same for one to which Redis' clock is new, or that was set: it must know it for a TTL before it acts.
func (w *world) acquaint() time.Duration { return w.facts.TTL + 2*w.facts.Beat }

// regain is how long after a fault a process' heart beats again: a call that waits in vain for its deadline, and a backoff, each
// of a quarter of a TTL at most.
func (w *world) regain() time.Duration { return w.facts.TTL / 2 }

// lookout is how long it takes at most until another process promotes what is due, when the one that did has died.
const lookout = 4 * time.Second

// findHelp notes when one process at least could take jobs, or two, and when anything was amiss.
func (w *world) findHelp() {
	var takers [][]span
	var amiss []span
	for _, p := range w.lives {
		takers = append(takers, w.takeTimes(p))
		if died, ok := p.died(); ok && !p.graceful() {
			amiss = append(amiss, span{died, died + lookout})
		}
	}
	for _, f := range w.faults {
		if f.effect == steps || f.effect == hides {
			amiss = append(amiss, f.later(max(w.healing(), lookout)))
		}
	}
	w.free, w.freer = overlapping(slices.Concat(takers...), 1), overlapping(slices.Concat(takers...), 2)
	w.upsets = union(amiss)
}

// judges are when some process could declare another dead that had lapsed at an instant. A janitor that was blind before that
// has missed nothing of its two looks; one that was so later looks anew.
func (w *world) judges(lapsed time.Duration) []span {
	var all [][]span
	for _, p := range w.lives {
		var blind []span
		miss := func(s span, then time.Duration) {
			if s.later(then).to > lapsed+w.relook() {
				blind = append(blind, s.later(then))
			}
		}
		miss(span{0, p.since()}, w.acquaint())
		for _, f := range w.faults {
			switch {
			case f.proc != "" && f.proc != p.name:
			case f.effect == hides:
				miss(f.later(w.regain()), w.relook())
			case f.effect == steps:
				miss(f.span, w.acquaint())
			}
		}
		for _, stall := range p.stalls {
			miss(stall.span, w.relook())
		}
		all = append(all, minus(span{lapsed, w.until(p.killed, p.down, p.gone)}, union(blind)))
	}
	return overlapping(slices.Concat(all...), 1)
}

// takeTimes are when a process took jobs if there were any: it reached Redis, had not been asked to stop, and had a processor
// free.
func (w *world) takeTimes(p *process) []span {
	taken := append(w.fullTimes(p), p.troubles...)
	for _, stall := range p.stalls {
		taken = append(taken, stall.span)
	}
	return minus(span{p.since(), w.until(p.quiet, p.killed, p.down, p.gone)}, union(taken))
}

// since is when the process began to work, as far as is known.
func (p *process) since() time.Duration {
	if len(p.names) == 0 {
		return forever / 2 // it never did, or only pushes
	}
	return p.up[0]
}

// until is the first of some instants that came, or the end of everything.
func (w *world) until(instants ...time.Duration) time.Duration {
	until := w.end
	for _, at := range instants {
		if at != 0 {
			until = min(until, at)
		}
	}
	return until
}

// fullTimes are when a process had no processor free for long enough to matter, or a suspect, which leaves none to others.
func (w *world) fullTimes(p *process) []span {
	var full, running []span
	for _, r := range p.runs {
		running = append(running, r.span())
		if r.interrupted >= w.facts.MaxInterruptions-1 {
			full = append(full, r.span().later(turn))
		}
	}
	for _, s := range overlapping(running, w.facts.Concurrency) {
		full = append(full, s.later(turn))
	}
	return full
}

// An edge is where a span begins, or ends.
type edge struct {
	at time.Duration
	by int
}

// overlapping are the times in which at least n of the spans overlap.
func overlapping(spans []span, n int) []span {
	var edges []edge
	for _, s := range spans {
		edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.by, a.by)) })
	var found []span
	depth := 0
	for _, e := range edges {
		before := depth
		depth += e.by
		switch {
		case before < n && depth >= n:
			found = append(found, span{from: e.at})
		case before >= n && depth < n:
			found[len(found)-1].to = e.at
		}
	}
	return union(found)
}

// both are the times that lie in one of each; either's are in order and apart.
func both(a, b []span) []span { return overlapping(slices.Concat(a, b), 2) }

// minus is a span without others, which are in order and apart.
func minus(s span, others []span) []span {
	var rest []span
	at := s.from
	for _, other := range others {
		if other.to < at || other.from > s.to {
			continue
		}
		if other.from > at {
			rest = append(rest, span{at, other.from})
		}
		at = max(at, other.to)
	}
	if at < s.to {
		rest = append(rest, span{at, s.to})
	}
	return rest
}

// judgeRecoveries holds that what a killed process had in hand ran again in time, and that one kill did no more than that.
func (w *world) judgeRecoveries() {
	waiting := w.suspicion()
	for _, p := range w.lives {
		died, ok := p.died()
		if !ok || p.graceful() || len(p.names) == 0 {
			continue
		}
		w.verdict.Kills++
		again := 0
		for _, r := range p.runs {
			if r.next == nil || r.next.cause != KilledProc && r.next.cause != Unsettled {
				continue
			}
			again++
			w.judgeRecovery(r.next, span{died, r.next.start}, waiting)
		}
		w.verdict.MostAgain = max(w.verdict.MostAgain, again)
		if again > w.facts.Concurrency {
			w.violate(KillBound, "", died, "%d jobs ran again because %s died, which runs %d at once", again, p.name, w.facts.Concurrency)
		}
	}
	slices.Sort(w.verdict.Recoveries)
	slices.Sort(w.verdict.Excused)
	slices.Sort(w.verdict.Lateness)
	slices.Sort(w.verdict.LatenessInTrouble)
}

// suspicion is when suspects waited or ran. Then one process may stand aside for them, besides those that run one.
func (w *world) suspicion() []span {
	var times []span
	for _, t := range w.order {
		for _, r := range t.runs {
			if r.interrupted < w.facts.MaxInterruptions-1 {
				continue
			}
			since := r.start
			if r.after != nil {
				since = r.after.start
			}
			times = append(times, span{since, r.span().to})
		}
	}
	return union(times)
}

func (w *world) judgeRecovery(r *run, took span, suspicion []span) {
	v := w.verdict
	if r.interrupted >= w.facts.MaxInterruptions-1 {
		v.Suspects++ // waits for empty hands
		return
	}
	takers := w.free
	if took.touches(suspicion) {
		takers = w.freer
	}
	// Until it has lapsed nobody can do anything, and after that somebody must.
	lapsed := min(took.from+w.facts.TTL, took.to)
	charged := lapsed - took.from + span{lapsed, took.to}.within(both(w.judges(lapsed), takers))
	if took.length()-charged < turn {
		v.Recoveries = append(v.Recoveries, took.length())
	} else {
		v.Excused = append(v.Excused, took.length())
	}
	v.MostCharged = max(v.MostCharged, charged)
	if charged > w.facts.Recovery {
		w.violate(Slow, r.token.name, r.start, "its process died, and it ran again %v later, in %v of which some process could judge and some could take jobs; %v are promised",
			took.length().Round(time.Millisecond), charged.Round(time.Millisecond), w.facts.Recovery)
	}
}
