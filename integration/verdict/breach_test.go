package verdict_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/verdict"
)

const crashed = `,"interrupted_count":3,"error_class":"Belay::Interrupted"`

// What nothing excuses is found, by the rule that it breaks and by no other.
func TestBreaches(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rule  verdict.Rule
		story *story
	}{
		"accepted, never started, nowhere": {verdict.Lost, newStory("a").push(0, "T")},
		"killed, and nowhere":              {verdict.Lost, newStory("a", "b").push(0, "T").hangs(1, "a", "T").kill(2, "a")},
		"failed with retries left, and nowhere": {verdict.Lost, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.Failed)},
		"failed for good, and not among the dead": {verdict.Lost, newStory("a", "b").spec("T", history.Spec{}).push(0, "T").
			run(1, 2, "a", "T", history.Failed)},
		"ran after a push without an answer, and nowhere": {verdict.Lost, newStory("a", "b").pushed(0, "T", history.Unknown).
			hangs(1, "a", "T").kill(2, "a")},
		"waits in its queue":  {verdict.Lost, newStory("a").push(0, "T").lies("queue", "T", "")},
		"lies with a process": {verdict.Lost, newStory("a").push(0, "T").hangs(1, "a", "T").lies("working", "T", "")},
		"waits for a retry":   {verdict.Lost, newStory("a").push(0, "T").run(1, 2, "a", "T", history.Failed).lies("retry", "T", `,"retry_count":0`)},
		"done, and in retry":  {verdict.Lost, newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK).lies("retry", "T", "")},
		"quarantined to the end": {verdict.Lost, newStory("a", "b", "c").push(0, "T").kill(1, "b").kill(2, "c").
			lies("quarantine", "T", `,"interrupted_count":2`)},
		"dead with a retry left": {verdict.Lost, newStory("a").push(0, "T").run(1, 2, "a", "T", history.Failed).
			run(3, 4, "a", "T", history.Failed, seen{failures: 1}).lies("dead", "T", `,"retry_count":1`)},

		"never pushed":       {verdict.Phantom, newStory("a").run(1, 2, "a", "T", history.OK)},
		"refused":            {verdict.Phantom, newStory("a").pushed(0, "T", history.Refused).run(1, 2, "a", "T", history.OK)},
		"dead, never pushed": {verdict.Phantom, newStory("a").lies("dead", "T", "")},
		"stored, though it was refused": {verdict.Phantom,
			newStory("a").pushed(0, "T", history.Refused).lies("queue", "T", "")},
		"other arguments": {verdict.Phantom, newStory("a").spec("T", history.Spec{Ballast: json.RawMessage("1.0")}).push(0, "T").
			spec("T", history.Spec{Ballast: json.RawMessage("1")}).run(1, 2, "a", "T", history.OK)},
		"another jid": {verdict.Phantom, changed(newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK),
			func(e *history.Event) { e.JID = "another" })},
		"another queue": {verdict.Phantom, changed(newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK),
			func(e *history.Event) { e.Queue = "another" })},
		"again after it was done": {verdict.Phantom, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.OK).run(4, 5, "b", "T", history.OK)},
		"again, long after it was done and before its process was killed": {verdict.Phantom, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.OK).kill(5.2, "a").run(15, 16, "b", "T", history.OK, seen{interrupted: 1})},
		"without a take": {verdict.Phantom, untaken(newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").run(2, 3, "b", "T", history.OK))},

		"retried before its backoff": {verdict.Early, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.Failed).run(2.4, 4, "b", "T", history.OK, seen{failures: 1})},
		"woken before its time": {verdict.Early, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.Snoozed).run(2.6, 4, "b", "T", history.OK)},
		"before it was due": {verdict.Early, newStory("a").spec("T", history.Spec{DelayMillis: 3000}).push(0, "T").
			run(2.9, 4, "a", "T", history.OK)},
		"before it was due by a clock that was set back": {verdict.Early, newStory("a").spec("T", history.Spec{DelayMillis: 3000}).
			clock(-10, -5).push(0, "T").run(2.9, 4, "a", "T", history.OK)},

		"later than promised":                     {verdict.Late, many(1, 17.5)},
		"later than promised by the last":         {verdict.Late, many(3, 16.85)},
		"late, while a slow link excuses nothing": {verdict.Late, many(1, 17.5).fault(3, 16, "latency", "b")},
		"late, while a third process is frozen": {verdict.Late, newStory("a", "b", "c").push(0, "T").hangs(1, "a", "T").kill(2, "a").
			fault(3, 21, "freeze", "c").run(22, 23, "b", "T", history.OK, seen{interrupted: 1})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			violation := requireBreach(t, test.rule, test.story)
			require.NotEmpty(t, violation.Text)
			if len(test.story.events) > 2 {
				require.NotEmpty(t, test.story.judge().Timeline(violation.Token))
			}
		})
	}
}

// changed changes every start.
func changed(s *story, change func(*history.Event)) *story {
	for i := range s.events {
		if s.events[i].Kind == history.Start {
			change(&s.events[i])
		}
	}
	return s
}

// untaken is a story in which the last start had no take.
func untaken(s *story) *story {
	s.facts.Taken["jid-T"]--
	return s
}

// breaker is a job that kills every process which runs it, one after the other.
func breaker(s *story, times int) *story {
	s.spec("T", history.Spec{Kills: -1, Retries: -1}).push(0, "T")
	for n, worker := range []string{"a", "b", "c"}[:times] {
		at := 1 + 11*float64(n)
		s.hangs(at, worker, "T", seen{interrupted: n}).gone(at+0.1, worker)
	}
	return s.lies("dead", "T", crashed)
}

