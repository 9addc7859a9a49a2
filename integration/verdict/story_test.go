package verdict_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/verdict"
)

// A story is a history in the making. Instants are in seconds.
type story struct {
	events []history.Event
	facts  verdict.Facts
	specs  map[string]history.Spec
	runs   int
}

// newStory begins with workers that are up. Heartbeat interval and TTL are the defaults: 1.5 s and 6 s, hence
// a lease of 4.5 s.
func newStory(workers ...string) *story {
	s := &story{specs: make(map[string]history.Spec)}
	s.facts = verdict.Facts{Concurrency: 3, MinBackoff: 500 * time.Millisecond, MinSnooze: 700 * time.Millisecond, MaxRetries: 2,
		Taken: make(map[string]int)}
	for _, w := range workers {
		s.launch(-100, w)
	}
	return s
}

func seconds(at float64) time.Duration {
	return 1000*time.Second + time.Duration(at*float64(time.Second)).Round(time.Microsecond)
}

func (s *story) add(at float64, e history.Event) *story {
	e.At = seconds(at)
	s.events = append(s.events, e)
	return s
}

func (s *story) launch(at float64, worker string) *story {
	s.add(at, history.Event{Kind: history.Launch, Proc: worker})
	return s.add(at+0.1, history.Event{Kind: history.Up, Proc: worker, Text: "host:1:" + worker})
}

// spec says what the pushes of a token from here on say.
func (s *story) spec(token string, spec history.Spec) *story {
	s.specs[token] = spec
	return s
}

func (s *story) specOf(token string) *history.Spec {
	spec, known := s.specs[token]
	if !known {
		spec = history.Spec{Kind: "plain", Retries: -1}
	}
	return &spec
}

func (s *story) push(at float64, token string) *story { return s.pushed(at, token, history.Accepted) }

// pushed invokes a push and answers it; with an empty answer the pusher never reads one.
func (s *story) pushed(at float64, token string, answer history.Kind) *story {
	s.add(at, history.Event{Kind: history.Invoke, Proc: "pusher", Token: token, JID: "jid-" + token, Queue: "low", Spec: s.specOf(token)})
	if answer != "" {
		s.add(at+0.01, history.Event{Kind: answer, Proc: "pusher", Token: token, JID: "jid-" + token})
	}
	return s
}

// seen is what a job carries when it starts.
type seen struct{ failures, interrupted int }

// start starts a run that has not ended yet, and returns its name. Redis gave the job to the worker before.
func (s *story) start(at float64, worker, token string, counts ...seen) string {
	s.runs++
	e := history.Event{Kind: history.Start, Proc: worker, Token: token, JID: "jid-" + token, Queue: "low", Run: fmt.Sprint("run-", s.runs), Spec: s.specOf(token)}
	for _, c := range counts {
		e.Failures, e.Interrupted = c.failures, c.interrupted
	}
	s.add(at, e)
	s.facts.Taken[e.JID]++
	return e.Run
}

// run is a whole one.
func (s *story) run(from, to float64, worker, token, outcome string, counts ...seen) *story {
	return s.finish(to, s.start(from, worker, token, counts...), outcome)
}

// hangs is one that never ends.
func (s *story) hangs(at float64, worker, token string, counts ...seen) *story {
	s.start(at, worker, token, counts...)
	return s
}

// goesOver starts a run of T that goes on after a cursor and has done so many items then, the last one at an instant.
// It returns its name.
func (s *story) goesOver(from, to float64, worker string, cursor, items int, counts ...seen) string {
	run := s.start(from, worker, "T", counts...)
	e := history.Event{Kind: history.Resumed, Proc: worker, Token: "T", JID: "jid-T", Run: run, Item: cursor}
	s.add(from+0.001, e)
	for n := range items {
		e.Kind, e.Item = history.ItemDone, cursor+1+n
		s.add(from+0.001+(to-from-0.001)*float64(n+1)/float64(items), e)
	}
	return run
}

// of answers the start of a run.
func (s *story) of(run string) history.Event {
	return s.events[slices.IndexFunc(s.events, func(e history.Event) bool { return e.Kind == history.Start && e.Run == run })]
}

func (s *story) finish(at float64, run, outcome string) *story {
	start := s.of(run)
	return s.add(at, history.Event{Kind: history.Finish, Proc: start.Proc, Token: start.Token, JID: start.JID, Run: run, Outcome: outcome})
}

func (s *story) cancel(at float64, run, why string) *story {
	start := s.of(run)
	return s.add(at, history.Event{Kind: history.Cancelled, Proc: start.Proc, Token: start.Token, JID: start.JID, Run: run, Text: why})
}

func (s *story) signal(at float64, worker, name string) *story {
	return s.add(at, history.Event{Kind: history.Signalled, Proc: worker, Fault: name})
}

func (s *story) gone(at float64, worker string) *story {
	return s.add(at, history.Event{Kind: history.Gone, Proc: worker})
}

func (s *story) kill(at float64, worker string) *story {
	return s.signal(at, worker, "KILL").gone(at+0.02, worker)
}

// leave is a graceful end, long after it was asked for.
func (s *story) leave(askedAt, at float64, worker string) *story {
	s.signal(askedAt, worker, "TERM").add(at, history.Event{Kind: history.Down, Proc: worker})
	return s.gone(at+0.02, worker)
}

func (s *story) fault(from, to float64, name, proc string) *story {
	s.add(from, history.Event{Kind: history.Begin, Fault: name, Proc: proc})
	return s.add(to, history.Event{Kind: history.End, Fault: name, Proc: proc})
}

func (s *story) clock(at, by float64) *story {
	return s.add(at, history.Event{Kind: history.End, Fault: "clock", Shift: time.Duration(by * float64(time.Second))})
}

// lies says where a token lies at the end, with the fields of its payload.
func (s *story) lies(place, token, fields string) *story {
	payload := fmt.Sprintf(`{"jid":"jid-%s","args":["%[1]s",{}]%s}`, token, fields)
	s.facts.Left = append(s.facts.Left, verdict.Remnant{Place: place, Payload: payload})
	return s
}

func (s *story) judge() *verdict.Verdict { return verdict.Judge(s.events, s.facts) }

// requireLawful holds that there is nothing to object to.
func requireLawful(t *testing.T, s *story) *verdict.Verdict {
	t.Helper()
	v := s.judge()
	require.Empty(t, v.Violations)
	require.True(t, v.Lawful())
	return v
}

// requireBreach holds that a rule is found broken, and no other.
func requireBreach(t *testing.T, rule verdict.Rule, s *story) verdict.Violation {
	t.Helper()
	v := s.judge()
	require.Equal(t, []verdict.Rule{rule}, slices.Sorted(maps.Keys(v.Breaches)), "%v", v.Violations)
	require.False(t, v.Lawful())
	return v.Violations[0]
}
