package rueidisdriver

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/belayq/belay/driver"
)

// callTimeout is the deadline of a Do whose context has none.
const callTimeout = 5 * time.Second

// Do implements driver.Client. Without a deadline in ctx it gives up after callTimeout. Ending ctx without a
// deadline does not end a Do that is under way.
func (c *Client) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(callTimeout)
	}
	return c.dialect.Do(calls, func(calls []driver.Call, replies []driver.Reply, indexes []int, how driver.Naming) {
		if err := c.unusable(ctx); err != nil {
			fill(replies, indexes, &driver.NotSentError{Err: err})
			return
		}
		c.send(deadline, calls, replies, indexes, how)
	})
}

// unusable says why nothing can be sent at all.
func (c *Client) unusable(ctx context.Context) error {
	if c.link.isShut() {
		return errClosed
	}
	return ctx.Err()
}

// send builds the pipeline and gives it to rueidis. Both panic at callers they disagree with: before it was handed
// over that is certain, after it is not.
func (c *Client) send(deadline time.Time, calls []driver.Call, replies []driver.Reply, indexes []int, how driver.Naming) {
	handed := false
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("rueidisdriver: rueidis panicked: %v", p)
			if handed {
				fill(replies, indexes, &driver.UncertainError{Err: err})
			} else {
				fill(replies, indexes, &driver.NotSentError{Err: err})
			}
		}
	}()
	batch := make([]rueidis.Completed, len(indexes))
	for k, i := range indexes {
		batch[k] = build(c.redis.B(), &calls[i], how)
	}
	handed = true
	generation := c.link.generation()
	results, late := c.exec(deadline, batch)
	for k, i := range indexes {
		replies[i] = answer(results[k], late)
		if refused, ok := replies[i].Err.(*driver.ServerError); ok && refused.Code == "READONLY" {
			// The name that was dialled may belong to another server now.
			c.link.cutOnly(generation)
		}
	}
}

func fill(replies []driver.Reply, indexes []int, err error) {
	for _, i := range indexes {
		replies[i] = driver.Reply{Err: err}
	}
}

// build spells a call out. No word is declared a key: with one server there is no slot to find, and rueidis would
// check that all are of one.
func build(b rueidis.Builder, call *driver.Call, how driver.Naming) rueidis.Completed {
	if call.Script == nil {
		return b.Arbitrary(call.Args...).Build()
	}
	verb, body := how.Words(call.Script)
	return b.Arbitrary(verb, body, strconv.Itoa(len(call.Keys))).Args(call.Keys...).Args(call.Args...).Build()
}

// exec runs the batch and says whether its deadline passed.
//
// At the deadline there are two cases. A connection that has brought nothing for half of the time is cut: later
// calls would wait behind the same silence, and rueidis then keeps the answers that came before. One that still
// brings answers is not, since they are other callers'; only this call is given up.
func (c *Client) exec(deadline time.Time, batch []rueidis.Completed) (results []rueidis.RedisResult, late bool) {
	ctx, giveUp := context.WithCancel(until{context.Background(), deadline})
	defer giveUp()
	var passed atomic.Bool
	left := time.Until(deadline)
	timer := time.AfterFunc(left, func() {
		passed.Store(true)
		if c.link.silent(left / 2) {
			c.link.cut()
		} else {
			giveUp()
		}
	})
	defer timer.Stop()
	results = c.redis.DoMulti(ctx, batch...)
	return results, passed.Load()
}

// until is a context with a deadline that does not end: rueidis uses it to dial, and is ended by exec.
type until struct {
	context.Context
	at time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.at, true }
