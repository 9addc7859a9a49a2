package verdict

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/integration/history"
)

// A Rule is what a violation breaks.
type Rule string

// The rules.
const (
	Lost    Rule = "lost"
	Phantom Rule = "phantom"
	Early   Rule = "early"
	Late    Rule = "late"
	// Skipped and Repeated are about the items of checkpointed jobs.
	Skipped  Rule = "skipped"
	Repeated Rule = "repeated"
)

// A Violation is one breach of a rule. Token names the job, if it is about one.
type Violation struct {
	Rule        Rule
	Token, Text string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Rule, v.Token, v.Text) }

// Facts are what a verdict needs besides the histories. The zero value of a setting is Belay's default.
type Facts struct {
	Beat, TTL time.Duration
	// Recovery is the promised time until a killed process' jobs run again. 15 s.
	Recovery time.Duration
	// Concurrency is each worker's, MaxRetries that of jobs which do not say, MaxCrashes the crash limit.
	Concurrency, MaxRetries, MaxCrashes int
	// MinBackoff is the least delay of a retry; MinLater and MinSnooze are those that handlers ask for. 0.
	MinBackoff, MinLater, MinSnooze time.Duration
	// Settling is how long the end of a run may take to reach Redis, with everything in order. 1 s.
	Settling time.Duration
	// Save is the least time between two saves of a cursor. 5 s.
	Save time.Duration
	// Left is what lay in Redis at the end.
	Left []Remnant
	// Taken counts, by jid, how often Redis gave a job to a worker. nil is not judged.
	Taken map[string]int
}

// A Remnant is a job that lay in Redis at the end, in the place that the oracle calls by that name.
type Remnant struct{ Place, Payload string }

func (f Facts) withDefaults() Facts {
	f.Beat, f.TTL = cmp.Or(f.Beat, 1500*time.Millisecond), cmp.Or(f.TTL, 6*time.Second)
	f.Recovery, f.Settling = cmp.Or(f.Recovery, 15*time.Second), cmp.Or(f.Settling, time.Second)
	f.Save = cmp.Or(f.Save, 5*time.Second)
	f.Concurrency, f.MaxRetries, f.MaxCrashes = cmp.Or(f.Concurrency, 25), cmp.Or(f.MaxRetries, 25), cmp.Or(f.MaxCrashes, 3)
	return f
}

// A Verdict is what was found.
type Verdict struct {
	// Tokens counts the jobs that were pushed, Accepted those that must have been in Redis: the push was
	// acknowledged, or a handler started. Each accepted job is in exactly one of the next six counts.
	Tokens, Accepted                                   int
	Done, Discarded, Cancelled, Dead, Crashed, Missing int
	// Starts counts handlers that started, Again those of a job that had started before.
	Starts, Again int
	// Kills counts processes that died otherwise than by a graceful stop. Quarantined jobs wait for an idle
	// process.
	Kills, Quarantined int
	// Items counts those that checkpointed jobs did, AgainItems those that had been done before. Resumed counts
	// runs that went on after a cursor.
	Items, AgainItems, Resumed int
	// Recoveries are, the shortest first, the times from a kill to the next start of each job in hand, if
	// nothing else was wrong meanwhile; Excused are the others. MaxCharged is the longest without the time
	// that was excused.
	Recoveries, Excused []time.Duration
	MaxCharged          time.Duration

	Breaches   map[Rule]int
	Violations []Violation // the first maxViolations

	world *world
}

// maxViolations is enough to see what is wrong: a bug that breaks every job need not be listed for each.
const maxViolations = 100

// Lawful reports whether there is no violation.
func (v *Verdict) Lawful() bool { return len(v.Breaches) == 0 }

