package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/integration/history"
)

// String is the verdict in a few lines, the first of which says whether there is anything to object to.
func (v *Verdict) String() string {
	lines := []string{"verdict: lawful"}
	if !v.Lawful() {
		lines[0] = "verdict: UNLAWFUL: " + counted(v.Breaches)
	}
	lines = append(lines,
		fmt.Sprintf("jobs: %d pushed, %d accepted: %d done (%d after failures, %d after the loss of a process), %d discarded, %d dead, %d condemned by crashes",
			v.Tokens, v.Accepted, v.Done, v.FailedFirst, v.Recovered, v.Discarded, v.Dead, v.Condemned),
		fmt.Sprintf("starts: %d, of which again: %s; %d unjustified", v.Starts, or(counted(v.Reruns), "none"),
			v.Breaches[Unjustified]+v.Breaches[Overlap]+v.Breaches[Final]),
		fmt.Sprintf("kills: %d, each with at most %d jobs in hand that ran again; %d suspects ran alone", v.Kills, v.MostAgain, v.Suspects),
		"recovery: "+spread(v.Recoveries)+Histogram(v.Recoveries),
		"recovery while nobody could, for some of the time: "+spread(v.Excused)+Histogram(v.Excused),
		fmt.Sprintf("the slowest, without that time: %v", v.MostCharged.Round(time.Millisecond)),
		"lateness of scheduled jobs: "+spread(v.Lateness)+"; while something was amiss: "+spread(v.LatenessInTrouble),
		fmt.Sprintf("lost: %d, stuck: %d, phantom: %d", v.Breaches[Lost], v.Breaches[Stuck], v.Breaches[Phantom]))
	const shown = 10
	for i, violation := range v.Violations {
		if i == shown {
			lines = append(lines, fmt.Sprintf("  and %d more", sum(v.Breaches)-shown))
			break
		}
		lines = append(lines, "  "+violation.String())
	}
	return strings.Join(lines, "\n")
}

// spread is how durations, the shortest first, are distributed.
func spread(sorted []time.Duration) string {
	if len(sorted) == 0 {
		return "none"
	}
	at := func(percent int) time.Duration { return sorted[(len(sorted)-1)*percent/100].Round(time.Millisecond) }
	return fmt.Sprintf("%d, p50 %v, p99 %v, max %v", len(sorted), at(50), at(99), at(100))
}

// Histogram counts durations, the shortest first, by the second: "; 8 s: 12, 9 s: 30" are twelve of eight to nine seconds. It
// is empty for none.
func Histogram(sorted []time.Duration) string {
	text := ""
	for first := 0; first < len(sorted); {
		second := sorted[first] / time.Second
		n := first
		for n < len(sorted) && sorted[n]/time.Second == second {
			n++
		}
		text += fmt.Sprintf("%s%d s: %d", map[bool]string{true: "; ", false: ", "}[first == 0], second, n-first)
		first = n
	}
	return text
}

// counted spells counts, the greatest first.
func counted[K ~string](counts map[K]int) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b K) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	words := make([]string, len(keys))
	for i, key := range keys {
		words[i] = fmt.Sprintf("%d %s", counts[key], key)
	}
	return strings.Join(words, ", ")
}

func sum[K comparable](counts map[K]int) int {
	n := 0
	for _, count := range counts {
		n += count
	}
	return n
}

// Timeline tells the life of a token, one line an event, in seconds since it is first heard of: what was written down of it,
// and what was done to processes and to Redis meanwhile. It is empty for a token that nobody knows.
func (v *Verdict) Timeline(name string) string {
	w := v.world
	t := w.tokens[name]
	if t == nil {
		return ""
	}
	life := span{forever, 0}
	for _, e := range w.events {
		if e.Token == name {
			life.from, life.to = min(life.from, e.At), max(life.to, e.At)
		}
	}
	if len(t.left) > 0 {
		life.to = w.end // it lived on
	}
	around := span{life.from - w.facts.TTL, life.to + w.facts.Recovery}
	var lines []string
	for _, f := range w.faults {
		if f.from < around.from && f.to >= around.from {
			lines = append(lines, fmt.Sprintf("%9s  %s, since %.3f s", "", f, (f.from-life.from).Seconds()))
		}
	}
	for _, e := range w.events {
		if e.Token == name || e.Token == "" && e.Kind != history.Health && around.contains(e.At) {
			lines = append(lines, fmt.Sprintf("%9.3f  %s", (e.At-life.from).Seconds(), w.describe(e)))
		}
	}
	for _, lies := range t.left {
		lines = append(lines, fmt.Sprintf("%9s  lies in %s, failed %d times, interrupted %d times", "at last", lies.place, lies.held.failures(), lies.held.Interrupted))
	}
	return strings.Join(lines, "\n")
}

// describe is one event in words.
func (w *world) describe(e history.Event) string {
	words := []string{string(e.Kind)}
	add := func(label, value string) {
		if value != "" {
			words = append(words, strings.TrimSpace(label+" "+value))
		}
	}
	add("", e.Proc)
	add("", e.Fault)
	if e.Shift != 0 {
		add("by", e.Shift.String())
	}
	add("run", e.Run)
	if e.Kind == history.Start {
		add("", fmt.Sprintf("failed %d, interrupted %d", e.Failures, e.Interrupted))
		add("because", string(w.causeOf(e)))
	}
	if e.Kind == history.Invoke && e.Spec != nil {
		spec := *e.Spec
		spec.Ballast = nil // it may be huge
		add("", string(spell(&spec)))
	}
	add("", e.Outcome)
	add("", e.Text)
	return strings.Join(words, ", ")
}

// causeOf is why a run was started.
func (w *world) causeOf(start history.Event) Cause {
	for _, r := range w.tokens[start.Token].runs {
		if r.name == start.Run {
			return r.cause
		}
	}
	return ""
}
