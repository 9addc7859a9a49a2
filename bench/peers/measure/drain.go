package measure

import (
	"context"
	"runtime"
	"time"

	"github.com/belayq/belay/bench/peers/talk"
)

// drain times one worker that empties a full queue, from its start to the last completion in the store: not
// until the queue is empty, which comes earlier.
func (t *task) drain(ctx context.Context) (talk.Event, error) {
	if err := t.wire.Wait(talk.Event{Event: talk.Ready}); err != nil {
		return talk.Event{}, err
	}
	pushed, err := t.storeAll(ctx, noops)
	if err != nil {
		return talk.Event{}, err
	}
	if err := t.peer.Rest(ctx); err != nil {
		return talk.Event{}, err
	}
	if err := t.wire.Wait(talk.Event{Event: talk.Pushed, Seconds: pushed}); err != nil {
		return talk.Event{}, err
	}
	ledger := newLedger(t.Jobs)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	started := time.Now()
	if err := t.peer.Start(ctx, "", func(n int, _ string) error {
		return ledger.note(n, nil)
	}); err != nil {
		return talk.Event{}, err
	}
	if err := t.peer.WaitAcknowledged(ctx, t.Jobs); err != nil {
		return talk.Event{}, err
	}
	took := time.Since(started)
	runtime.ReadMemStats(&after)
	allocs := float64(after.Mallocs-before.Mallocs) / float64(t.Jobs)
	return talk.Event{Seconds: took.Seconds(), Extra: map[string]float64{"allocs_per_job": allocs}}, ledger.check()
}
