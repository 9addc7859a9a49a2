package goredisdriver

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belayq/belay/driver"
)

// Do implements driver.Client. Without a deadline in ctx it gives up after callTimeout. Ending ctx without a
// deadline does not end a Do that has been written. (Over a user's own client, that client's timeouts hold too,
// and without ContextTimeoutEnabled they alone.)
func (c *Client) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	replies := make([]driver.Reply, len(calls))
	if err := ctx.Err(); err != nil {
		for i := range replies {
			replies[i].Err = &driver.NotSentError{Err: err}
		}
		return replies
	}
	if _, ok := ctx.Deadline(); !ok {
		ctx = until{ctx, time.Now().Add(callTimeout)}
	}
	every := make([]int, len(calls))
	for i := range every {
		every[i] = i
	}
	flags := !c.dialect.plain.Load()
	c.send(ctx, calls, replies, every, byDigest, flags)
	unknown := which(replies, every, isUnknownScript)
	c.send(ctx, calls, replies, unknown, byText, flags)
	if refused := which(replies, unknown, isNotCompiled); flags && len(refused) > 0 {
		c.sendPlain(ctx, calls, replies, refused)
	}
	return replies
}

// sendPlain sends scripts that did not compile once more, without their first line if that names flags. If any
// then compiles, the server is one that does not know such lines, and is not asked again.
func (c *Client) sendPlain(ctx context.Context, calls []driver.Call, replies []driver.Reply, refused []int) {
	flagged := refused[:0]
	for _, i := range refused {
		_, with := calls[i].Script.Text(true)
		if _, without := calls[i].Script.Text(false); with != without {
			flagged = append(flagged, i)
		}
	}
	c.send(ctx, calls, replies, flagged, byText, false)
	if len(which(replies, flagged, isNotCompiled)) < len(flagged) {
		c.dialect.plain.Store(true)
	}
}

// send sends the calls at indexes as one pipeline, each of them for the first time, and fills their replies.
func (c *Client) send(ctx context.Context, calls []driver.Call, replies []driver.Reply, indexes []int, as form, flags bool) {
	batch := make([]command, 0, len(indexes))
	for _, i := range indexes {
		replies[i] = driver.Reply{}
		if err := valid(&calls[i]); err != nil {
			replies[i].Err = err
			continue
		}
		batch = append(batch, command{index: i})
	}
	if len(batch) == 0 {
		return
	}
	for k := range batch {
		batch[k].prepare(ctx, &calls[batch[k].index], as, flags)
	}
	batch[len(batch)-1].reply.atEnd = func() error { return retire(batch) }
	err := c.exec(ctx, batch)
	for k := range batch {
		replies[batch[k].index] = batch[k].answer(err)
	}
}

// exec gives the batch to go-redis. Its error is that of the batch: go-redis does not always give it to each command.
func (c *Client) exec(ctx context.Context, batch []command) error {
	if len(batch) == 1 {
		return c.redis.Process(ctx, &batch[0])
	}
	pipe := c.redis.Pipeline()
	for k := range batch {
		_ = pipe.Process(ctx, &batch[k]) // queues it; the error is always nil
	}
	_, err := pipe.Exec(ctx)
	return err
}

// retire ends the connection, with its last answer read, if any command asks for that.
func retire(batch []command) error {
	for k := range batch {
		if err := batch[k].retire(); err != nil {
			return err
		}
	}
	return nil
}

// which of the indexes have a server error that is so.
func which(replies []driver.Reply, indexes []int, is func(*driver.ServerError) bool) []int {
	var found []int
	for _, i := range indexes {
		if refused, ok := replies[i].Err.(*driver.ServerError); ok && is(refused) {
			found = append(found, i)
		}
	}
	return found
}

func isUnknownScript(e *driver.ServerError) bool { return e.Code == "NOSCRIPT" }

func isNotCompiled(e *driver.ServerError) bool {
	return strings.Contains(e.Message, "rror compiling script")
}

// valid refuses what go-redis would send as an empty array, to which Redis does not reply.
func valid(call *driver.Call) error {
	if call.Script == nil && (len(call.Args) == 0 || call.Args[0] == "") {
		return &driver.NotSentError{Err: errors.New("goredisdriver: a command without a name")}
	}
	return nil
}

// until is a context with a deadline and no timer: go-redis reads the deadline and sets it on the socket.
type until struct {
	context.Context
	at time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.at, true }

var _ redis.Cmder = (*command)(nil)
