package verdict

import (
	"slices"
	"time"
)

// early says whether a run started before the delay of the way that led to it was over, by Redis' clock, which may have been
// set meanwhile. The delay counts from the settling, which comes after the finish.
func (w *world) early(before *run, way way, r *run) bool {
	return way.delay > 0 && way.from <= r.start && w.elapsed(span{before.finish, r.start}) < way.delay
}

// rounding is by how much scores and timers may differ from what was asked for.
const rounding = time.Millisecond

// elapsed is the most that can have passed in a span by Redis' clock.
func (w *world) elapsed(during span) time.Duration {
	least, most := w.ahead(during)
	return during.length() + most - least + rounding
}

// judgeCounts holds that the counts a job carries moved as they should between two of its runs.
func (w *world) judgeCounts(r, before *run, way way) {
	if !w.explains(before, way, r) {
		w.violate(Counts, r.token.name, r.start, "it started on %s with %d failures and %d interruptions; the run on %s before it, with %d and %d, %s",
			r.proc.name, r.failures, r.interrupted, before.proc.name, before.failures, before.interrupted, wentBy(way))
	}
	w.judgeLimits(r)
}

func wentBy(way way) string { return "had " + string(way.cause) }

// judgeFirst is judgeCounts for a run that follows none: crashes that nobody saw it in may have come before it.
func (w *world) judgeFirst(r *run) {
	since := span{r.token.since(), r.start}
	if r.cause == "" && (r.failures != 0 || r.interrupted > w.lost(since)) {
		w.violate(Counts, r.token.name, r.start, "it started for the first time, with %d failures and %d interruptions", r.failures, r.interrupted)
	}
	w.judgeLimits(r)
}

// judgeLimits holds that a job starts no more when it has used up its retries or its crashes, and alone when it is a suspect.
func (w *world) judgeLimits(r *run) {
	switch most := w.facts.MaxInterruptions; {
	case r.failures > w.maxRetries(r.token):
		w.violate(TooOften, r.token.name, r.start, "it started after %d failed runs, and has %d retries", r.failures, w.maxRetries(r.token))
	case r.interrupted >= most:
		w.violate(TooOften, r.token.name, r.start, "it started after %d crashes, and %d bury it", r.interrupted, most)
	case r.interrupted == most-1:
		w.judgeAlone(r)
	}
}

// judgeAlone holds that nothing else runs in the process of a suspect, but what the process has lost without being able to
// end it.
func (w *world) judgeAlone(r *run) {
	alone := r.span()
	for _, other := range r.proc.runs {
		if other == r || !other.span().overlaps(alone) {
			continue
		}
		lost := slices.ContainsFunc(w.vanishing(other), func(way way) bool { return way.from <= max(r.start, other.start) })
		if !lost && (other.start < r.start || !w.lostSince(r, other.start)) {
			w.violate(NotAlone, r.token.name, max(r.start, other.start), "it is a suspect, and ran on %s beside %s", r.proc.name, other.token.name)
			return
		}
	}
}

// lostSince says whether a process may have lost a run by an instant.
func (w *world) lostSince(r *run, at time.Duration) bool {
	return slices.ContainsFunc(w.vanishing(r), func(way way) bool { return way.from <= at })
}

// judgeKiller holds that a job which kills whoever runs it does so as often as it may.
func (w *world) judgeKiller(t *token) {
	if t.spec().Kills >= 0 {
		return
	}
	if most := w.facts.MaxInterruptions; len(t.runs) > most {
		w.violate(TooOften, t.name, t.runs[most].start, "it kills its process each time, and was started %d times", len(t.runs))
	}
}
