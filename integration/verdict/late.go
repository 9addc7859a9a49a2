package verdict

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// The promise of recovery holds while one process can judge who is dead, some process can take jobs, and
// nothing is wrong with Redis, with these two, or with what the dead one left. Other time is excused: the time
// of a fault, and what its effects last at most. The rounds of chaos that only kill have none of it.

// turn is how long a processor must have nothing to do to count as free: between two jobs it has a moment.
const turn = 100 * time.Millisecond

// judgeRecoveries holds that what a killed process had in hand runs again in time.
func (w *world) judgeRecoveries() {
	v := w.verdict
	busy := w.busy()
	for _, p := range w.sorted() {
		died, ok := p.died()
		if !ok || p.up == 0 {
			continue
		}
		v.Kills++
		for _, r := range p.runs {
			again := r.next
			if again == nil || again.start < died || r.finish != 0 && r.finish < died-w.Settling || again.interrupted <= r.interrupted {
				continue
			}
			if again.interrupted >= w.MaxCrashes-1 {
				v.Quarantined++ // it waits for an idle process, which has no bound
				continue
			}
			took := span{died, again.start}
			charged := w.charged(p, again.proc, took, busy)
			if took.length()-charged < turn {
				v.Recoveries = append(v.Recoveries, took.length())
			} else {
				v.Excused = append(v.Excused, took.length())
			}
			v.MaxCharged = max(v.MaxCharged, charged)
			if charged > w.Recovery {
				w.violate(Late, again.token.name, "its process died, and it ran again %v later, %v of that without any other fault; "+
					"%v are promised", took.length().Round(time.Millisecond), charged.Round(time.Millisecond), w.Recovery)
			}
		}
	}
	slices.Sort(v.Recoveries)
	slices.Sort(v.Excused)
}

// charged is how much of the time until a job of a dead process ran in its successor nothing excuses, by the
// process
// that could judge the dead one all the time and had the least trouble itself.
func (w *world) charged(dead, successor *process, took span, busy []span) (most time.Duration) {
	for _, judge := range w.sorted() {
		if judge == dead || judge.up == 0 || judge.up+2*w.Beat >= took.from || judge.until() <= took.to {
			continue
		}
		excused, claims := slices.Clone(busy), 0
		for _, p := range w.sorted() {
			spans := w.wrong(p)
			switch {
			case p == dead || p == judge || p == successor:
				excused = append(excused, spans...)
			case took.within(spans) == 0:
			case p.until() < took.to: // the job may have come to it, unnoticed, and waited for its end to be noticed
				excused = append(excused, span{took.from, p.until() + w.Recovery})
			default:
				claims++
			}
		}
		// A process may be stopped right after it has claimed the dead one, and nothing renews its claim then.
		claimed := time.Duration(claims) * max(w.Beat, min(w.TTL, maxClaim))
		most = max(most, took.length()-took.within(union(excused))-claimed)
	}
	return most
}

// maxClaim is the janitor's.
const maxClaim = 4 * time.Second

// wrong is the time in which something other than a kill was wrong with Redis or a process.
func (w *world) wrong(p *process) []span {
	var spans []span
	for _, f := range w.faults {
		if !f.slow() && (f.proc == "" || f.proc == p.name) {
			// A janitor needs two checks two heartbeats apart, the delay that it draws, and another's claim,
			// each below a heartbeat; after a step of Redis' clock it must know the clock for a TTL.
			spans = append(spans, f.later(max(w.healing()+4*w.Beat, w.TTL+2*w.Beat)))
		}
	}
	return union(spans)
}

// busy is the time in which no process that was in order had a processor free.
func (w *world) busy() []span {
	var free []span
	for _, p := range w.sorted() {
		if p.works {
			free = append(free, minus(span{p.up, min(p.until(), w.end())}, union(append(w.full(p), w.wrong(p)...)))...)
		}
	}
	// While a job is quarantined, one process may stand aside for it besides the one that runs it.
	quarantine := w.quarantine()
	busy := minus(span{0, w.end()}, overlapping(free, 1))
	for _, s := range minus(span{0, w.end()}, overlapping(free, 2)) {
		if slices.ContainsFunc(quarantine, s.overlaps) {
			busy = append(busy, s)
		}
	}
	return busy
}

// full is when a process had no processor free for long enough to matter, or ran a quarantined job.
func (w *world) full(p *process) []span {
	var full, running []span
	for _, r := range p.runs {
		running = append(running, r.span())
		if r.interrupted >= w.MaxCrashes-1 {
			full = append(full, r.span().later(turn))
		}
	}
	for _, s := range overlapping(running, w.Concurrency) {
		full = append(full, s.later(turn))
	}
	return full
}

// quarantine is when quarantined jobs waited or ran.
func (w *world) quarantine() []span {
	var times []span
	for _, t := range w.order {
		for i, r := range t.runs {
			if r.interrupted >= w.MaxCrashes-1 {
				times = append(times, span{t.runs[max(i-1, 0)].span().to, r.span().to})
			}
		}
	}
	return times
}

func (w *world) sorted() []*process {
	return slices.SortedFunc(maps.Values(w.procs), func(a, b *process) int { return cmp.Compare(a.name, b.name) })
}
