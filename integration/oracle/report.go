package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Rule is what a violation breaks.
type Rule string

// The rules.
const (
	Lost          Rule = "lost"           // an accepted job is nowhere
	Doubled       Rule = "doubled"        // it is in two places
	Again         Rule = "accepted twice" // it had ended
	IllegalEdge   Rule = "illegal edge"   // there is no way from this place to that
	WrongEnd      Rule = "wrong end"      // of a list
	Bytes         Rule = "bytes"          // something changed that may not
	RetryCount    Rule = "retry count"    // moves with a failure, by one
	Interruptions Rule = "interruptions"  // are counted for a crash with the job in hand, by one
	Living        Rule = "living"         // a process was taken for dead that is not, or lives on after it
	NotAlone      Rule = "not alone"      // a quarantined job has company
	Early         Rule = "early"          // promoted before its time
	Counters      Rule = "counters"       // move with the edges that they count
	Locks         Rule = "locks"          // come and go with the jobs that own them
	Tick          Rule = "tick"           // of a periodic job: comes once, in order, in the step that notes it
	States        Rule = "states"         // are written for running jobs, in order, and go with their jobs
	Batches       Rule = "batches"        // count their members in the steps that end them, and are called back once
	Next          Rule = "next jobs"      // are stored, all of them, in the step in which the job before them ends
	Gates         Rule = "gates"          // count what runs and what is admitted, and let no more start than they may
	Shards        Rule = "shards"         // a job, a lock, a gate, a batch and a periodic job are each on one shard
	Vanished      Rule = "vanished"       // the totals do not agree
	CannotJudge   Rule = "cannot judge"   // a write that this package does not understand
)

// A Violation is one breach of a rule.
type Violation struct {
	Rule Rule
	// JID is whose job it is; "" when it is about none, the text, quoted and cut, of one that cannot be read.
	JID string
	// Step and At say where in the log; Text says what is wrong.
	Step int
	At   time.Time
	Text string
	// Commands are the step's, as many as help.
	Commands string
}

func (v Violation) String() string {
	about := ""
	if v.JID != "" {
		about = " job " + v.JID + ":"
	}
	return fmt.Sprintf("step %d (%s):%s %s: %s\n\t%s", v.Step, stamp(v.At), about, v.Rule, v.Text, v.Commands)
}

func stamp(at time.Time) string {
	if at.IsZero() {
		return "no time"
	}
	return at.UTC().Format(time.TimeOnly)
}

// maxViolations is how many are kept; a bug that breaks every job need not be reported for each.
const maxViolations = 100

// A Report is what a log tells.
type Report struct {
	// Steps is how many there are.
	Steps int
	// Accepted counts the jobs that came in, those that were there when the log began included. Each is in
	// exactly one of the other counts.
	Accepted int
	// Done are those whose last run ended and left nothing; Discarded are how many of them failed in it
	// (which only the counters tell: a job that its handler discards without an error looks like one that is
	// done).
	Done, Discarded int
	// Dead lie in the dead set at the end, Trimmed fell out of it. Waiting are those in the other places.
	Dead, Trimmed int
	Waiting       map[Place]int
	// Deleted are those that an operator or the test took away, Abroad those that foreign workers took,
	// Flushed those that went with all data, Merged those that were equal in every byte to another in a
	// sorted set. Lost should be none.
	Deleted, Abroad, Flushed, Merged, Lost int
	// Locks is how many stand at the end. Tenures are, by jid, when jobs held theirs; Follows has for each
	// job that was run once more for duplicates the jid of that run.
	Locks   int
	Tenures map[string][]Tenure
	Follows map[string]string
	// Edges counts every way that a job went, Taken by jid how often it was given to a worker.
	Edges map[Edge]int
	Taken map[string]int
	// Violations are the first ones; More is how many there are besides.
	Violations []Violation
	More       int
	// Truncated says how the log ends, if it ends within a step.
	Truncated string
	// Last is the second of the last step.
	Last time.Time

	open    func() (source, error) // opens what is judged, again
	options []Option
	events  []Event
}

// An Event is one step of one job.
type Event struct {
	Step     int
	At       time.Time
	Edge     Edge
	Commands string
}

func (e Event) String() string {
	return fmt.Sprintf("step %d (%s): %v\n\t%s", e.Step, stamp(e.At), e.Edge, e.Commands)
}

// Timeline reads the log once more, which must still be there, and answers all steps of one job.
func (r *Report) Timeline(jid string) ([]Event, error) {
	again := newReplay(r.options)
	again.traced, again.report.open = jid, r.open
	report, err := again.run()
	if err != nil {
		return nil, err
	}
	return report.events, nil
}

// String is the report in one line.
func (r *Report) String() string {
	text := fmt.Sprintf("oracle: %s steps, %s jobs, %s violations", Thousands(r.Steps), Thousands(r.Accepted),
		Thousands(len(r.Violations)+r.More))
	var rest []string
	for _, count := range []struct {
		n    int
		what string
	}{
		{r.Done, "done"},
		{r.Dead, "dead"},
		{r.Trimmed, "trimmed"},
		{r.Deleted, "deleted"},
		{r.Abroad, "abroad"},
		{r.Flushed, "flushed"},
		{r.Merged, "merged"},
		{r.Lost, "lost"},
	} {
		if count.n > 0 {
			rest = append(rest, Thousands(count.n)+" "+count.what)
		}
	}
	for _, place := range slices.Sorted(maps.Keys(r.Waiting)) {
		rest = append(rest, Thousands(r.Waiting[place])+" in "+place.String())
	}
	if len(rest) > 0 {
		text += " (" + strings.Join(rest, ", ") + ")"
	}
	if r.Truncated != "" {
		text += "; the log ends within a step"
	}
	return text
}

// Thousands writes a number with commas, as all reports do.
func Thousands(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// violate reports a breach. of may be nil.
func (s *stride) violate(of *subject, rule Rule, format string, args ...any) {
	r := &s.k.report
	if len(r.Violations) >= maxViolations {
		r.More++
		return
	}
	v := Violation{Rule: rule, Step: s.Number, At: s.At, Text: strings.ToValidUTF8(fmt.Sprintf(format, args...), "?")}
	jid := ""
	if of != nil {
		v.JID = of.name()
	}
	if of != nil && of.named {
		jid = of.jid
	}
	v.Commands = describe(s.Commands, jid)
	r.Violations = append(r.Violations, v)
}

// note counts an edge, and keeps it when it is of the job that is traced.
func (s *stride) note(of *subject, e Edge) {
	s.k.report.Edges[e]++
	of.edge, of.movedAt = e, s.Number
	if e.Move == Taken && of.named {
		s.k.report.Taken[of.jid]++
	}
	if s.k.traced != "" && of.jid == s.k.traced {
		s.k.report.events = append(s.k.report.events, Event{s.Number, s.At, e, describe(s.Commands, of.jid)})
	}
}

// balance holds that every accepted job is in one of the counts.
func (r *Report) balance() {
	kept := r.Done + r.Dead + r.Trimmed + r.Deleted + r.Abroad + r.Flushed + r.Merged + r.Lost
	for _, n := range r.Waiting {
		kept += n
	}
	if kept != r.Accepted {
		r.Violations = append(r.Violations, Violation{Rule: Vanished, Step: r.Steps, At: r.Last,
			Text: fmt.Sprintf("%d jobs were accepted, and %d are accounted for", r.Accepted, kept)})
	}
}
