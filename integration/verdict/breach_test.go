package verdict_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/verdict"
)

// What nothing excuses is found, by the rule that it breaks and by no other.
func TestBreaches(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rule  verdict.Rule
		story *story
	}{
		"accepted, never started, nowhere": {verdict.Lost, newStory("a").push(0, "T")},
		"killed, and nowhere": {verdict.Lost, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").kill(2, "a")},
		"failed with retries left, and nowhere": {verdict.Lost, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.Failed)},
		"failed for good, and not among the dead": {verdict.Lost, newStory("a", "b").spec("T", history.Spec{}).push(0, "T").
			run(1, 2, "a", "T", history.Failed)},
		"ran, though nobody heard of its push, and nowhere": {verdict.Lost, newStory("a", "b").pushed(0, "T", history.Unknown).
			hangs(1, "a", "T").kill(2, "a")},

		"waits in its queue":             {verdict.Stuck, newStory("a").push(0, "T").lies("queue", "T", "")},
		"lies with a process":            {verdict.Stuck, newStory("a").push(0, "T").hangs(1, "a", "T").lies("working", "T", "")},
		"waits for a retry to the end":   {verdict.Stuck, newStory("a").push(0, "T").run(1, 2, "a", "T", history.Failed).lies("retry", "T", `,"retry_count":0`)},
		"a suspect that nobody ever ran": {verdict.Stuck, newStory("a", "b", "c").push(0, "T").kill(1, "b").kill(2, "c").lies("suspects", "T", `,"interrupted_count":2`)},

		"nobody pushed it": {verdict.Phantom, newStory("a").run(1, 2, "a", "T", history.OK)},
		"it was refused":   {verdict.Phantom, newStory("a").pushed(0, "T", history.Refused).run(1, 2, "a", "T", history.OK)},
		"it lies there and was refused by nobody, for nobody pushed it": {verdict.Phantom, newStory("a").lies("dead", "T", "")},
		"it lies there though it was refused":                           {verdict.Phantom, newStory("a").pushed(0, "T", history.Refused).lies("queue", "T", "")},
		"its arguments were changed": {verdict.Phantom, newStory("a").spec("T", history.Spec{Ballast: json.RawMessage("1.0")}).push(0, "T").
			spec("T", history.Spec{Ballast: json.RawMessage("1")}).run(1, 2, "a", "T", history.OK)},
		"it has another jid":         {verdict.Phantom, renamed(newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK))},
		"it came from another queue": {verdict.Phantom, moved(newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK))},
		"a text that nobody pushed":  {verdict.Phantom, unreadable(newStory("a"))},

		"again after it was done": {verdict.Final, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.OK).run(4, 5, "b", "T", history.OK)},
		"again after it was done, long before its process was killed": {verdict.Final, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.OK).kill(3.2, "a").run(12, 13, "b", "T", history.OK, seen{interrupted: 1})},
		"again after it was done, though its process left in order": {verdict.Final, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.OK).leave(1.9, 2.1, "a").run(3, 4, "b", "T", history.OK)},
		"done, and among the dead": {verdict.Final, newStory("a", "b").spec("T", history.Spec{Retries: 1}).push(0, "T").
			run(1, 2, "a", "T", history.Failed).run(3, 4, "a", "T", history.OK, seen{failures: 1}).
			run(5, 6, "a", "T", history.Failed, seen{failures: 1}).lies("dead", "T", `,"retry_count":1`)},
		"done, and still in the retry set": {verdict.Final, newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK).lies("retry", "T", "")},

		"while it runs": {verdict.Overlap, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").run(2, 3, "b", "T", history.OK)},
		"while it runs, in an outage that hit everybody": {verdict.Overlap, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").fault(2, 22, "redis stop", "").run(23, 24, "b", "T", history.OK)},
		"while it runs, after a pause of the fleet": {verdict.Overlap, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").fault(2, 12, "fleet stop", "").run(15, 16, "b", "T", history.OK)},
		"while it runs, when the clock was set": {verdict.Overlap, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").clock(2, 3600).run(3, 4, "b", "T", history.OK)},
		"while it runs, after a cut shorter than a lease": {verdict.Overlap, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").fault(2, 6, "blackhole", "a").run(12, 13, "b", "T", history.OK)},
		"while it runs, when another was stopped": {verdict.Overlap, newStory("a", "b", "c").push(0, "T").
			hangs(1, "a", "T").fault(2, 15, "stop", "c").run(12, 13, "b", "T", history.OK)},
		"while it runs, in an outage beside which a cut of its own made no difference": {verdict.Overlap, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").fault(2, 25, "redis stop", "").fault(3, 6, "blackhole", "a").run(28, 29, "b", "T", history.OK)},
		"before the shutdown timeout was over": {verdict.Overlap, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").signal(2, "a", "TERM").run(3, 4, "b", "T", history.OK)},
		"before its process was killed": {verdict.Overlap, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").run(2, 3, "b", "T", history.OK, seen{interrupted: 1}).kill(4, "a")},

		"twice for one failure": {verdict.Unjustified, newStory("a", "b").push(0, "T").run(1, 2, "a", "T", history.Failed).
			run(3, 4, "a", "T", history.Failed, seen{failures: 1}).run(5, 6, "a", "T", history.Discarded, seen{failures: 2}).run(8, 9, "b", "T", history.OK, seen{failures: 1})},
		"after it was discarded": {verdict.Unjustified, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.Discarded).run(4, 5, "b", "T", history.OK)},
		"once more than it had retries": {verdict.Unjustified, newStory("a", "b").spec("T", history.Spec{}).push(0, "T").
			run(1, 2, "a", "T", history.Failed).run(4, 5, "b", "T", history.OK, seen{failures: 1})},
		"twice, by one repeatable push that was repeated": {verdict.Overlap, repeatable(newStory("a", "b").pushed(0, "T", history.Unknown).push(0.5, "T").
			run(1, 2, "a", "T", history.OK).run(1.5, 2.5, "b", "T", history.OK))},
		"thawed long after its process was": {verdict.Unjustified, newStory("a", "b").push(0, "T").
			fault(1, 12, "stop", "a").run(10, 11, "b", "T", history.Discarded, seen{interrupted: 1}).run(14, 15, "a", "T", history.OK)},

		"retried before its backoff": {verdict.Early, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.Failed).run(2.4, 4, "b", "T", history.OK, seen{failures: 1})},
		"woken before its time": {verdict.Early, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.Snoozed).run(2.6, 4, "b", "T", history.OK)},
		"started before it was due": {verdict.Early, newStory("a").spec("T", history.Spec{DelayMillis: 3000}).push(0, "T").
			run(2.9, 4, "a", "T", history.OK)},
		"started before it was due by a clock that was set back": {verdict.Early, newStory("a").spec("T", history.Spec{DelayMillis: 3000}).
			clock(-10, -5).push(0, "T").run(2.9, 4, "a", "T", history.OK)},

		"a failure that was not counted": {verdict.Counts, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.Failed).run(3, 4, "b", "T", history.OK)},
		"a hand-back that was counted": {verdict.Counts, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").leave(2, 4.1, "a").run(4.2, 5, "b", "T", history.OK, seen{interrupted: 1})},
		"a crash that was counted as a failure": {verdict.Counts, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").kill(2, "a").run(11, 12, "b", "T", history.OK, seen{failures: 1})},
		"a crash that was not counted": {verdict.Counts, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").kill(2, "a").run(11, 12, "b", "T", history.OK)},
		"one crash that was counted twice": {verdict.Counts, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").kill(2, "a").run(11, 12, "b", "T", history.OK, seen{interrupted: 2})},
		"an interruption before anything had happened": {verdict.Counts, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.OK, seen{interrupted: 1})},

		"condemned by a crash that never was": {verdict.Counts, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").kill(2, "a").lies("dead", "T", `,"interrupted_count":3,"error_class":"Belay::Interrupted"`)},
		"a killer that is not buried": {verdict.TooOften, killer(newStory("a", "b", "c", "d"), 4)},
		"dead with a retry left": {verdict.Buried, newStory("a").push(0, "T").run(1, 2, "a", "T", history.Failed).
			run(3, 4, "a", "T", history.Failed, seen{failures: 1}).lies("dead", "T", `,"retry_count":1`)},
		"dead by its count alone": {verdict.Buried, newStory("a").push(0, "T").run(1, 2, "a", "T", history.Failed).lies("dead", "T", `,"retry_count":2`)},
		"condemned by two crashes": {verdict.Buried, newStory("a", "b", "c").push(0, "T").hangs(1, "a", "T").kill(2, "a").
			hangs(11, "b", "T", seen{interrupted: 1}).kill(12, "b").lies("dead", "T", `,"interrupted_count":2,"error_class":"Belay::Interrupted"`)},
		"a suspect in company": {verdict.NotAlone, killer(newStory("a", "b", "c").push(0, "U").run(22, 23.05, "c", "U", history.OK), 3).
			lies("dead", "T", `,"interrupted_count":3,"error_class":"Belay::Interrupted"`)},
		"more than a process had in hand": {verdict.KillBound, crowd(4, 11)},
		"later than promised":             {verdict.Slow, crowd(1, 17.5)},

		"a run that was not counted":      {verdict.Counters, counted(newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK), 0, 0)},
		"a run that was counted twice":    {verdict.Counters, counted(newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK), 2, 0)},
		"a success that counts as failed": {verdict.Counters, counted(newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK), 1, 1)},
		"a killer's death that was not counted": {verdict.Counters, counted(killer(newStory("a", "b", "c"), 3).
			lies("dead", "T", `,"interrupted_count":3,"error_class":"Belay::Interrupted"`), 0, 0)},
		"the oracle saw another number of deaths": {verdict.Counters, seenBy(counted(killer(newStory("a", "b", "c"), 3).
			lies("dead", "T", `,"interrupted_count":3,"error_class":"Belay::Interrupted"`), 1, 1), verdict.Oracle{})},
		"the oracle saw another number": {verdict.Counters, seenBy(counted(newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK), 1, 0), verdict.Oracle{Ended: 2})},
		"the oracle objects":            {verdict.OracleSays, seenBy(newStory("a"), verdict.Oracle{Violations: 1})},

		"a working list":                 {verdict.Residue, keys(newStory("a"), "belay:working:low:host:1:a")},
		"a key of no kind that there is": {verdict.Residue, keys(newStory("a"), "belay:oops")},
		"a process that has left":        {verdict.Residue, registered(newStory("a", "b").leave(1, 2, "a"), "host:1:a")},
		"a process that died long ago":   {verdict.Residue, keys(newStory("a", "b").kill(1, "a").leave(60, 61, "b"), "host:1:a:work")},

		"a process that gathers goroutines": {verdict.Growth, healthy(newStory("a"), 3, 0)},
		"a process that gathers files":      {verdict.Growth, healthy(newStory("a"), 0, 1)},

		"an unknown fault":    {verdict.CannotJudge, newStory("a").fault(1, 2, "earthquake", "a")},
		"an answer to nobody": {verdict.CannotJudge, newStory("a").add(1, history.Event{Kind: history.Refused, Token: "T", Proc: "pusher"})},
		"two ends of a run":   {verdict.CannotJudge, newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK).finish(3, "run-1", history.OK)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			violation := requireBreach(t, test.rule, test.story)
			require.NotEmpty(t, violation.Text)
			if violation.Token != "" {
				require.NotEmpty(t, test.story.judge().Timeline(violation.Token))
			}
		})
	}
}

