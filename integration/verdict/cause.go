package verdict

import (
	"cmp"
	"slices"
	"time"

	"github.com/belayq/belay/integration/history"
)

// A Cause is why a job was started again.
type Cause string

// The causes. Each start after a token's first has one, and each run is the cause of one at most.
const (
	Retried     Cause = "failed"       // its run failed
	Woken       Cause = "snoozed"      // its handler asked for it
	Requeued    Cause = "handed back"  // its process was asked to stop, or heard that it counts as dead while the job was still its own
	KilledProc  Cause = "killed"       // its process died with the job in hand
	Unsettled   Cause = "unsettled"    // its handler had returned, and its process died before Redis can be sure to have heard
	Left        Cause = "left"         // its process ended by itself, without Redis
	Hidden      Cause = "hidden"       // its process was out of sight for longer than its lease: stopped, frozen, or cut off
	Stalled     Cause = "stalled"      // its process was not let run by the machine for longer than its lease
	Thawed      Cause = "thawed"       // it had been about to start when its process was halted, and did when that went on
	PushedTwice Cause = "pushed again" // nobody knew whether the first push had arrived
)

// lost says whether the cause is that a process was lost with the job in hand, which is an interruption.
func (c Cause) lost() bool {
	return slices.Contains([]Cause{KilledProc, Unsettled, Left, Hidden, Stalled}, c)
}

// about is how long before its handler starts a job may have been in hand.
const about = 250 * time.Millisecond

// A way is how a run may have led to another.
type way struct {
	cause Cause
	// from is the earliest that it can have.
	from time.Duration
	// delay is how long, by Redis' clock, it takes at least.
	delay time.Duration
	// failed and interrupted are by how much it counts up what the job knows of itself.
	failed, interrupted int
}

// ways are all that the histories allow for what came of a run, the earliest first.
func (w *world) ways(r *run) []way {
	ways := slices.Concat(w.ownWays(r), w.handingBack(r), w.dying(r), w.vanishing(r))
	slices.SortStableFunc(ways, func(a, b way) int { return cmp.Compare(a.from, b.from) })
	return ways
}

// ownWays are those of the handler's outcome.
func (w *world) ownWays(r *run) []way {
	switch {
	case r.failed() && r.failures < w.maxRetries(r.token):
		delay := w.facts.MinBackoff
		if r.outcome == history.Later {
			delay = w.facts.MinLater
		}
		return []way{{cause: Retried, from: r.finish, delay: delay, failed: 1}}
	case r.ended(history.Snoozed):
		return []way{{cause: Woken, from: r.finish, delay: w.facts.MinSnooze}}
	}
	return nil
}

// handingBack: a process that is asked to stop gives its handlers the shutdown timeout, asked again none, and hands back what
// is not done then. A handler whose context it had ended before hands its job back itself.
func (w *world) handingBack(r *run) []way {
	p := r.proc
	if len(p.terms) == 0 || r.ended(history.OK) && r.finish < p.terms[0] {
		return nil
	}
	from := p.terms[0] + w.facts.ShutdownTimeout - about
	if len(p.terms) > 1 {
		from = min(from, p.terms[1]-fringe)
	}
	if r.cancelled != 0 {
		from = min(from, r.cancelled)
	}
	from = max(from, p.terms[0]-fringe, r.start)
	if r.finish != 0 && r.finish < from || !r.span().overlaps(span{from, forever}) {
		return nil
	}
	return []way{{cause: Requeued, from: from}}
}

// dying: the process ended, and the job was in its hand.
func (w *world) dying(r *run) []way {
	died, ok := r.proc.died()
	if !ok {
		return nil
	}
	from := max(died, r.start)
	graceful := r.proc.graceful()
	switch {
	case graceful && !(span{or(r.finish, r.start), died}).touches(r.proc.troubles):
		return nil // it had Redis to tell, and ends only when it has told
	case graceful:
		return []way{{cause: Left, from: from, interrupted: 1}}
	case r.finish == 0:
		return []way{{cause: KilledProc, from: from, interrupted: 1}}
	case died <= w.settled(r.proc, r.finish):
		return []way{{cause: Unsettled, from: from, interrupted: 1}}
	}
	return nil
}

