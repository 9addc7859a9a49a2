package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/belayq/belay/bench/peers/talk"
)

const (
	// recoverQueue is the victim's and the survivor's alone.
	recoverQueue = "recover"
	// held is how long a victim's job runs: far longer than the bench takes to kill its process.
	held = time.Minute
)

// victim takes jobs that do not end and waits to be killed.
func (t *task) victim(ctx context.Context) (talk.Event, error) {
	if t.Jobs < 1 || t.Jobs > t.Concurrency {
		return talk.Event{}, fmt.Errorf("%d jobs cannot all start at a concurrency of %d", t.Jobs, t.Concurrency)
	}
	if err := t.wire.Wait(talk.Event{Event: talk.Ready}); err != nil {
		return talk.Event{}, err
	}
	if _, err := t.storeAll(ctx, func(n int) Job { return Job{N: n, Class: Noop, Queue: recoverQueue} }); err != nil {
		return talk.Event{}, err
	}
	ledger := newLedger(t.Jobs)
	if err := t.peer.Start(ctx, recoverQueue, func(n int, _ string) error {
		if err := ledger.note(n, nil); err != nil {
			return err
		}
		time.Sleep(held)
		return nil
	}); err != nil {
		return talk.Event{}, err
	}
	if err := ledger.wait(ctx, patience); err != nil {
		return talk.Event{}, err
	}
	return talk.Event{}, t.wire.Wait(talk.Event{Event: talk.Holding})
}

// survivor runs what the victim has left, at the system's default settings, until the bench hangs up or says
// to stop.
func (t *task) survivor(ctx context.Context) (talk.Event, error) {
	if err := t.wire.Wait(talk.Event{Event: talk.Ready}); err != nil {
		return talk.Event{}, err
	}
	if err := t.peer.Start(ctx, recoverQueue, func(_ int, id string) error {
		return t.wire.Say(talk.Event{Event: talk.Ran, JID: id, UnixNano: time.Now().UnixNano()})
	}); err != nil {
		return talk.Event{}, err
	}
	return talk.Event{}, t.wire.Await()
}