func renamed(s *story) *story {
	for i := range s.events {
		if s.events[i].Kind == history.Start {
			s.events[i].JID = "another"
		}
	}
	return s
}

func moved(s *story) *story {
	for i := range s.events {
		if s.events[i].Kind == history.Start {
			s.events[i].Queue = "another"
		}
	}
	return s
}

func unreadable(s *story) *story {
	s.facts.Left = append(s.facts.Left, verdict.Remnant{Place: "dead", Payload: "{"})
	return s
}

func repeatable(s *story) *story {
	s.facts.Repeatable = true
	return s
}

// killer is a job that kills every process which runs it, one after the other.
func killer(s *story, times int) *story {
	s.spec("T", history.Spec{Kills: -1, Retries: -1}).push(0, "T")
	for n, worker := range []string{"a", "b", "c", "d"}[:times] {
		at := 1 + 11*float64(n)
		s.hangs(at, worker, "T", seen{interrupted: n}).gone(at+0.1, worker)
	}
	if times > 3 {
		s.lies("dead", "T", `,"interrupted_count":3,"error_class":"Belay::Interrupted"`)
	}
	return s
}

// crowd is a process that is killed with so many jobs in hand, which another runs at an instant.
func crowd(size int, again float64) *story {
	s := newStory("a", "b")
	for n := range size {
		token := string(rune('T' + n))
		s.push(0, token).hangs(1, "a", token)
	}
	s.kill(2, "a")
	for n := range size {
		s.run(again+float64(n)/10, again+float64(n)/10+0.05, "b", string(rune('T'+n)), history.OK, seen{interrupted: 1})
	}
	return s
}

