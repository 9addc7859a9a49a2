package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

const (
	// DefaultDoWait is how long Do waits for a slot, as in Sidekiq Enterprise.
	DefaultDoWait = 5 * time.Second
	// The time between two requests for a slot grows from firstDoPause to maxDoPause. Redis cannot say when a
	// run will end. A longer pause would leave a slot unused, and a shorter one would cost as much as runs do.
	firstDoPause = 20 * time.Millisecond
	maxDoPause   = 500 * time.Millisecond
	// renewals is how many times a lease is renewed while it would last.
	renewals = 3
	// loseAfter is how long renewals may fail until the holder must stop: before the lease ends, after which
	// another caller may have the slot.
	loseAfter = lua.HoldLease * 2 / renewals
)

// ErrOverLimit is the error of Do if the limit has no slot and no permit in time.
var ErrOverLimit = retry.ErrOverLimit

// ErrLimitLost is the cause with which the context of Do's function ends when its slot may belong to another
// caller: Redis was away for too long, or the process stood still.
var ErrLimitLost = errors.New("belay: the slot of the limit is lost: it was not renewed in time")

// Do calls fn with a slot of a limit, and frees the slot when fn returns. It waits for a slot for this long,
// at most until ctx ends, but not if the rate has no permit until then; 0 asks once. belay.Do describes it.
func (c *Client) Do(ctx context.Context, l limit.Limit, key string, wait time.Duration, fn func(ctx context.Context) error) error {
	if err := l.Check(); err != nil {
		return fmt.Errorf("belay: Do: %w", err)
	}
	slot := slot{space: c.spaces[0], gate: l.Gate(key), holder: job.NewJID()}
	if c.place != nil {
		slot.space = c.spaces[c.place.of(slot.gate.Name)]
		if err := slot.space.admit(ctx); err != nil {
			return fmt.Errorf("belay: Do with the limit %s: %w", l.Name, slot.space.of(err))
		}
	}
	takenAt, err := slot.take(ctx, wait)
	if err != nil {
		if !errors.Is(err, ErrOverLimit) {
			slot.free(ctx) // its reply may be lost
		}
		return fmt.Errorf("belay: Do with the limit %s: %w", l.Name, err)
	}
	held, lose := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { slot.renew(held, takenAt, lose) })
	defer func() { // also if fn panics
		lose(nil)
		renewing.Wait()
		slot.free(ctx)
	}()
	return fn(held)
}

// A slot is one that a caller holds and no job.
type slot struct {
	space  *space // whose gate it is
	gate   lua.Gate
	holder string
}

// take asks for the slot until it has it, and returns when it sent the request that got it.
func (s slot) take(ctx context.Context, wait time.Duration) (sentAt time.Time, err error) {
	ask := s.space.keys.Acquire(s.gate, s.holder)
	pause := link.Backoff{First: firstDoPause, Max: maxDoPause}
	for deadline := time.Now().Add(wait); ; {
		sentAt = time.Now()
		called, cancel := context.WithTimeout(ctx, driver.CallTimeout)
		got, err := ask.Do(called, s.space.driver)
		cancel()
		switch {
		case ctx.Err() != nil:
			return sentAt, context.Cause(ctx)
		case err == nil && got.Held:
			return sentAt, nil
		case err != nil && !driver.Outage(err):
			return sentAt, err
		case err == nil:
			err = ErrOverLimit
		}
		left := time.Until(deadline)
		if left <= got.Shut { // which is 0 if Redis did not answer
			return sentAt, err
		}
		select {
		case <-ctx.Done():
			return sentAt, context.Cause(ctx)
		case <-time.After(min(pause.Next(), left)):
		}
	}
}

// renew keeps the slot until ctx ends. It calls lose when the slot may be another caller's.
func (s slot) renew(ctx context.Context, takenAt time.Time, lose context.CancelCauseFunc) {
	ask := s.space.keys.RenewLease(s.gate, s.holder)
	every := time.NewTicker(lua.HoldLease / renewals)
	defer every.Stop()
	for {
		late := time.AfterFunc(time.Until(takenAt.Add(loseAfter)), func() { lose(ErrLimitLost) })
		select {
		case <-ctx.Done():
			late.Stop()
			return
		case <-every.C:
		}
		sentAt := time.Now()
		held, err := ask.Do(ctx, s.space.driver)
		switch {
		case err == nil && held:
			takenAt = sentAt
		case err == nil:
			lose(ErrLimitLost)
		}
		late.Stop()
	}
}

// free gives the slot up. If Redis does not answer, the slot expires.
func (s slot) free(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), driver.CallTimeout)
	defer cancel()
	_, _ = s.space.keys.ReleaseLease(s.gate, s.holder).Do(ctx, s.space.driver)
}
