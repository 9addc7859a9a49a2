package verdict

import (
	"slices"
	"time"

	"github.com/belayq/belay/integration/history"
)

// judgeItems judges the runs of a checkpointed job. No bound here depends on the speed of the machine: a worker
// saves before the next item when an interval has passed by its own clock, and that clock wrote the history.
func (w *world) judgeItems(t *token) {
	total := t.spec().Items
	if total == 0 {
		return
	}
	for i, r := range t.runs {
		w.verdict.Items += len(r.items)
		if r.resumed == 0 {
			continue
		}
		if r.cursor > 0 {
			w.verdict.Resumed++
		}
		if done := t.reached(r.resumed, r); r.cursor > done {
			w.violate(Skipped, t.name, "it goes on after item %d on %s, and only %d were done", r.cursor, r.proc.name, done)
		}
		w.verdict.AgainItems += max(min(t.reached(r.start, r), r.last())-r.cursor, 0)
		for _, before := range t.runs[:i] {
			w.judgeGoesOn(t, before, r)
		}
		if i > 0 && follows(t.runs[i-1], r) && r.cursor < t.runs[i-1].last() {
			w.violate(Repeated, t.name, "it goes on after item %d on %s, and the run before ended with item %d: %s", r.cursor,
				r.proc.name, t.runs[i-1].last(), t.runs[i-1].outcome)
		}
	}
	ended := slices.ContainsFunc(t.runs, func(r *run) bool { return r.ended(history.OK) })
	if done := t.reached(forever, nil); ended && done != total {
		w.violate(Skipped, t.name, "it is done, and %d of its %d items were done", done, total)
	}
}

// last is the last item that a run did, or that was done before it.
func (r *run) last() int { return r.cursor + len(r.items) }

// by is how many items a run had done at an instant.
func (r *run) by(at time.Duration) int {
	n, _ := slices.BinarySearch(r.items, at)
	return n
}

// reached is the last item that other runs than one had done at an instant. They did all before it: each began
// after one that was done.
func (t *token) reached(at time.Duration, besides *run) (item int) {
	for _, r := range t.runs {
		if n := r.by(at); r != besides && n > 0 {
			item = max(item, r.cursor+n)
		}
	}
	return item
}

// follows reports whether a run began with what the end of another one left: the counts say that no crash was
// between them, and that the end was recorded. Its handler had not been cancelled, so that all its items count.
func follows(before, r *run) bool {
	if before.resumed == 0 || before.finish == 0 || before.finish > r.start || before.cancelled {
		return false
	}
	if before.outcome == history.Interrupted {
		// The count of crashes is cleared when the cursor has advanced.
		return r.failures == before.failures && (r.interrupted == before.interrupted || r.interrupted == 0)
	}
	return before.failed() && r.failures == before.failures+1
}

// judgeGoesOn holds that a run does not begin before what an earlier one must have saved.
func (w *world) judgeGoesOn(t *token, before, r *run) {
	if before.resumed == 0 || before.resumed > r.start {
		return
	}
	if r.cursor < before.cursor {
		w.violate(Repeated, t.name, "its cursor goes back from %d on %s to %d on %s", before.cursor, before.proc.name, r.cursor, r.proc.name)
		return
	}
	// The save of the cursor with which the run begins came before the first of these items. A save that came
	// an interval later was over when the last one began.
	again := before.items[min(r.cursor-before.cursor, len(before.items)):]
	again = again[:max(before.by(r.start)-(len(before.items)-len(again)), 0)]
	if len(again) < 2 {
		return
	}
	took := span{again[0], again[len(again)-2]}
	if took.length() >= w.Save && !w.mayFail(before, again) {
		w.violate(Repeated, t.name, "%s repeats %d items that %s had done in %v; it saves every %v", r.proc.name, len(again),
			before.proc.name, took.length().Round(time.Millisecond), w.Save)
	}
}

// deadline is the least time after which a save that Redis does not answer is given up.
const deadline = time.Second

// mayFail reports whether a save between some items may have failed: because of a fault, or because it took so
// long.
func (w *world) mayFail(r *run, items []time.Duration) bool {
	for i := range len(items) - 1 {
		if items[i+1]-items[i] >= deadline {
			return true
		}
	}
	return w.troubled(r.proc, span{items[0], items[len(items)-1]})
}