func counted(s *story, processed, failed int) *story {
	s.facts.Processed, s.facts.Failed = &processed, &failed
	return s
}

func seenBy(s *story, o verdict.Oracle) *story {
	s.facts.Oracle = &o
	return s
}

func keys(s *story, names ...string) *story {
	s.facts.Keys = names
	return s
}

func registered(s *story, identities ...string) *story {
	s.facts.Registered = identities
	return s
}

// healthy writes a minute of signs of life, of which each has so many more than the one before.
func healthy(s *story, goroutines, files int) *story {
	for n := range 60 {
		s.events = append(s.events, history.Event{Kind: history.Health, Proc: "a", At: seconds(float64(n)), Goroutines: 50 + goroutines*n, Files: 20 + files*n})
	}
	return s
}

// Everything lawful that a job can come to is counted as what it is.
func TestEnds(t *testing.T) {
	t.Parallel()
	dead := func(s *story) *story {
		for n := range 3 {
			at := 1 + 2*float64(n)
			s.run(at, at+1, "a", "T", history.Failed, seen{failures: n})
		}
		return s.lies("dead", "T", `,"retry_count":2`)
	}
	for name, test := range map[string]struct {
		story *story
		check func(v *verdict.Verdict) int
	}{
		"done":              {newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK), func(v *verdict.Verdict) int { return v.Done }},
		"done after all":    {newStory("a").push(0, "T").run(1, 2, "a", "T", history.Failed).run(3, 4, "a", "T", history.OK, seen{failures: 1}), func(v *verdict.Verdict) int { return v.FailedFirst }},
		"recovered":         {crowd(1, 11), func(v *verdict.Verdict) int { return v.Recovered }},
		"discarded":         {newStory("a").push(0, "T").run(1, 2, "a", "T", history.Discarded), func(v *verdict.Verdict) int { return v.Discarded }},
		"killed by itself":  {newStory("a").push(0, "T").run(1, 2, "a", "T", history.Killed).lies("dead", "T", ""), func(v *verdict.Verdict) int { return v.Dead }},
		"out of retries":    {dead(newStory("a").push(0, "T")), func(v *verdict.Verdict) int { return v.Dead }},
		"out of crashes":    {killer(newStory("a", "b", "c"), 3).lies("dead", "T", `,"interrupted_count":3,"error_class":"Belay::Interrupted"`), func(v *verdict.Verdict) int { return v.Condemned }},
		"handled by nobody": {newStory("a").spec("T", history.Spec{Kind: "stranger"}).push(0, "T").lies("dead", "T", `,"retry_count":0`), func(v *verdict.Verdict) int { return v.Dead }},
		"refused at first":  {newStory("a").pushed(0, "T", history.Refused).push(1, "T").run(2, 3, "a", "T", history.OK), func(v *verdict.Verdict) int { return v.Done }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := requireLawful(t, test.story)
			require.Equal(t, 1, v.Accepted)
			require.Equal(t, 1, test.check(v))
		})
	}
	t.Run("a push that nobody heard of again may have come to nothing", func(t *testing.T) {
		t.Parallel()
		v := requireLawful(t, newStory("a").pushed(0, "T", history.Unknown).pushed(0, "U", ""))
		require.Zero(t, v.Accepted)
		require.Equal(t, 2, v.Tokens)
	})
}

