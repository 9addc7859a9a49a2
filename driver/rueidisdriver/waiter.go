package rueidisdriver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
)

// A waiter blocks on the only connection of a client of its own, in rueidis' blocking pool. Its calls get
// contexts that never end; if the server is silent, the connection is cut.
type waiter struct {
	*connection
	source     source
	release    driver.Releaser
	reconnects driver.ReconnectLimiter
	known      atomic.Pointer[known]
}

// known is the server's id of the connection of a generation, so that a release never uses the id of an
// earlier connection.
type known struct{ id, generation int64 }

// Waiter implements driver.Client. Its Release uses the client that made it.
func (c *Client) Waiter() (driver.Waiter, error) {
	conn, err := connect(c.source.options, forOne)
	if err != nil {
		return nil, err
	}
	return &waiter{connection: conn, source: c.source, release: driver.Releaser{Client: c}}, nil
}

// Wait implements driver.Waiter. A limit below a millisecond counts as one.
func (w *waiter) Wait(ctx context.Context, from, to string, limit time.Duration) (string, bool, error) {
	return w.release.Wait(ctx, limit, func(deadline time.Time) driver.Reply { return w.move(from, to, deadline) })
}

// move moves one entry; its reply is read until the deadline.
func (w *waiter) move(from, to string, deadline time.Time) driver.Reply {
	if w.link.shut.Load() {
		return driver.Reply{Err: &driver.NotSentError{Err: errClosed}}
	}
	var late atomic.Bool
	over := make(chan struct{})
	defer close(over)
	timer := time.AfterFunc(time.Until(deadline), func() {
		if w.link.outlast(driver.WaitGrace, over) {
			late.Store(true)
			w.link.cut()
		}
	})
	defer timer.Stop()
	unending := driver.Until(context.Background(), deadline)
	if err := w.introduce(unending); err != nil {
		return driver.Reply{Err: &driver.NotSentError{Err: fmt.Errorf("prepare the connection: %w", err)}}
	}
	// The time of a slow dial counts, or the reply would come after Wait has stopped reading.
	left := driver.Seconds(time.Until(deadline) - driver.WaitGrace)
	move := w.redis.B().Arbitrary("BLMOVE", from, to, "RIGHT", "LEFT", left).Blocking()
	reply := answer(w.redis.Do(unending, move), late.Load(), false)
	if w.source.isWrong(reply.Err, &w.reconnects) {
		w.replace(w.link.generation(), w.redis.B().Arbitrary("PING").Blocking())
	}
	if reply.Err != nil && !driver.Certain(reply.Err) {
		// rueidis dials the next connection inside a call, so its id must be asked for again: a wait with the
		// id of a broken connection could never be released.
		w.known.Store(nil)
	}
	return reply
}

// introduce asks for the id of a new connection. A server that denies it cannot release the connection.
func (w *waiter) introduce(ctx context.Context) error {
	k := w.known.Load()
	if k != nil && k.generation == w.link.generation() && !w.link.ended(k.generation) {
		return nil
	}
	reply := answer(w.redis.Do(ctx, w.redis.B().Arbitrary("CLIENT", "ID").Blocking()), false, false)
	var refused *driver.ServerError
	if reply.Err != nil && !errors.As(reply.Err, &refused) {
		return reply.Err
	}
	w.release.Denied.Store(refused != nil)
	id, _ := reply.Value.(int64)
	w.known.Store(&known{id, w.link.generation()})
	return nil
}

// Release implements driver.Waiter.
func (w *waiter) Release(ctx context.Context) (bool, error) {
	if k := w.known.Load(); k != nil && k.generation == w.link.generation() {
		return w.release.Release(ctx, k.id)
	}
	return w.release.Release(ctx, 0) // another connection was dialled, and its id is not known yet
}
