package verdict_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/verdict"
)

// A life is a job's, drawn at random, and lawful. Each of its runs is in a process of its own, so that what happens to that
// one explains nothing else.
type life struct {
	*story
	t     *rapid.T
	token string
	at    float64
	now   seen
	steps []string
}

// drawStory draws a few lives beside each other, and a process to which nothing ever happens.
func drawStory(t *rapid.T) (*story, []*life) {
	s := newStory("calm")
	var lives []*life
	for n := range rapid.IntRange(1, 4).Draw(t, "jobs") {
		l := &life{story: s, t: t, token: fmt.Sprint("T", n), at: rapid.Float64Range(0, 5).Draw(t, "pushed at")}
		l.live()
		lives = append(lives, l)
	}
	return s, lives
}

func (l *life) live() {
	retries := rapid.IntRange(0, 3).Draw(l.t, "retries")
	delay := rapid.IntRange(0, 1).Draw(l.t, "delay") * 2000
	l.spec(l.token, history.Spec{Kind: "plain", Retries: retries, DelayMillis: delay})
	if rapid.Bool().Draw(l.t, "refused at first") {
		l.pushed(l.at, l.token, history.Refused)
		l.at++
	}
	l.push(l.at, l.token)
	l.at += float64(delay)/1000 + 0.1
	for len(l.steps) < 8 {
		step := rapid.SampledFrom([]string{"fail", "fail", "snooze", "kill", "stop", "hand back", "ok"}).Draw(l.t, "step")
		if (step == "kill" || step == "stop") && l.now.interrupted == 2 {
			step = "ok"
		}
		l.steps = append(l.steps, step)
		if l.step(step, retries) {
			return
		}
	}
	l.steps = append(l.steps, "ok")
	l.step("ok", retries)
}

// step is one run, and says whether it was the last.
func (l *life) step(step string, retries int) (over bool) {
	worker := fmt.Sprintf("%s-%d", l.token, len(l.steps))
	l.launch(l.at-0.2, worker)
	took := rapid.Float64Range(0.01, 3).Draw(l.t, "took")
	end := l.at + took
	switch step {
	case "ok":
		l.run(l.at, end, worker, l.token, history.OK, l.now)
		return true
	case "fail":
		l.run(l.at, end, worker, l.token, history.Failed, l.now)
		if l.now.failures == retries {
			l.lies("dead", l.token, fmt.Sprintf(`,"retry_count":%d`, retries))
			return true
		}
		l.now.failures++
		l.at = end + 0.5 + took
	case "snooze":
		l.run(l.at, end, worker, l.token, history.Snoozed, l.now)
		l.at = end + 0.7 + took
	case "kill":
		l.hangs(l.at, worker, l.token, l.now).kill(end, worker)
		l.now.interrupted++
		l.at = end + 9
	case "stop":
		l.hangs(l.at, worker, l.token, l.now).fault(end, end+30, "stop", worker)
		l.now.interrupted++
		l.at = end + 9
	case "hand back":
		l.hangs(l.at, worker, l.token, l.now).leave(end, end+2.1, worker)
		l.at = end + 2.2
	}
	return false
}

// A lawful history is found to be one, and every job in it is counted once.
func TestLawfulHistoriesAreFoundLawful(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, lives := drawStory(t)
		v := s.judge()
		if !v.Lawful() {
			t.Fatalf("%v\n%s", v, v.Timeline(v.Violations[0].Token))
		}
		if sum := v.Done + v.Discarded + v.Dead + v.Condemned + v.Missing; sum != len(lives) || v.Accepted != len(lives) {
			t.Fatalf("%d of %d jobs were counted: %v", sum, len(lives), v)
		}
		again := -len(lives)
		for _, l := range lives {
			again += len(l.steps)
		}
		for _, n := range v.Reruns {
			again -= n
		}
		if again != 0 {
			t.Fatalf("%d starts have no cause: %v", again, v)
		}
	})
}

