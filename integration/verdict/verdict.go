package verdict

import (
	"fmt"
	"time"
)

// A Rule is what a violation breaks.
type Rule string

// The rules.
const (
	Lost        Rule = "lost"         // an accepted job is nowhere, and was not done
	Stuck       Rule = "stuck"        // it still waits, after all that it can wait for
	Phantom     Rule = "phantom"      // what started is not what was pushed
	Unjustified Rule = "unjustified"  // a job started again for no reason
	Overlap     Rule = "overlap"      // and while its run went on, which had been lost to nobody
	Final       Rule = "done is done" // and after it was done
	Buried      Rule = "buried"       // a dead job had retries left, or was blamed for too few crashes
	Early       Rule = "early"        // a job started before its time, by Redis' clock
	Counts      Rule = "counts"       // what a job says of its failures and interruptions is not what happened to it
	TooOften    Rule = "too often"    // it had used up its retries, or its crashes
	NotAlone    Rule = "not alone"    // a suspect had company
	KillBound   Rule = "kill bound"   // one kill made more jobs run again than the process had in hand
	Slow        Rule = "slow"         // a killed process' job ran again later than promised
	Counters    Rule = "counters"     // Redis' counters, the oracle's and the histories do not agree
	Residue     Rule = "residue"      // something was left in Redis that nothing is to leave
	Growth      Rule = "growth"       // a process' goroutines or files grew
	OracleSays  Rule = "oracle"       // the oracle has found something
	CannotJudge Rule = "cannot judge" // the histories contradict themselves, or tell what this package does not know
)

// A Violation is one breach of a rule.
type Violation struct {
	Rule Rule
	// Token is whose job it is, "" when it is about none.
	Token string
	// At is when, on the histories' clock; 0 is at the end.
	At   time.Duration
	Text string
}

func (v Violation) String() string {
	about := ""
	if v.Token != "" {
		about = " job " + v.Token + ":"
	}
	return fmt.Sprintf("%s:%s %s", v.Rule, about, v.Text)
}

// mostViolations is how many are kept; a bug that breaks every job need not be told for each.
const mostViolations = 100

// A Verdict is what was found.
type Verdict struct {
	// Tokens is how many jobs anybody tried to push, Accepted how many of them must have been in Redis: somebody was told
	// so, or they ran. Each accepted job is in exactly one of the five next counts.
	Tokens, Accepted int
	// Done were done; Discarded were ended by their handler; Dead ran out of retries or were killed by their handler;
	// Condemned died of crashes; Missing are lost or stuck.
	Done, Discarded, Dead, Condemned, Missing int
	// FailedFirst are those of Done that had failed before, Recovered those whose process was lost before.
	FailedFirst, Recovered int
	// Starts is how often handlers started; Reruns is why those did that were not a job's first.
	Starts int
	Reruns map[Cause]int

	// Kills is how many processes died otherwise than by their own will; MostAgain is by how many jobs at most one of these
	// deaths was the cause of another run.
	Kills, MostAgain int
	// Recoveries are, for each run that was cut short by the death of its process, how long it took until the job ran again, the
	// shortest first: of those during which some process could judge and some could take jobs all the time, to which the
	// promise applies. Excused are the others, which are charged with only as much of their time as that was so; MostCharged
	// is the most that any was charged with.
	Recoveries, Excused []time.Duration
	MostCharged         time.Duration
	// Suspects is how many waited for empty hands, which has no bound.
	Suspects int
	// Lateness is by how much scheduled jobs started late, the least first: of those for which nothing was amiss anywhere and a
	// processor was free. LatenessInTrouble is that of the others, whatever held them up.
	Lateness, LatenessInTrouble []time.Duration

	// Breaches counts the violations of each rule; Violations are the first ones.
	Breaches   map[Rule]int
	Violations []Violation

	world *world
}

func newVerdict() *Verdict {
	return &Verdict{Breaches: make(map[Rule]int), Reruns: make(map[Cause]int)}
}

// Lawful says whether there is no violation.
func (v *Verdict) Lawful() bool { return len(v.Breaches) == 0 }

// summarize counts what the tokens came to.
func (w *world) summarize() {
	v := w.verdict
	for _, t := range w.order {
		if len(t.pushes) > 0 {
			v.Tokens++
		}
		for i, r := range t.runs {
			v.Starts++
			if i > 0 && r.cause != "" {
				v.Reruns[r.cause]++
			}
		}
	}
}
