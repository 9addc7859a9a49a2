package verdict

import (
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/integration/history"
)

// A tally is how many runs must have been counted, and how many may have been.
type tally struct{ least, most int }

func (t *tally) add(certain bool) {
	t.most++
	if certain {
		t.least++
	}
}

func (t tally) allows(n int) bool { return t.least <= n && n <= t.most }

// judgeCounters holds that Redis counted as many runs as ended, and that the oracle saw as many.
func (w *world) judgeCounters() {
	processed, failed := w.tallies()
	f := w.facts
	if f.Processed != nil && !processed.allows(*f.Processed) {
		w.violate(Counters, "", 0, "processed moved by %d; by the histories at least %d runs ended in Redis and at most %d", *f.Processed, processed.least, processed.most)
	}
	if f.Failed != nil && !failed.allows(*f.Failed) {
		w.violate(Counters, "", 0, "failed moved by %d; by the histories at least %d runs failed in Redis and at most %d", *f.Failed, failed.least, failed.most)
	}
	o := f.Oracle
	if o == nil {
		return
	}
	if o.Violations > 0 || o.Lost > 0 {
		w.violate(OracleSays, "", 0, "%d violations, %d lost", o.Violations, o.Lost)
	}
	dead := o.Failed + o.Condemned + o.Buried
	if f.Processed != nil && *f.Processed != o.Ended+o.Retried+dead {
		w.violate(Counters, "", 0, "processed moved by %d; the oracle saw %d runs end, %d to run again and %d to die", *f.Processed, o.Ended, o.Retried, dead)
	}
	if f.Failed != nil && (*f.Failed < o.Retried+dead || *f.Failed > o.Ended+o.Retried+dead) {
		w.violate(Counters, "", 0, "failed moved by %d; the oracle saw %d runs fail to run again and %d to die", *f.Failed, o.Retried, dead)
	}
}

// tallies counts the runs that ended, and the deaths of those that died of crashes. That of a process which may have been lost before it could say so may not have counted.
func (w *world) tallies() (processed, failed tally) {
	for _, t := range w.order {
		for _, r := range t.runs {
			fell := r.failed() || r.ended(history.Killed)
			if !fell && !r.ended(history.OK, history.Discarded) || r.next != nil && r.next.cause != Retried {
				continue
			}
			certain := !slices.ContainsFunc(w.ways(r), func(way way) bool { return way.cause != Retried })
			processed.add(certain)
			if fell {
				failed.add(certain)
			} else if r.outcome == history.Discarded {
				failed.add(false) // only if its handler gave a cause
			}
		}
		for _, lies := range t.left {
			if lies.place == "dead" && lies.held.ErrorClass == interruptedClass {
				processed.add(true)
				failed.add(true)
			}
			for range lies.held.failures() {
				if len(t.runs) == 0 { // nobody handles it
					processed.add(true)
					failed.add(true)
				}
			}
		}
	}
	return processed, failed
}

// lasting are the beginnings of the names of keys that may be there for good, or until they expire.
var lasting = []string{
	"queues", "dead", "paused", "stat:", "belay:stat:", "belay:alive", "belay:tombstones", "belay:process:", "belay:poller", "belay:sweeper",
	"belay:claim:", "belay:drain:", "belay:drain-asked:", "belay:pushes:",
}

// judgeResidue holds that nothing is left in Redis that nothing is to leave. Jobs that were left are others' to judge.
func (w *world) judgeResidue() {
	jobs := []string{"queue:", "schedule", "retry", "belay:working:", "belay:alone:", "belay:suspects:"}
	for _, key := range w.facts.Keys {
		begins := func(with string) bool { return strings.HasPrefix(key, with) }
		switch {
		case slices.ContainsFunc(lasting, begins), key == "processes":
		case slices.ContainsFunc(jobs, begins):
			if len(w.facts.Left) == 0 {
				w.violate(Residue, "", 0, "key %q is there, and no job is left", key)
			}
		case !w.recentlyDead(key):
			w.violate(Residue, "", 0, "key %q is left", key)
		}
	}
	for _, identity := range w.facts.Registered {
		if !w.recentlyDead(identity) {
			w.violate(Residue, "", 0, "process %s is registered", identity)
		}
	}
	if len(w.unreadable) > w.facts.Unreadable {
		w.violate(Phantom, "", 0, "%d texts that are no jobs were left, and %d were pushed: %.100q", len(w.unreadable), w.facts.Unreadable, w.unreadable[0].Payload)
	}
}

// recentlyDead says whether a key is about a process that died so late that nobody need have noticed.
func (w *world) recentlyDead(key string) bool {
	for _, p := range w.lives {
		died, ok := p.died()
		if ok && !p.graceful() && died+w.facts.Recovery+w.relook() > w.end && slices.ContainsFunc(p.names, func(identity string) bool {
			return strings.HasPrefix(key, identity)
		}) {
			return true
		}
	}
	return false
}

const (
	// warmth is how long a process may take to open what it needs.
	warmth = 5 * time.Second
	// sample is how many signs of life are compared, early with late ones; at least as many as make a good median.
	sample = 5
	// slackGoroutines and slackFiles are by how much the later ones may exceed the earlier, besides a goroutine for each
	// processor and a connection for each call under way: what one leak for every fault would soon exceed.
	slackGoroutines, slackFiles = 30, 20
)

// judgeGrowth holds that a process does not grow. What it has while it is in trouble is not looked at.
func (w *world) judgeGrowth(p *process) {
	if len(p.up) == 0 {
		return
	}
	calm := slices.DeleteFunc(slices.Clone(p.health), func(e history.Event) bool {
		return e.At < p.up[0]+warmth || (span{e.At, e.At}).touches(p.troubles) || p.quiet != 0 && e.At >= p.quiet
	})
	if len(calm) < 4*sample {
		return
	}
	early, late := calm[:sample], calm[len(calm)-sample:]
	for _, of := range []struct {
		what  string
		count func(history.Event) int
		slack int
	}{
		{"goroutines", func(e history.Event) int { return e.Goroutines }, slackGoroutines + w.facts.Concurrency},
		{"files", func(e history.Event) int { return e.Files }, slackFiles},
	} {
		if before, after := median(early, of.count), median(late, of.count); after > before+of.slack {
			w.violate(Growth, "", late[0].At, "%s had %d %s, and %v later %d", p.name, before, of.what, (late[0].At - early[0].At).Round(time.Second), after)
		}
	}
}

func median(events []history.Event, of func(history.Event) int) int {
	counts := make([]int, len(events))
	for i, e := range events {
		counts[i] = of(e)
	}
	slices.Sort(counts)
	return counts[len(counts)/2]
}