// vanishing: the process was out of sight for so long that it could be taken for dead, and had the job in hand.
func (w *world) vanishing(r *run) []way {
	inHand := span{r.start - about, r.span().to}
	if r.finish != 0 {
		inHand.to = w.settled(r.proc, r.finish)
	}
	var ways []way
	for _, a := range r.proc.absences {
		if a.own && a.length() >= w.lease() && a.overlaps(inHand) {
			cause := Hidden
			if len(a.names) == 1 && a.names[0] == stallOf(r.proc) {
				cause = Stalled
			}
			ways = append(ways, way{cause: cause, from: a.from + w.lease(), interrupted: 1})
			if r.cancelled != 0 {
				// It heard of its death before all that it had in hand was moved, and what was not is still its own to end.
				ways = append(ways, way{cause: Requeued, from: r.cancelled})
			}
		}
	}
	return ways
}

// chain gives every start of a token its cause, and every run what came of it.
func (w *world) chain(t *token) {
	roots := w.roots(t)
	for _, r := range t.runs {
		from, way := w.origin(t, r)
		switch {
		case from != nil:
			r.after, r.cause, from.next = from, way.cause, r
			w.judgeCounts(r, from, way)
			continue
		case roots > 0 && r == t.runs[0]:
			roots--
		case w.thawed(r):
			r.cause = Thawed
		case roots > 0:
			roots--
			r.cause = PushedTwice
		default:
			w.unjustified(t, r)
			continue
		}
		w.judgeFirst(r)
	}
}

// roots is how many jobs with this token may be in Redis by pushes alone.
func (w *world) roots(t *token) int {
	n := 0
	for _, p := range t.pushes {
		if p.answer != history.Refused {
			n++
		}
	}
	if w.facts.Repeatable || n == 0 {
		return 1
	}
	return n
}

// origin finds the run that a start follows: one that led nowhere yet, and could have led here. One that explains what the
// job knows of itself goes before one that does not, and a later one before an earlier.
func (w *world) origin(t *token, r *run) (found *run, how way) {
	for _, before := range slices.Backward(t.runs[:slices.Index(t.runs, r)]) {
		if before.next != nil {
			continue
		}
		for _, way := range w.ways(before) {
			if way.from > r.start || w.early(before, way, r) {
				continue
			}
			if w.explains(before, way, r) {
				return before, way
			}
			if found == nil {
				found, how = before, way
			}
		}
	}
	return found, how
}

// explains says whether the counts that the job carries moved as on that way, or by other crashes that it was in hand for
// without having been started.
func (w *world) explains(before *run, way way, r *run) bool {
	least := before.interrupted + way.interrupted
	others := max(w.lost(span{before.start, r.start})-way.interrupted, 0)
	return r.failures == before.failures+way.failed && least <= r.interrupted && r.interrupted <= least+others
}

// lost is how often, in a span, some process may have been lost with whatever it had in hand.
func (w *world) lost(during span) int {
	n := 0
	for _, l := range w.losses {
		if l.overlaps(during) {
			n++
		}
	}
	return n
}

// thawed says whether a run is one that had been about to start when its process was halted.
func (w *world) thawed(r *run) bool {
	return slices.ContainsFunc(w.faults, func(f fault) bool {
		return f.halted(r.proc) && f.length() >= w.lease() && f.to <= r.start+fringe && r.start <= f.to+about
	})
}

// unjustified tells what is wrong with a start without a cause.
func (w *world) unjustified(t *token, r *run) {
	last := t.runs[0]
	for _, before := range t.runs {
		if before == r {
			break
		}
		last = before
		if before.ended(history.OK) && before.finish <= r.start && before.next == nil && len(w.ways(before)) == 0 {
			w.violate(Final, t.name, r.start, "it started again on %s, %v after it was done on %s, which had had all the time to say so",
				r.proc.name, (r.start - before.finish).Round(time.Millisecond), before.proc.name)
			return
		}
	}
	for _, before := range t.runs[:slices.Index(t.runs, r)] {
		for _, way := range w.ways(before) {
			if before.next == nil && w.early(before, way, r) {
				before.next, r.after, r.cause = r, before, way.cause
				w.violate(Early, t.name, r.start, "it started %v after it had %s, and was to wait for %v", (r.start - before.finish).Round(time.Millisecond),
					way.cause, way.delay)
				return
			}
		}
	}
	switch {
	case last == r:
		w.violate(Unjustified, t.name, r.start, "it started on %s, and no push can have put it in", r.proc.name)
	case last.finish == 0 || last.finish > r.start:
		w.violate(Overlap, t.name, r.start, "it started on %s while it ran on %s, which had lost it to nobody", r.proc.name, last.proc.name)
	default:
		w.violate(Unjustified, t.name, r.start, "it started again on %s, and nothing had happened to its run on %s, which ended with %q",
			r.proc.name, last.proc.name, last.outcome)
	}
}
