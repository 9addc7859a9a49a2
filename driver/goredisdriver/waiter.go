package goredisdriver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belayq/belay/driver"
)

// A waiter blocks on the one connection of a client of its own.
type waiter struct {
	*pool
	source     *source
	release    driver.Releaser
	reconnects driver.ReconnectLimiter
	// id is the server's id of the connection, 0 before it is known. Each new connection asks for its own id,
	// so that a release never uses the id of an earlier connection.
	id atomic.Int64
}

// Waiter implements driver.Client. Its Release uses the client that made it.
func (c *Client) Waiter() (driver.Waiter, error) {
	w := &waiter{source: c.source, release: driver.Releaser{Client: c}}
	options := enforced(c.source.options)
	options.PoolSize = 1
	options.ReadBufferSize, options.WriteBufferSize = driver.WaiterBufferSize, driver.WaiterBufferSize
	onConnect := options.OnConnect
	options.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
		if onConnect != nil {
			if err := onConnect(ctx, conn); err != nil {
				return err
			}
		}
		return w.introduce(ctx, conn)
	}
	w.pool = newPool(options, driver.WaitGrace)
	return w, nil
}

// introduce asks for the id of a new connection. A server that denies it cannot release the connection.
func (w *waiter) introduce(ctx context.Context, conn *redis.Conn) error {
	w.id.Store(0)
	id, err := conn.ClientID(ctx).Result()
	var refused redis.Error
	switch {
	case err == nil:
		w.id.Store(id)
	case errors.As(err, &refused):
		w.release.Denied.Store(true)
	default:
		return fmt.Errorf("ask for the connection's id: %w", err)
	}
	return nil
}

// Wait implements driver.Waiter. A limit below a millisecond counts as one: 0 would mean for ever.
func (w *waiter) Wait(ctx context.Context, from, to string, limit time.Duration) (string, bool, error) {
	return w.release.Wait(ctx, limit, func(deadline time.Time) driver.Reply {
		ctx := driver.Until(context.WithoutCancel(ctx), deadline)
		move := blockingMove{deadline: deadline}
		call := driver.Command("BLMOVE", from, to, "RIGHT", "LEFT", driver.Seconds(limit))
		move.prepare(ctx, &call, driver.ScriptForm{})
		move.reply.atEnd = func() error {
			w.source.listens.Learn(move.reply.err)
			if w.reconnects.Due(move.reply.err, 0, 1) { // a wait is silent while there are no jobs
				w.source.doubt()
				return errRetired
			}
			return nil
		}
		return move.answer(w.call(func() error { return w.redis.Process(ctx, &move) }))
	})
}

// A blockingMove is a BLMOVE that computes its limit when it is written: the time of a slow dial counts, or
// the reply would come after Wait has stopped reading.
type blockingMove struct {
	command
	deadline time.Time
}

func (m *blockingMove) Args() []any {
	args := m.command.Args()
	args[len(args)-1] = driver.Seconds(time.Until(m.deadline) - driver.WaitGrace)
	return args
}

// Release implements driver.Waiter.
func (w *waiter) Release(ctx context.Context) (bool, error) {
	return w.release.Release(ctx, w.id.Load())
}
