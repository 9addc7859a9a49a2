package measure

import (
	"context"
	"runtime"
	"time"

	"github.com/belayq/belay/bench/subject"
)

// drain times one worker that empties a full queue, from its start to the last completion in the store: not
// until the queue is empty, which comes earlier.
func (t *task) drain(ctx context.Context) (subject.Event, error) {
	if err := t.talk.Ready(ctx); err != nil {
		return subject.Event{}, err
	}
	pushed, err := t.storeAll(ctx, noops)
	if err != nil {
		return subject.Event{}, err
	}
	if err := t.peer.Rest(ctx); err != nil {
		return subject.Event{}, err
	}
	if err := t.talk.Pushed(ctx, pushed); err != nil {
		return subject.Event{}, err
	}
	timing := NewTiming(t.Jobs)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	started := time.Now()
	if err := t.peer.Start(ctx, "", func(n int, _ string) error {
		return timing.Starts(n, started)
	}); err != nil {
		return subject.Event{}, err
	}
	if err := t.peer.WaitAcknowledged(ctx, t.Jobs); err != nil {
		return subject.Event{}, err
	}
	took := time.Since(started)
	runtime.ReadMemStats(&after)
	allocs := float64(after.Mallocs-before.Mallocs) / float64(t.Jobs)
	return subject.Event{Seconds: took.Seconds(), Extra: map[string]float64{"allocs_per_job": allocs}}, timing.check()
}
