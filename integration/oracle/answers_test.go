package oracle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/oracle"
)

// answers are histories of jobs with one key, and what the log says of them. Instants are in seconds.
type answers struct {
	oracle.Answers
	report oracle.Report
	kind   string
}

const onceMore, atStart = "once more", "until_executing"

func answersOf(kind string) *answers {
	return &answers{
		kind: kind, Answers: oracle.Answers{Zero: time.Unix(1e9, 0), Again: onceMore, Until: atStart, Dead: make(map[string]bool)},
		report: oracle.Report{Taken: make(map[string]int), Tenures: make(map[string][]oracle.Tenure), Follows: make(map[string]string)},
	}
}

func (a *answers) add(second float64, e history.Event) *answers {
	e.At = time.Duration(second * float64(time.Second))
	e.Spec = &history.Spec{Kind: a.kind}
	if e.Token == "" {
		e.Token = "K"
	}
	a.Events = append(a.Events, e)
	return a
}

func (a *answers) push(second float64, jid string, answer history.Kind, holder string) *answers {
	a.add(second, history.Event{Kind: history.Invoke, JID: jid})
	return a.add(second+0.1, history.Event{Kind: answer, JID: jid, Text: holder})
}

// hold says from when to when a job held the lock.
func (a *answers) hold(jid string, from, to int64) *answers {
	a.report.Tenures[jid] = append(a.report.Tenures[jid], oracle.Tenure{From: time.Unix(1e9+from, 0), To: time.Unix(1e9+to, 0)})
	return a
}

func (a *answers) run(from, to float64, jid, outcome string) *answers {
	a.report.Taken[jid]++
	run := fmt.Sprint(len(a.Events))
	a.add(from, history.Event{Kind: history.Start, JID: jid, Run: run})
	return a.add(to, history.Event{Kind: history.Finish, JID: jid, Run: run, Outcome: outcome})
}

// again says that job r follows job a.
func (a *answers) again() *answers {
	a.report.Follows["a"] = "r"
	return a
}

// lockedJob is a job that held its lock from 10 to 40, and ran from 20 to 40.
func lockedJob(kind string) *answers {
	return answersOf(kind).push(10, "a", history.Accepted, "").hold("a", 10, 40)
}

func (a *answers) ran() *answers { return a.run(20, 40, "a", history.OK) }

func TestAnswers(t *testing.T) {
	t.Parallel()
	dead := lockedJob("").run(20, 30, "a", history.Later)
	dead.Dead["a"] = true
	for name, test := range map[string]struct {
		answers *answers
		breach  string // "" is none
	}{
		"one after the other": {answers: lockedJob("").ran().push(50, "b", history.Accepted, "").hold("b", 50, 60).run(55, 60, "b", history.OK)},
		"accepted when the first starts": {answers: lockedJob(atStart).push(21, "b", history.Accepted, "").hold("b", 21, 22).
			run(20, 40, "a", history.OK).run(22, 60, "b", history.OK)},
		"refused while it waits and runs": {answers: lockedJob("").push(15, "b", history.Duplicate, "a").ran().push(30, "c", history.Duplicate, "a")},
		"an unknown push":                 {answers: answersOf("").push(10, "a", history.Unknown, "")},
		"a failed push":                   {answers: answersOf("").push(10, "a", history.Refused, "")},
		"dead":                            {answers: dead},
		"once more": {answers: lockedJob(onceMore).ran().push(30, "b", history.Duplicate, "a").again().
			hold("r", 40, 50).run(45, 50, "r", history.OK)},
		"once more for a push without an answer": {answers: lockedJob(onceMore).ran().push(30, "b", history.Unknown, "").again().
			hold("r", 40, 50).run(45, 50, "r", history.OK)},
		"not once more for one refused before": {answers: lockedJob(onceMore).push(12, "b", history.Duplicate, "a").ran()},

		"never started":              {lockedJob(""), "has not ended"},
		"failed, and never again":    {lockedJob("").run(20, 30, "a", history.Later), "has not ended"},
		"accepted without a lock":    {answersOf("").push(10, "a", history.Accepted, "").ran(), "never held a lock"},
		"refused, and it ran":        {lockedJob("").push(15, "b", history.Duplicate, "a").ran().run(50, 60, "b", history.OK), "it ran"},
		"refused for a job unknown":  {answersOf("").push(10, "b", history.Duplicate, "a"), "never accepted"},
		"refused for a refused one":  {lockedJob("").ran().push(15, "b", history.Duplicate, "a").push(16, "c", history.Duplicate, "b"), "never accepted"},
		"refused after the lock":     {lockedJob("").ran().push(50, "b", history.Duplicate, "a"), "did not hold the lock"},
		"refused before the lock":    {lockedJob("").ran().push(5, "b", history.Duplicate, "a"), "did not hold the lock"},
		"refused for another key":    {lockedJob("").ran().add(30, history.Event{Kind: history.Invoke, JID: "b", Token: "L"}).add(30, history.Event{Kind: history.Duplicate, JID: "b", Token: "L", Text: "a"}), "another key"},
		"started while one runs":     {lockedJob("").push(11, "b", history.Unknown, "").ran().run(30, 35, "b", history.OK), "before another"},
		"started without a take":     {untaken(lockedJob("").ran()), "gave it to workers"},
		"the run that is due":        {lockedJob(onceMore).ran().push(30, "b", history.Duplicate, "a"), "did not run once more"},
		"one more run without cause": {lockedJob(onceMore).ran().again().hold("r", 40, 50).run(45, 50, "r", history.OK), "no duplicate was refused"},
		"one more run for one refused before": {lockedJob(onceMore).push(12, "b", history.Duplicate, "a").ran().again().
			hold("r", 40, 50).run(45, 50, "r", history.OK), "no duplicate was refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, breaches := test.answers.report.JudgeAnswers(test.answers.Answers)
			if test.breach == "" {
				require.Empty(t, breaches)
				return
			}
			require.Len(t, breaches, 1)
			require.Contains(t, breaches[0], test.breach)
		})
	}
}

func untaken(a *answers) *answers {
	a.report.Taken["a"] = 0
	return a
}