// drop drops the nth event that is as wanted, counted from a drawn place, and says whether there was one.
func (s *story) drop(t *rapid.T, wanted func(history.Event) bool) (dropped history.Event, ok bool) {
	var found []int
	for i, e := range s.events {
		if wanted(e) {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return dropped, false
	}
	at := rapid.SampledFrom(found).Draw(t, "dropped")
	dropped = s.events[at]
	s.events = slices.Delete(s.events, at, at+1)
	return dropped, true
}

// Whatever is taken away from a lawful history, or put in, without which it would not be lawful, is found.
func TestOneChangeToALawfulHistoryIsFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(t *rapid.T, s *story) (changed bool)
		rules  []verdict.Rule
	}{
		"a success is missing": {func(t *rapid.T, s *story) bool {
			_, ok := s.drop(t, func(e history.Event) bool { return e.Outcome == history.OK })
			return ok
		}, []verdict.Rule{verdict.Lost}},
		"a failure is missing": {func(t *rapid.T, s *story) bool {
			_, ok := s.drop(t, func(e history.Event) bool { return e.Outcome == history.Failed })
			return ok
		}, []verdict.Rule{verdict.Overlap, verdict.Buried}},
		"a start is added after a success": {func(t *rapid.T, s *story) bool {
			done := slices.IndexFunc(s.events, func(e history.Event) bool { return e.Outcome == history.OK })
			if done < 0 {
				return false
			}
			e := s.events[done]
			s.start((e.At-seconds(0)).Seconds()+rapid.Float64Range(0, 30).Draw(t, "later"), "calm", e.Token, seen{1, 1})
			return true
		}, []verdict.Rule{verdict.Final}},
		"a start is added while a job runs": {func(t *rapid.T, s *story) bool {
			var open []history.Event
			for _, e := range s.events {
				if e.Kind == history.Finish {
					open = append(open, e)
				}
			}
			if len(open) == 0 {
				return false
			}
			e := rapid.SampledFrom(open).Draw(t, "run")
			s.start((e.At-seconds(0)).Seconds()-0.005, "calm", e.Token, seen{s.of(e.Run).Failures, s.of(e.Run).Interrupted})
			return true
		}, []verdict.Rule{verdict.Overlap, verdict.Final, verdict.Unjustified, verdict.Early, verdict.Counts, verdict.NotAlone}},
		"nobody was killed": {func(t *rapid.T, s *story) bool {
			e, ok := s.drop(t, func(e history.Event) bool { return e.Kind == history.Signalled && e.Fault == "KILL" })
			s.without(func(other history.Event) bool { return other.Kind == history.Gone && other.Proc == e.Proc })
			return ok
		}, []verdict.Rule{verdict.Overlap}},
		"nobody was stopped": {func(t *rapid.T, s *story) bool {
			e, ok := s.drop(t, func(e history.Event) bool { return e.Kind == history.Begin })
			s.without(func(other history.Event) bool { return other.Kind == history.End && other.Proc == e.Proc })
			return ok
		}, []verdict.Rule{verdict.Overlap}},
		"it was stopped for less than a lease": {func(t *rapid.T, s *story) bool {
			e, ok := s.drop(t, func(e history.Event) bool { return e.Kind == history.End })
			e.At -= 26 * time.Second
			s.events = append(s.events, e)
			return ok
		}, []verdict.Rule{verdict.Overlap}},
		"nobody was asked to stop": {func(t *rapid.T, s *story) bool {
			_, ok := s.drop(t, func(e history.Event) bool { return e.Fault == "TERM" })
			return ok
		}, []verdict.Rule{verdict.Overlap, verdict.Unjustified}},
		"nobody pushed it": {func(t *rapid.T, s *story) bool {
			e, ok := s.drop(t, func(e history.Event) bool { return e.Kind == history.Accepted })
			s.without(func(other history.Event) bool { return other.Kind == history.Invoke && other.Token == e.Token })
			return ok
		}, []verdict.Rule{verdict.Phantom}},
		"a failure too many is counted": {func(t *rapid.T, s *story) bool {
			e, ok := s.drop(t, func(e history.Event) bool { return e.Kind == history.Start })
			e.Failures++
			s.events = append(s.events, e)
			return ok
		}, []verdict.Rule{verdict.Counts, verdict.TooOften}},
		"it waits in a queue at the end": {func(t *rapid.T, s *story) bool {
			e, ok := s.drop(t, func(e history.Event) bool { return e.Kind == history.Accepted })
			s.events = append(s.events, e)
			s.lies("queue", e.Token, "")
			return ok
		}, []verdict.Rule{verdict.Stuck, verdict.Final}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				s, _ := drawStory(t)
				if !test.change(t, s) {
					t.Skip("nothing to change")
				}
				v := s.judge()
				found := slices.ContainsFunc(v.Violations, func(found verdict.Violation) bool { return slices.Contains(test.rules, found.Rule) })
				if !found {
					t.Fatalf("nothing was found, or something else: %v", v)
				}
			})
		})
	}
}
