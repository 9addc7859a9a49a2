package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/verdict"
)

// Each start after the first has a cause, and is counted by it.
func TestCauses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cause verdict.Cause
		story *story
	}{
		"its run failed": {verdict.Retried, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.Failed).run(3, 4, "b", "T", history.OK, seen{failures: 1})},
		"its handler panicked": {verdict.Retried, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.Panics).run(3, 4, "a", "T", history.OK, seen{failures: 1})},
		"its handler snoozed": {verdict.Woken, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.Snoozed).run(3, 4, "b", "T", history.OK)},
		"its process was killed": {verdict.KilledProc, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").kill(2, "a").run(11, 12, "b", "T", history.OK, seen{interrupted: 1})},
		"its process killed itself": {verdict.KilledProc, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").gone(1.5, "a").run(11, 12, "b", "T", history.OK, seen{interrupted: 1})},
		"its process was killed a moment after it": {verdict.Unsettled, newStory("a", "b").push(0, "T").
			run(1, 1.9, "a", "T", history.OK).kill(2, "a").run(11, 12, "b", "T", history.OK, seen{interrupted: 1})},
		"its process was cut off from its end to the kill": {verdict.Unsettled, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.OK).fault(1.5, 5, "unheard", "a").kill(5, "a").run(14, 15, "b", "T", history.OK, seen{interrupted: 1})},
		"redis was away from its end to the kill": {verdict.Unsettled, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.OK).fault(1.5, 5, "redis stop", "").kill(5, "a").run(14, 15, "b", "T", history.OK, seen{interrupted: 1})},
		"its process was stopped": {verdict.Hidden, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").fault(2, 15, "stop", "a").run(12, 13, "b", "T", history.OK, seen{interrupted: 1})},
		"its process was cut off by one fault after another": {verdict.Hidden, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").fault(2, 4, "blackhole", "a").fault(5, 8, "errors", "a").run(12, 13, "b", "T", history.OK, seen{interrupted: 1})},
		"the machine did not let its process run": {verdict.Stalled, newStory("a", "b").push(0, "T").
			add(1, history.Event{Kind: history.Health, Proc: "a"}).hangs(1, "a", "T").add(12, history.Event{Kind: history.Health, Proc: "a"}).
			run(11, 12, "b", "T", history.OK, seen{interrupted: 1})},
		"its process was asked to stop": {verdict.Requeued, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").leave(2, 4.1, "a").run(4.2, 5, "b", "T", history.OK)},
		"its process was asked twice": {verdict.Requeued, newStory("a", "b").push(0, "T").
			hangs(1, "a", "T").signal(2, "a", "TERM").leave(2.5, 2.6, "a").run(2.7, 5, "b", "T", history.OK)},
		"its process heard of its own death before the job was moved": {verdict.Requeued, wakesDead()},
		"its process left without redis": {verdict.Left, newStory("a", "b").push(0, "T").
			run(1, 2, "a", "T", history.OK).fault(1.5, 6, "redis kill", "").leave(2, 4, "a").run(14, 15, "b", "T", history.OK, seen{interrupted: 1})},
		"it was about to start when its process was stopped": {verdict.Thawed, newStory("a", "b").push(0, "T").
			fault(1, 14, "stop", "a").run(11, 12, "b", "T", history.OK, seen{interrupted: 1}).run(14.01, 15, "a", "T", history.OK)},
		"nobody knew whether it had been pushed": {verdict.PushedTwice, newStory("a", "b").pushed(0, "T", history.Unknown).push(0.5, "T").
			run(1, 2, "a", "T", history.OK).run(1, 2, "b", "T", history.OK)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := requireLawful(t, test.story)
			require.Equal(t, map[verdict.Cause]int{test.cause: 1}, v.Reruns)
			require.Equal(t, 1, v.Done)
		})
	}
}

// wakesDead is a process that is stopped for so long that it is declared dead, and wakes before its job has been moved.
func wakesDead() *story {
	s := newStory("a", "b").push(0, "T")
	run := s.start(1, "a", "T")
	s.fault(2, 15, "stop", "a").cancel(15, run, "belay: ownership lost")
	return s.finish(15, run, history.Stopped).run(16, 17, "b", "T", history.OK)
}
