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

// A course is that of one job, drawn at random, and lawful. Each of its runs is in a process of its own, so
// that what happens to that one explains nothing else.
type course struct {
	*story
	t     *rapid.T
	token string
	at    float64
	now   seen
	steps []string
}

// drawStory draws a few courses beside each other, and a process to which nothing ever happens.
func drawStory(t *rapid.T) (*story, []*course) {
	s := newStory("calm")
	var all []*course
	for n := range rapid.IntRange(1, 4).Draw(t, "jobs") {
		l := &course{story: s, t: t, token: fmt.Sprint("T", n), at: rapid.Float64Range(0, 5).Draw(t, "pushed at")}
		l.draw()
		all = append(all, l)
	}
	return s, all
}

func (l *course) draw() {
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
		step := rapid.SampledFrom([]string{"fail", "fail", "snooze", "kill", "stop", "requeue", "ok"}).Draw(l.t, "step")
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
func (l *course) step(step string, retries int) (over bool) {
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
	case "requeue":
		l.hangs(l.at, worker, l.token, l.now).leave(end, end+2.1, worker)
		l.at = end + 2.2
	}
	return false
}

// A lawful history is found to be one, and every job in it is counted once.
func TestLawfulHistoriesAreFoundLawful(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, all := drawStory(t)
		v := s.judge()
		if !v.Lawful() {
			t.Fatalf("%v\n%s", v, v.Timeline(v.Violations[0].Token))
		}
		if sum := v.Done + v.Discarded + v.Dead + v.Crashed + v.Missing; sum != len(all) || v.Accepted != len(all) {
			t.Fatalf("%d of %d jobs were counted: %v", sum, len(all), v)
		}
		again := -len(all)
		for _, l := range all {
			again += len(l.steps)
		}
		if again != v.Again {
			t.Fatalf("%d starts were not counted: %v", again-v.Again, v)
		}
	})
}

// drop drops an event that is as wanted, and reports whether there was one.
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

// A change after which a lawful history is not lawful any more is found.
func TestOneChangeToALawfulHistoryIsFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rule   verdict.Rule
		change func(t *rapid.T, s *story) (changed bool)
	}{
		"a success is missing": {verdict.Lost, func(t *rapid.T, s *story) bool {
			_, ok := s.drop(t, func(e history.Event) bool { return e.Outcome == history.OK })
			return ok
		}},
		"a start is added after a success": {verdict.Phantom, func(t *rapid.T, s *story) bool {
			done := slices.IndexFunc(s.events, func(e history.Event) bool { return e.Outcome == history.OK })
			if done < 0 {
				return false
			}
			e := s.events[done]
			s.start((e.At-seconds(0)).Seconds()+rapid.Float64Range(0.1, 30).Draw(t, "later"), "calm", e.Token, seen{1, 1})
			return true
		}},
		"a start is added without a take": {verdict.Phantom, func(t *rapid.T, s *story) bool {
			e := s.events[slices.IndexFunc(s.events, func(e history.Event) bool { return e.Kind == history.Start })]
			s.start((e.At-seconds(0)).Seconds()+rapid.Float64Range(0, 30).Draw(t, "later"), "calm", e.Token, seen{1, 1})
			s.facts.Taken[e.JID]--
			return true
		}},
		"its push is missing": {verdict.Phantom, func(t *rapid.T, s *story) bool {
			e, ok := s.drop(t, func(e history.Event) bool { return e.Kind == history.Accepted })
			s.events = slices.DeleteFunc(s.events, func(other history.Event) bool {
				return other.Kind == history.Invoke && other.Token == e.Token
			})
			return ok
		}},
		"it waits in a queue at the end": {verdict.Lost, func(t *rapid.T, s *story) bool {
			e := s.events[slices.IndexFunc(s.events, func(e history.Event) bool { return e.Kind == history.Accepted })]
			s.lies("queue", e.Token, "")
			return true
		}},
		"a retry comes too early": {verdict.Early, func(t *rapid.T, s *story) bool {
			failed, ok := s.drop(t, func(e history.Event) bool { return e.Outcome == history.Failed })
			next := slices.IndexFunc(s.events, func(e history.Event) bool {
				return e.Kind == history.Start && e.Token == failed.Token && e.At > failed.At
			})
			if !ok || next < 0 {
				return false
			}
			failed.At = s.events[next].At - time.Duration(rapid.Float64Range(0, 0.49).Draw(t, "gap")*float64(time.Second))
			s.events = append(s.events, failed)
			return true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				s, _ := drawStory(t)
				if !test.change(t, s) {
					t.Skip("nothing to change")
				}
				if v := s.judge(); v.Breaches[test.rule] == 0 {
					t.Fatalf("nothing was found, or something else: %v", v)
				}
			})
		})
	}
}
