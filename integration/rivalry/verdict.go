package rivalry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/integration/history"
)

// What a class of rivals says of its lock, as Spec.Kind of its jobs' events has it.
const (
	UntilExecuting = "until_executing"
	UntilExecuted  = "until_executed"
	OnceMore       = "until_executed, once more"
)

// A Rule is what a violation breaks.
type Rule string

// The rules.
const (
	Lost    Rule = "lost"    // accepted, and it has not ended
	Phantom Rule = "phantom" // it ran, and nobody pushed it, or it was refused
	Company Rule = "company" // accepted while another had the lock
	Leak    Rule = "leak"    // refused for the sake of one that cannot have had the lock
	Again   Rule = "again"   // it did not run once more for those refused, or it did for nobody
)

// A Violation is one breach of a rule.
type Violation struct {
	Rule     Rule
	Key, JID string
	At       time.Duration
	Text     string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s, job %s at %v: %s", v.Rule, v.Key, v.JID, v.At.Round(time.Millisecond), v.Text)
}

// A Verdict is what was found.
type Verdict struct {
	// Asked is how many pushes there were. Each is in one of the next three, or was certainly not stored.
	Asked, Accepted, Refused, Unknown int
	// Starts counts handlers, Reruns jobs that ran for those refused; Promised are the runs that had to come, and Idle the jobs for
	// which none was to come.
	Starts, Reruns, Promised, Idle int
	Violations                     []Violation
}

func (v *Verdict) String() string {
	lines := []string{fmt.Sprintf("rivalry: %d pushes: %d accepted, %d refused, %d unknown; %d starts, %d runs once more (%d had to come, %d must not); %d violations",
		v.Asked, v.Accepted, v.Refused, v.Unknown, v.Starts, v.Reruns, v.Promised, v.Idle, len(v.Violations))}
	for _, violation := range v.Violations[:min(len(v.Violations), 10)] {
		lines = append(lines, "  "+violation.String())
	}
	return strings.Join(lines, "\n")
}

// Facts are what a verdict needs besides the histories.
type Facts struct {
	// Dead are the jids in the dead set at the end.
	Dead map[string]bool
	// Slack is how long before it is written down something may have happened, with everything in order: the start of a run
	// before its handler's first word.
	Slack time.Duration
	// Settling is how long after a handler's last word its end may be unknown to Redis.
	Settling time.Duration
}

type judge struct {
	Facts
	verdict  *Verdict
	lives    map[string]*life
	refusals []refusal
	troubles []span
}

// Judge judges the histories of a run that has come to its end.
func Judge(events []history.Event, facts Facts) *Verdict {
	j := &judge{Facts: facts, verdict: &Verdict{}, lives: make(map[string]*life)}
	j.read(events)
	for key, rivals := range j.byKey() {
		for _, l := range rivals {
			j.judgeLife(l)
		}
		if rivals[0].mode == UntilExecuting {
			j.judgeUntilStart(rivals)
			continue
		}
		j.judgeUntilEnd(rivals)
		if rivals[0].mode == OnceMore {
			j.judgeReruns(key, rivals)
		}
	}
	for _, r := range j.refusals {
		j.judgeRefusal(r)
	}
	slices.SortStableFunc(j.verdict.Violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return j.verdict
}

func (j *judge) violate(rule Rule, l *life, at time.Duration, format string, args ...any) {
	j.verdict.Violations = append(j.verdict.Violations, Violation{rule, l.key, l.jid, at, fmt.Sprintf(format, args...)})
}

// byKey are those that ran or were accepted, by what they have in common, in the order of their first starts.
func (j *judge) byKey() map[string][]*life {
	keys := make(map[string][]*life)
	for _, l := range j.lives {
		if l.accepted || len(l.runs) > 0 {
			keys[l.key] = append(keys[l.key], l)
		}
	}
	for _, rivals := range keys {
		slices.SortFunc(rivals, func(a, b *life) int { return cmp.Compare(a.first(), b.first()) })
	}
	return keys
}