// What a fault explains is lawful, and what goes with it.
func TestExcuses(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*story{
		"late, because redis was away":           crowd(1, 24).fault(3, 8, "redis stop", ""),
		"late, because nobody had a processor":   full(crowd(1, 30), 28),
		"late, because nobody lived":             newStory("a").push(0, "T").hangs(1, "a", "T").kill(2, "a").launch(100, "b").run(110, 111, "b", "T", history.OK, seen{interrupted: 1}),
		"late, because the other was frozen":     crowd(1, 30).fault(8, 16, "freeze", "b"),
		"late, because the clock was set":        crowd(1, 19).clock(8, -100),
		"late, because it is a suspect":          suspect(),
		"early, because the clock was set ahead": newStory("a").spec("T", history.Spec{DelayMillis: 3000}).push(0, "T").clock(1, 10).run(1.1, 4, "a", "T", history.OK),
		"a failure that was settled late":        newStory("a", "b").push(0, "T").run(1, 2, "a", "T", history.Failed).fault(1.5, 9, "errors", "a").run(8, 9, "b", "T", history.OK, seen{interrupted: 1}),
		"a suspect beside what its process had lost": killer(newStory("a", "b", "c").push(0, "U").hangs(1, "c", "U").fault(2, 14, "stop", "c").
			run(12, 13, "b", "U", history.OK, seen{interrupted: 1}), 3).without(func(e history.Event) bool { return e.Kind == history.Health }).
			lies("dead", "T", `,"interrupted_count":3,"error_class":"Belay::Interrupted"`),
		"a crash that nobody saw it in":    newStory("a", "b").push(0, "T").kill(1, "a").run(10, 11, "b", "T", history.OK, seen{interrupted: 1}),
		"an error after a cancel by belay": cancelled(history.Failed),
		"it gave up after a cancel":        cancelled(history.Stopped),
		"a process that died just now":     keys(newStory("a", "b").kill(1, "a").leave(4, 5, "b"), "host:1:a", "host:1:a:work", "processes"),
		"what is always there":             keys(newStory("a"), "queues", "stat:processed", "stat:processed:2026-01-01", "belay:stat:duplicates", "dead", "belay:tombstones", "belay:process:host:1:a", "belay:poller"),
		"a run whose end nobody counted":   counted(newStory("a").push(0, "T").run(1, 1.9, "a", "T", history.OK).kill(2, "a"), 0, 0),
		"a cancelled success counts":       counted(newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK), 1, 0),
		"a killer's death counts": seenBy(counted(killer(newStory("a", "b", "c"), 3).
			lies("dead", "T", `,"interrupted_count":3,"error_class":"Belay::Interrupted"`), 1, 1), verdict.Oracle{Condemned: 1}),
		"a process of one size":             healthy(newStory("a"), 0, 0),
		"a process that grows in an outage": healthy(newStory("a"), 3, 0).fault(10, 60, "blackhole", "a"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireLawful(t, s)
		})
	}
}

