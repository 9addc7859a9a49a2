package rivalry_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/rivalry"
)

// A story is histories being made up. Instants are in seconds.
type story struct {
	mode   string
	events []history.Event
	dead   map[string]bool
}

func of(mode string) *story { return &story{mode: mode, dead: make(map[string]bool)} }

func (s *story) note(second float64, e history.Event) *story {
	e.At = time.Duration(second * float64(time.Second))
	s.events = append(s.events, e)
	return s
}

func (s *story) spec() *history.Spec { return &history.Spec{Kind: s.mode} }

// push is a push and its answer; a duplicate's is followed by the holder.
func (s *story) push(from, to float64, jid string, kind history.Kind, holder ...string) *story {
	s.note(from, history.Event{Kind: history.Invoke, Token: "K", JID: jid, Spec: s.spec()})
	answer := history.Event{Kind: kind, Token: "K", JID: jid}
	if len(holder) > 0 {
		answer.Text = holder[0]
	}
	return s.note(to, answer)
}

func (s *story) accept(from float64, jid string) *story {
	return s.push(from, from+0.1, jid, history.Accepted)
}

func (s *story) refuse(from float64, jid, holder string) *story {
	return s.push(from, from+0.1, jid, history.Duplicate, holder)
}

// run is a handler's first and last word; one that ends at 0 has no last word.
func (s *story) run(from, to float64, jid, outcome string, interrupted ...int) *story {
	id := fmt.Sprint(len(s.events))
	start := history.Event{Kind: history.Start, Token: "K", JID: jid, Run: id, Spec: s.spec()}
	if len(interrupted) > 0 {
		start.Interrupted = interrupted[0]
	}
	s.note(from, start)
	if to > 0 {
		s.note(to, history.Event{Kind: history.Finish, JID: jid, Run: id, Outcome: outcome})
	}
	return s
}

func (s *story) outage(from, to float64) *story {
	return s.note(from, history.Event{Kind: history.Begin, Fault: "redis restart"}).note(to, history.Event{Kind: history.End, Fault: "redis restart"})
}

func (s *story) judge() *rivalry.Verdict {
	slices.SortStableFunc(s.events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	return rivalry.Judge(s.events, rivalry.Facts{Dead: s.dead, Slack: time.Second, Settling: time.Second})
}

const executing, executed, onceMore = rivalry.UntilExecuting, rivalry.UntilExecuted, rivalry.OnceMore

func TestWhatIsLawful(t *testing.T) {
	t.Parallel()
	dies := of(executed).accept(1, "a").run(2, 3, "a", history.Later).refuse(4, "b", "a").run(5, 0, "a", "")
	dies.dead["a"] = true
	for name, s := range map[string]*story{
		"one after the other":                   of(executed).accept(1, "a").run(2, 3, "a", history.OK).accept(4, "b").run(5, 6, "b", history.OK),
		"accepted as soon as the first starts":  of(executing).accept(1, "a").run(2, 5, "a", history.OK).accept(2.5, "b").run(3, 6, "b", history.OK),
		"just before its start is written down": of(executing).accept(1, "a").run(4, 5, "a", history.OK).accept(3.5, "b").run(6, 7, "b", history.OK),
		"one that waited again after a crash":   of(executing).accept(1, "a").run(9, 10, "a", history.OK, 1).accept(4, "b").run(5, 6, "b", history.OK),
		"one that waited in an outage":          of(executing).accept(1, "a").outage(2, 3).run(9, 10, "a", history.OK).accept(5, "b").run(6, 7, "b", history.OK),
		"refused while it waits and runs":       of(executed).accept(1, "a").refuse(1.5, "b", "a").run(2, 4, "a", history.OK).refuse(3, "c", "a"),
		"refused just after its end":            of(executed).accept(1, "a").run(2, 4, "a", history.OK).refuse(4.5, "b", "a"),
		"refused for one that nobody knows of":  of(executed).push(1, 2, "a", history.Unknown).refuse(3, "b", "a").run(4, 5, "a", history.OK),
		"dead":                                  dies,
		"an unknown push that was not stored":   of(executed).push(1, 2, "a", history.Unknown),
		"a failed push":                         of(executed).push(1, 2, "a", history.Refused),
		"once more for those refused":           of(onceMore).accept(1, "a").run(2, 4, "a", history.OK).refuse(3, "b", "a").run(5, 6, "r", history.OK),
		"not for those refused before":          of(onceMore).accept(1, "a").refuse(1.2, "b", "a").run(4, 5, "a", history.OK),
		"perhaps for those refused at its end":  of(onceMore).accept(1, "a").run(2, 4, "a", history.OK).push(3.9, 4.5, "b", history.Duplicate, "a"),
		"once more for one whose refusal was lost": of(onceMore).accept(1, "a").run(2, 4, "a", history.OK).push(3, 3.5, "b", history.Unknown).
			run(5, 6, "r", history.OK),
		"through a retry": of(onceMore).accept(1, "a").run(2, 3, "a", history.Later).refuse(3.5, "b", "a").run(5, 6, "a", history.OK).
			run(7, 9, "r", history.OK).refuse(8, "c", "r").run(10, 11, "r2", history.OK),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, s.judge().Violations)
		})
	}
}

