package goredisdriver

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belayq/belay/driver"
)

// Do implements driver.Client. Without a deadline in ctx it ends after driver.CallTimeout. Cancelling ctx
// does not end a Do that has been written. (With a user's own client, that client's timeouts count too, and
// without ContextTimeoutEnabled only they do.)
func (c *Client) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	if _, ok := ctx.Deadline(); !ok {
		ctx = driver.Until(ctx, time.Now().Add(driver.CallTimeout))
	}
	return c.sender.Do(calls, func(calls []driver.Call, replies []driver.Reply, indexes []int, form driver.ScriptForm) {
		c.send(ctx, calls, replies, indexes, form)
	})
}

func (c *Client) send(ctx context.Context, calls []driver.Call, replies []driver.Reply, indexes []int, form driver.ScriptForm) {
	batch := make([]command, len(indexes))
	for k, i := range indexes {
		batch[k].prepare(ctx, &calls[i], form)
	}
	batch[len(batch)-1].reply.atEnd = func() error { return c.retire(batch) }
	err := ctx.Err()
	if err == nil {
		err = c.exec(ctx, batch)
	}
	for k, i := range indexes {
		replies[i] = batch[k].answer(err)
	}
}

// exec passes the batch to go-redis. It returns the batch's error, because go-redis does not always set it
// on each command.
func (c *Client) exec(ctx context.Context, batch []command) error {
	return c.call(func() error {
		if len(batch) == 1 {
			return c.redis.Process(ctx, &batch[0])
		}
		pipe := c.redis.Pipeline()
		for k := range batch {
			_ = pipe.Process(ctx, &batch[k]) // queues it; the error is always nil
		}
		_, err := pipe.Exec(ctx)
		return err
	})
}

// retire is called when the last reply of the batch has been read. It returns an error, with which go-redis
// closes the connection, if it must be replaced (see driver.ReconnectLimiter).
func (c *Client) retire(batch []command) error {
	waited := time.Since(batch[0].written)
	for k := range batch {
		c.source.listens.Learn(batch[k].reply.err)
		if c.reconnects.Due(batch[k].reply.err, waited, c.redis.Options().PoolSize) {
			c.source.doubt()
			return errRetired
		}
	}
	return nil
}

var _ redis.Cmder = (*command)(nil)
