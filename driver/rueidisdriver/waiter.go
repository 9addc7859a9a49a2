package rueidisdriver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/belayq/belay/driver"
)

// A waiter blocks on the only connection of a client of its own, in rueidis' blocking pool. Its calls get
// contexts that never end; if the server is silent, the connection is cut.
type waiter struct {
	redis   rueidis.Client
	link    *link
	closing sync.Once

	release driver.Releaser
	known   atomic.Pointer[known]
}

// known is the server's id of the connection of a generation, so that a release never uses the id of an
// earlier connection.
type known struct{ id, generation int64 }

// Waiter implements driver.Client. Its Release uses the client that made it.
func (c *Client) Waiter() (driver.Waiter, error) {
	link := newLink(c.options)
	options := enforced(c.options)
	options.ReadBufferEachConn, options.WriteBufferEachConn = driver.WaiterBufferSize, driver.WaiterBufferSize
	options.RingScaleEachConn = 1 // one call at a time
	redis, err := connect(options, link)
	if err != nil {
		return nil, err
	}
	return &waiter{redis: redis, link: link, release: driver.Releaser{Client: c}}, nil
}

// Wait implements driver.Waiter. A limit below a millisecond counts as one.
func (w *waiter) Wait(ctx context.Context, from, to string, limit time.Duration) (string, bool, error) {
	if w.link.shut.Load() {
		return "", false, &driver.NotSentError{Err: errClosed}
	}
	if err := ctx.Err(); err != nil {
		return "", false, &driver.NotSentError{Err: err}
	}
	w.release.Waiting.Store(true)
	defer w.release.Waiting.Store(false)

	deadline := time.Now().Add(limit + driver.WaitGrace)
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
	unending := until{context.Background(), deadline, nil}
	if err := w.introduce(unending); err != nil {
		return "", false, &driver.NotSentError{Err: fmt.Errorf("prepare the connection: %w", err)}
	}
	// The time of a slow dial counts, or the reply would come after Wait has stopped reading.
	left := driver.Seconds(time.Until(deadline) - driver.WaitGrace)
	move := w.redis.B().Arbitrary("BLMOVE", from, to, "RIGHT", "LEFT", left).Blocking()
	reply := answer(w.redis.Do(unending, move), late.Load(), false)
	if reply.Err != nil {
		if !driver.Certain(reply.Err) {
			// rueidis dials the next connection inside a call, so its id must be asked for again: a wait with
			// the id of a broken connection could never be released.
			w.known.Store(nil)
		}
		return "", false, reply.Err
	}
	payload, ok := reply.Value.(string)
	return payload, ok, nil
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

// Close implements driver.Waiter. Closing again does nothing.
func (w *waiter) Close() error {
	w.closing.Do(func() {
		w.link.close()
		w.redis.Close()
	})
	return nil
}