// Judge judges events, which may be in any order.
func Judge(events []history.Event, facts Facts) *Verdict {
	w := &world{
		Facts: facts.withDefaults(), events: slices.Clone(events),
		procs: make(map[string]*process), tokens: make(map[string]*token),
	}
	w.verdict = &Verdict{Breaches: make(map[Rule]int), world: w}
	slices.SortStableFunc(w.events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	w.read()
	for _, t := range w.order {
		w.judgeStarts(t)
		w.judgeTimes(t)
		w.judgeItems(t)
		w.judgeEnd(t)
	}
	w.judgeRecoveries()
	return w.verdict
}

func (w *world) violate(rule Rule, token, format string, args ...any) {
	v := w.verdict
	v.Breaches[rule]++
	if len(v.Violations) < maxViolations {
		v.Violations = append(v.Violations, Violation{rule, token, fmt.Sprintf(format, args...)})
	}
}

// String returns the verdict in a few lines; the first reports whether it is lawful.
func (v *Verdict) String() string {
	lines := []string{"verdict: lawful"}
	if !v.Lawful() {
		lines[0] = "verdict: UNLAWFUL:"
		for _, rule := range slices.Sorted(maps.Keys(v.Breaches)) {
			lines[0] += fmt.Sprintf(" %d %s", v.Breaches[rule], rule)
		}
	}
	lines = append(lines,
		fmt.Sprintf("jobs: %d pushed, %d accepted: %d done, %d discarded, %d cancelled, %d dead, %d dead of crashes", v.Tokens, v.Accepted,
			v.Done, v.Discarded, v.Cancelled, v.Dead, v.Crashed),
		fmt.Sprintf("starts: %d, %d of them again; %d kills, %d jobs ran in quarantine", v.Starts, v.Again, v.Kills, v.Quarantined),
		fmt.Sprintf("items: %d, %d of them again; %d runs went on after a cursor", v.Items, v.AgainItems, v.Resumed),
		"recovery: "+spread(v.Recoveries),
		"recovery with other faults: "+spread(v.Excused),
		fmt.Sprintf("the slowest, without the time of other faults: %v", v.MaxCharged.Round(time.Millisecond)))
	for _, violation := range v.Violations[:min(len(v.Violations), 10)] {
		lines = append(lines, "  "+violation.String())
	}
	return strings.Join(lines, "\n")
}

// spread describes sorted durations: percentiles, and how many there are of each second.
func spread(sorted []time.Duration) string {
	if len(sorted) == 0 {
		return "none"
	}
	at := func(percent int) time.Duration { return sorted[(len(sorted)-1)*percent/100].Round(time.Millisecond) }
	text := fmt.Sprintf("%d, p50 %v, p99 %v, max %v", len(sorted), at(50), at(99), at(100))
	counts := make(map[time.Duration]int)
	for _, d := range sorted {
		counts[d.Truncate(time.Second)]++
	}
	for _, second := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf("; %v: %d", second, counts[second])
	}
	return text
}

// Timeline lists the events of one job, and what was done to processes and to Redis meanwhile, in seconds since
// its first event.
func (v *Verdict) Timeline(name string) string {
	w := v.world
	var of []time.Duration
	for _, e := range w.events {
		if e.Token == name {
			of = append(of, e.At)
		}
	}
	if len(of) == 0 {
		return ""
	}
	around := span{of[0] - w.TTL, of[len(of)-1] + w.Recovery}
	var lines []string
	for _, e := range w.events {
		if e.Token == name || e.Token == "" && e.Kind != history.Health && around.overlaps(span{e.At, e.At}) {
			if e.Spec != nil {
				spec := *e.Spec
				spec.Ballast = nil // it may be huge
				e.Spec = &spec
			}
			line, _ := json.Marshal(e) // an event was read from JSON
			lines = append(lines, fmt.Sprintf("%9.3f  %s", (e.At-of[0]).Seconds(), line))
		}
	}
	for _, lies := range w.token(name).left {
		lines = append(lines, fmt.Sprintf("%9s  lies in %s", "at last", lies.place))
	}
	return strings.Join(lines, "\n")
}