// cancelled is a job that was cancelled at the end of the shutdown timeout, and what its handler said to that.
func cancelled(outcome string) *story {
	s := newStory("a", "b").push(0, "T")
	run := s.start(1, "a", "T")
	s.cancel(4, run, "belay: shutdown: this process is stopping and the job goes back to its queue").finish(4.1, run, outcome)
	return s.leave(2, 4.3, "a").run(4.5, 5, "b", "T", history.OK)
}

// full gives the other worker as much to do as it can do at once, until an instant.
func full(s *story, until float64) *story {
	for n := range 3 {
		token := string(rune('A' + n))
		s.push(0, token).run(1, until, "b", token, history.OK)
	}
	return s
}

// suspect was in hand in two crashes and waits for a minute.
func suspect() *story {
	return newStory("a", "b", "c").push(0, "T").hangs(1, "a", "T").kill(2, "a").hangs(11, "b", "T", seen{interrupted: 1}).kill(12, "b").
		run(72, 73, "c", "T", history.OK, seen{interrupted: 2})
}

// Figures are what they say.
func TestFigures(t *testing.T) {
	t.Parallel()
	t.Run("recovery", func(t *testing.T) {
		t.Parallel()
		v := requireLawful(t, crowd(3, 11))
		require.Equal(t, []time.Duration{9 * time.Second, 9100 * time.Millisecond, 9200 * time.Millisecond}, rounded(v.Recoveries))
		require.Empty(t, v.Excused)
		require.Equal(t, 1, v.Kills)
		require.Equal(t, 3, v.MostAgain)
		require.Contains(t, v.String(), "9 s: 3")
	})
	t.Run("recovery in an outage", func(t *testing.T) {
		t.Parallel()
		v := requireLawful(t, crowd(1, 24).fault(3, 8, "redis stop", ""))
		require.Empty(t, v.Recoveries)
		require.Len(t, v.Excused, 1)
		// Until it had lapsed, 6 s, and from when somebody could judge again, at 17.1 s.
		require.Equal(t, 12900*time.Millisecond, v.MostCharged)
	})
	t.Run("lateness", func(t *testing.T) {
		t.Parallel()
		v := requireLawful(t, newStory("a").spec("T", history.Spec{DelayMillis: 3000}).push(0, "T").run(3.06, 4, "a", "T", history.OK))
		require.Equal(t, []time.Duration{50 * time.Millisecond}, v.Lateness)
	})
	t.Run("lateness with a reason", func(t *testing.T) {
		t.Parallel()
		v := requireLawful(t, newStory("a", "b").kill(2.5, "b").spec("T", history.Spec{DelayMillis: 3000}).push(0, "T").run(5, 6, "a", "T", history.OK))
		require.Empty(t, v.Lateness)
		require.Equal(t, []time.Duration{1990 * time.Millisecond}, v.LatenessInTrouble)
	})
}

func rounded(all []time.Duration) []time.Duration {
	var some []time.Duration
	for _, d := range all {
		some = append(some, (d - 100*time.Millisecond).Round(time.Millisecond)) // a kill may come a moment before it is told
	}
	return some
}
