package goredisdriver

import (
	"context"
	"errors"
	"os"
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

// A command is one call for go-redis. It embeds the only kind of command whose reply go-redis does not
// parse and that it never sends again (NoRetry), in pipelines too.
type command struct {
	*redis.RawWriteToCmd
	written time.Time // zero until it is written
	reply   reply

	body string // the text or the digest of its script
}

// prepare spells the call out. Words are pointers into the call, which saves an allocation for each.
func (c *command) prepare(ctx context.Context, call *driver.Call, form driver.ScriptForm) {
	args := make([]any, 0, len(call.Keys)+len(call.Args)+3)
	if call.Script == nil {
		args = append(args, call.Args[0]) // go-redis reads the name, so it stays a string
		args = appendWords(args, call.Args[1:])
	} else {
		var verb string
		verb, c.body = form.Words(call.Script)
		args = append(args, verb, &c.body, len(call.Keys))
		args = appendWords(args, call.Keys)
		args = appendWords(args, call.Args)
	}
	c.RawWriteToCmd = redis.NewRawWriteToCmd(ctx, &c.reply, args...)
}

func appendWords(args []any, words []string) []any {
	for i := range words {
		args = append(args, &words[i])
	}
	return args
}

// Args is called when the command is written, and not before (except by a user's hooks, which makes the
// error uncertain): a command whose words were never read has not been sent.
func (c *command) Args() []any {
	c.written = time.Now()
	return c.RawWriteToCmd.Args()
}

func (c *command) answer(err error) driver.Reply {
	if c.reply.done {
		if c.reply.err != nil {
			return driver.Reply{Err: c.reply.err}
		}
		return driver.Reply{Value: c.reply.value}
	}
	if own := c.Err(); own != nil {
		err = own
	}
	if err == nil {
		err = errors.New("goredisdriver: go-redis returned no reply")
	}
	if c.written.IsZero() {
		return driver.Reply{Err: unsent(err)}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = context.DeadlineExceeded // the socket's deadline is the context's
	}
	return driver.Reply{Err: &driver.UncertainError{Err: err}}
}

// errRetired makes go-redis close a connection after all replies have been read. No caller gets it.
var errRetired = errors.New("goredisdriver: another server may have the name by now")

// unsent marks err as a failure before anything was written. An error reply to the handshake (a wrong
// password, LOADING) keeps its code.
func unsent(err error) error {
	var refused redis.Error
	if errors.As(err, &refused) {
		err = driver.NewServerError(refused.Error())
	}
	return &driver.NotSentError{Err: err}
}
