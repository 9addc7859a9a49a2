package verdict

import (
	"cmp"
	"slices"
	"time"
)

// The promise of recovery holds while some process is well and has a processor free. What follows finds these times, so that
// a recovery is charged with nothing else.

// turn is how long a processor must have nothing to do to count as free: between two jobs it has a moment.
const turn = 100 * time.Millisecond

// relook is how long after a trouble a janitor may need until it can act again: two looks, its delay and another's claim.
func (w *world) relook() time.Duration { return 4 * w.facts.Beat }

// findHelp notes when a process was well and free, when at least two were, and when anything at all was amiss.
func (w *world) findHelp() {
	var helpers [][]span
	var amiss []span
	for _, p := range w.lives {
		if len(p.up) == 0 || len(p.runs) == 0 && len(p.health) == 0 {
			continue // a pusher
		}
		helpers = append(helpers, w.freeTimes(p))
		amiss = append(amiss, p.troubles...)
		if died, ok := p.died(); ok && !p.graceful() {
			amiss = append(amiss, span{died, died + w.facts.Recovery})
		}
	}
	w.free, w.freer = atLeast(1, helpers), atLeast(2, helpers)
	w.upsets = union(amiss)
}

// freeTimes are when a process took part: well for so long that it could look twice, not asked to stop, and with a processor
// free.
func (w *world) freeTimes(p *process) []span {
	until := w.end
	for _, at := range []time.Duration{p.quiet, p.killed, p.down, p.gone} {
		if at != 0 {
			until = min(until, at)
		}
	}
	var taken []span
	for _, trouble := range p.troubles {
		taken = append(taken, trouble.later(w.relook()))
	}
	for _, stall := range w.stalls(p) {
		taken = append(taken, stall.later(w.relook()))
	}
	taken = append(taken, w.fullTimes(p)...)
	return minus(span{p.up[0] + w.relook(), until}, union(taken))
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

// atLeast are the times in which at least n of several have one.
func atLeast(n int, all [][]span) []span { return overlapping(slices.Concat(all...), n) }

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
		if !ok || p.graceful() || len(p.up) == 0 {
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
	helped := w.free
	if took.touches(suspicion) {
		helped = w.freer
	}
	charged := took.within(helped)
	if took.length()-charged < turn {
		v.Recoveries = append(v.Recoveries, took.length())
	} else {
		v.Excused = append(v.Excused, charged)
	}
	if charged > w.facts.Recovery {
		w.violate(Slow, r.token.name, r.start, "its process died, and it ran again %v later, in %v of which some process was well and free; %v are promised",
			took.length().Round(time.Millisecond), charged.Round(time.Millisecond), w.facts.Recovery)
	}
}