func TestBreaches(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rule rivalry.Rule
		s    *story
	}{
		"never started":                          {rivalry.Lost, of(executed).accept(1, "a")},
		"failed, and never again":                {rivalry.Lost, of(executed).accept(1, "a").run(2, 3, "a", history.Later)},
		"cut short, and never again":             {rivalry.Lost, of(executed).accept(1, "a").run(2, 0, "a", "")},
		"refused, and it ran":                    {rivalry.Phantom, of(executed).accept(1, "a").refuse(1.5, "b", "a").run(2, 3, "a", history.OK).run(4, 5, "b", history.OK)},
		"nobody pushed it":                       {rivalry.Phantom, of(executed).run(4, 5, "b", history.OK)},
		"accepted while one waits":               {rivalry.Company, of(executing).accept(1, "a").accept(2, "b").run(4, 5, "a", history.OK).run(6, 7, "b", history.OK)},
		"accepted while one runs":                {rivalry.Company, of(executed).accept(1, "a").run(2, 4, "a", history.OK).accept(3, "b").run(5, 6, "b", history.OK)},
		"accepted while one waits for retry":     {rivalry.Company, of(executed).accept(1, "a").run(2, 3, "a", history.Later).accept(4, "b").run(5, 6, "a", history.OK).run(7, 8, "b", history.OK)},
		"started while one runs":                 {rivalry.Company, of(executed).accept(1, "a").run(2, 4, "a", history.OK).push(0.5, 9, "b", history.Unknown).run(3, 6, "b", history.OK)},
		"refused for nobody":                     {rivalry.Leak, of(executed).refuse(1, "b", "a")},
		"refused for one refused":                {rivalry.Leak, of(executed).accept(0, "c").run(0.1, 5, "c", history.OK).refuse(1, "a", "c").refuse(2, "b", "a")},
		"refused for one to come":                {rivalry.Leak, of(executed).refuse(1, "b", "a").accept(2, "a").run(3, 4, "a", history.OK)},
		"refused for one that has started":       {rivalry.Leak, of(executing).accept(1, "a").run(2, 9, "a", history.OK).refuse(3, "b", "a")},
		"refused for one that has ended":         {rivalry.Leak, of(executed).accept(1, "a").run(2, 3, "a", history.OK).refuse(5, "b", "a")},
		"the run that was asked for never comes": {rivalry.Again, of(onceMore).accept(1, "a").run(2, 4, "a", history.OK).refuse(3, "b", "a")},
		"it comes twice": {rivalry.Again, of(onceMore).accept(1, "a").run(2, 4, "a", history.OK).refuse(3, "b", "a").
			run(5, 6, "r", history.OK).run(7, 8, "r2", history.OK)},
		"it comes for nobody":                {rivalry.Again, of(onceMore).accept(1, "a").run(2, 4, "a", history.OK).run(5, 6, "r", history.OK)},
		"it comes for those who were served": {rivalry.Again, of(onceMore).accept(1, "a").refuse(1.2, "b", "a").run(4, 5, "a", history.OK).run(6, 7, "r", history.OK)},
		"another takes its turn": {rivalry.Again, of(onceMore).accept(1, "a").run(2, 4, "a", history.OK).refuse(3, "b", "a").
			accept(5, "c").run(6, 7, "c", history.OK)},
		"nobody ran before it": {rivalry.Again, of(onceMore).run(5, 6, "r", history.OK)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := test.s.judge().Violations
			require.NotEmpty(t, found)
			for _, violation := range found {
				require.Equal(t, test.rule, violation.Rule, "%v", violation)
			}
		})
	}
}
