package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/bench/subject"
)

// ErrBusy is the error of a handler whose job must not run now, because as many jobs of its key run as may. The
// system runs the job again, after the time that Later returns, and does not count a failure.
var ErrBusy = errors.New("as many jobs of its key run as may")

// Later returns after which time a busy job is tried again: at random up to ten seconds, as asynq's
// documentation has it. Without the chance all of them would come back at once.
func Later() time.Duration { return rand.N(10 * time.Second) }

// work is what a job does: it takes its time.
func (t *task) work(ctx context.Context) error {
	if t.Millis == 0 {
		return nil
	}
	return Pause(ctx, time.Duration(t.Millis*float64(time.Millisecond)))
}

const (
	// newcomers is how many jobs the key has that comes late.
	newcomers = 3
	// starving is how long they are waited for: a system that works off all jobs before them gets its figure.
	starving = 4 * time.Minute
)

// starve runs jobs of a few keys of which there are far more than may run at once. When half of the time is
// over, some jobs of another key are pushed, and are timed until they start. The event Holding means that the
// time is over.
func (t *task) starve(ctx context.Context) (e subject.Event, err error) {
	if t.Keys < 1 || t.Limit < 1 || t.Seconds <= 0 {
		return e, errors.New("keys, limit and seconds are above 0")
	}
	if err := t.fill(ctx); err != nil {
		return e, err
	}
	running := make([]atomic.Int32, t.Keys+1)
	var runs, refused atomic.Int64
	timing := NewTiming(newcomers)
	err = t.peer.Start(ctx, "", func(n int, _ string) error {
		key := &running[t.KeyOf(n)]
		defer key.Add(-1)
		if key.Add(1) > int32(t.Limit) { //nolint:gosec // a few
			refused.Add(1)
			return ErrBusy
		}
		runs.Add(1)
		if n >= t.Jobs {
			if err := timing.Starts(n-t.Jobs, time.Now()); err != nil {
				return err
			}
		}
		return t.work(ctx)
	})
	half := time.Duration(t.Seconds * float64(time.Second) / 2)
	if err == nil {
		err = Pause(ctx, half)
	}
	if err != nil {
		return e, err
	}
	end := time.Now().Add(half)
	for n := range newcomers {
		timing.Due[n] = time.Now()
		if err := t.peer.Enqueue(ctx, Noops(t.Jobs+n)); err != nil {
			return e, fmt.Errorf("push to another key: %w", err)
		}
	}
	if e, err = timing.finish(ctx, starving); err != nil {
		return e, err
	}
	if err := Pause(ctx, time.Until(end)); err != nil {
		return e, err
	}
	e.Extra = map[string]float64{"runs": float64(runs.Load()), "refused": float64(refused.Load())}
	return e, t.talk.SayAndWait(ctx, subject.Event{Event: subject.Holding})
}