// many is a process that is killed with so many jobs in hand, which another runs at an instant.
func many(size int, again float64) *story {
	s := newStory("a", "b")
	for n := range size {
		token := string(rune('T' + n))
		s.push(0, token).hangs(1, "a", token)
	}
	s.kill(2, "a")
	for n := range size {
		s.run(again+float64(n)/10, again+float64(n)/10+0.05, "b", string(rune('T'+n)), history.OK, seen{interrupted: 1})
	}
	return s.launch(60, "c")
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
		count func(v *verdict.Verdict) int
	}{
		"done": {newStory("a").push(0, "T").run(1, 2, "a", "T", history.OK),
			func(v *verdict.Verdict) int { return v.Done }},
		"done after all": {newStory("a").push(0, "T").run(1, 2, "a", "T", history.Failed).run(3, 4, "a", "T", history.OK, seen{failures: 1}),
			func(v *verdict.Verdict) int { return v.Again }},
		"recovered": {many(1, 11), func(v *verdict.Verdict) int { return len(v.Recoveries) }},
		"discarded": {newStory("a").push(0, "T").run(1, 2, "a", "T", history.Discarded),
			func(v *verdict.Verdict) int { return v.Discarded }},
		"killed by itself": {newStory("a").push(0, "T").run(1, 2, "a", "T", history.Killed).lies("dead", "T", ""),
			func(v *verdict.Verdict) int { return v.Dead }},
		"out of retries": {dead(newStory("a").push(0, "T")), func(v *verdict.Verdict) int { return v.Dead }},
		"out of crashes": {breaker(newStory("a", "b", "c"), 3), func(v *verdict.Verdict) int { return v.Crashed }},
		"without a handler": {newStory("a").spec("T", history.Spec{Kind: "stranger"}).push(0, "T").lies("dead", "T", `,"retry_count":0`),
			func(v *verdict.Verdict) int { return v.Dead }},
		"cancelled": {newStory("a").push(0, "T").add(0.1, history.Event{Kind: history.Marked, Proc: "pusher", Token: "T", JID: "jid-T"}),
			func(v *verdict.Verdict) int { return v.Cancelled }},
		"refused at first": {newStory("a").pushed(0, "T", history.Refused).push(1, "T").run(2, 3, "a", "T", history.OK),
			func(v *verdict.Verdict) int { return v.Done }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := requireLawful(t, test.story)
			require.Equal(t, 1, v.Accepted)
			require.Equal(t, 1, test.count(v))
		})
	}
	t.Run("a push without an answer may have come to nothing", func(t *testing.T) {
		t.Parallel()
		v := requireLawful(t, newStory("a").pushed(0, "T", history.Unknown).pushed(0, "U", ""))
		require.Zero(t, v.Accepted)
		require.Equal(t, 2, v.Tokens)
	})
}

// What a fault explains is lawful.
func TestExcuses(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*story{
		"late, because redis was away":                   many(1, 24).fault(3, 8, "redis stop", ""),
		"late, because no processor was free":            full(many(1, 30), 28),
		"late, because only a pusher had nothing to run": full(many(1, 30), 28).add(0.2, history.Event{Kind: history.Up, Proc: "p"}),
		"late, because no process lived":                 newStory("a").push(0, "T").hangs(1, "a", "T").kill(2, "a").launch(100, "b").run(110, 111, "b", "T", history.OK, seen{interrupted: 1}),
		"late, because the other was frozen":             many(1, 30).fault(8, 16, "freeze", "b"),
		"late, because the clock was set":                many(1, 19).clock(8, -100),
		"late, because the machine stood still":          stalled(many(1, 24)),
		"late, because it is quarantined": newStory("a", "b", "c").push(0, "T").hangs(1, "a", "T").kill(2, "a").
			hangs(11, "b", "T", seen{interrupted: 1}).kill(12, "b").run(70, 71, "c", "T", history.OK, seen{interrupted: 2}),
		"early, because the clock was set ahead": newStory("a").spec("T", history.Spec{DelayMillis: 3000}).push(0, "T").
			clock(1, 10).run(1.1, 4, "a", "T", history.OK),
		"again, because its process was killed a moment after it": newStory("a", "b").push(0, "T").
			run(1, 1.9, "a", "T", history.OK).kill(2, "a").run(11, 12, "b", "T", history.OK, seen{interrupted: 1}),
		"again, because its process was cut off from its end to the kill": newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.OK).fault(1.5, 7, "unreceived", "a").kill(7, "a").run(16, 17, "b", "T", history.OK, seen{interrupted: 1}),
		"again, because its process was about to start it when it was stopped": newStory("a", "b").push(0, "T").
			fault(1, 14, "stop", "a").run(11, 12, "b", "T", history.OK, seen{interrupted: 1}).run(14.01, 15, "a", "T", history.OK),
		"again, because Belay cancelled it": cancelled(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireLawful(t, s)
		})
	}
}

// cancelled is a job that was cancelled at the end of the shutdown timeout.
func cancelled() *story {
	s := newStory("a", "b").push(0, "T")
	run := s.start(1, "a", "T")
	s.cancel(4, run, "belay: shutdown: this process is stopping and the job goes back to its queue").finish(4.1, run, history.Failed)
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

// stalled leaves a gap between two heartbeats.
func stalled(s *story) *story {
	s.add(3, history.Event{Kind: history.Health, Proc: "b"})
	return s.add(10, history.Event{Kind: history.Health, Proc: "b"})
}
