package rueidisdriver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/belayq/belay/driver"
)

// Do implements driver.Client. Without a deadline in ctx it ends after driver.CallTimeout. Cancelling ctx
// does not end a Do that has begun.
func (c *Client) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(driver.CallTimeout)
	}
	return c.sender.Do(calls, func(calls []driver.Call, replies []driver.Reply, indexes []int, form driver.ScriptForm) {
		if err := c.unusable(ctx); err != nil {
			fill(replies, indexes, &driver.NotSentError{Err: err})
			return
		}
		c.send(deadline, calls, replies, indexes, form)
	})
}

// unusable returns why nothing can be sent, or nil.
func (c *Client) unusable(ctx context.Context) error {
	if c.link.shut.Load() {
		return errClosed
	}
	return ctx.Err()
}

// send builds the pipeline and passes it to rueidis. Both can panic because of a call. The failure is
// certain before rueidis has the pipeline, and uncertain after.
func (c *Client) send(deadline time.Time, calls []driver.Call, replies []driver.Reply, indexes []int, form driver.ScriptForm) {
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
		batch[k] = build(c.redis.B(), &calls[i], form)
	}
	handed = true
	before := c.link.generation()
	results, ending, used := c.call(deadline, batch)
	// An abandoned call may still be written. Any other call used the existing connection, or one dialled
	// since.
	unsent := ending != gaveUp && c.link.unwritten(before)
	broken := false
	for k, i := range indexes {
		replies[i] = answer(results[k], ending != inTime, unsent)
		broken = broken || c.isBroken(replies[i].Err)
	}
	switch {
	case broken && ending != gaveUp:
		c.replace(used, c.redis.B().Ping().Build())
	case c.link.waited(used) >= driver.Silence && c.calls.TryLock(): // no other call is cut
		if c.reconnects.Due(nil, driver.Silence, 1) {
			c.replace(used, c.redis.B().Ping().Build())
		}
		c.calls.Unlock()
	}
}

// isBroken reports whether the connection must not be used again: it failed, or its server is the wrong one.
func (c *Client) isBroken(err error) bool {
	return err != nil && !driver.Certain(err) || c.source.isWrong(err, &c.reconnects)
}

// isWrong reports whether the connection with this reply must be replaced because its server is the wrong one.
func (s *source) isWrong(err error, reconnects *driver.ReconnectLimiter) bool {
	var refused *driver.ServerError
	if !errors.As(err, &refused) {
		return false
	}
	s.listens.Learn(refused) // also while a connection that was replaced just now must stay
	if !reconnects.Due(refused, 0, 1) {
		return false
	}
	s.finder.Doubt()
	return true
}

// replace cuts the connection and waits until rueidis has noticed: rueidis returns a failure to callers a
// little before it stops using the connection, so the next call would fail on it too. If another connection
// was dialled meanwhile, replace does nothing. ping is a call for this connection.
func (c *connection) replace(generation int64, ping rueidis.Completed) {
	gone := c.link.gone(generation)
	if gone == nil {
		return
	}
	c.link.cut()
	select {
	case <-gone:
	case <-time.After(time.Second): // it never takes that long, but a failed call must not hang
		return
	}
	// A call on the dead connection makes rueidis drop it. The call cannot dial, because its deadline has
	// passed.
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	c.redis.Do(driver.Until(ctx, time.Now()), ping)
}

// pingTimeout matters only if the connection was replaced at that moment and is silent again.
const pingTimeout = 50 * time.Millisecond

func fill(replies []driver.Reply, indexes []int, err error) {
	for _, i := range indexes {
		replies[i] = driver.Reply{Err: err}
	}
}

// build spells a call out. It declares no keys: with one server no slot is needed, and rueidis would
// require that all keys are in one slot.
func build(b rueidis.Builder, call *driver.Call, form driver.ScriptForm) rueidis.Completed {
	if call.Script == nil {
		return b.Arbitrary(call.Args...).Build()
	}
	verb, body := form.Words(call.Script)
	return b.Arbitrary(verb, body, strconv.Itoa(len(call.Keys))).Args(call.Keys...).Args(call.Args...).Build()
}

// call is exec as one of the calls under way, also if a dialer of the program panics.
func (c *Client) call(deadline time.Time, batch []rueidis.Completed) ([]rueidis.RedisResult, ending, int64) {
	c.calls.RLock()
	defer c.calls.RUnlock()
	return c.exec(deadline, batch)
}

// How an exec ended.
type ending int

const (
	inTime ending = iota
	cut           // its deadline passed on a silent connection, which was cut
	gaveUp        // its deadline passed, and the connection still serves other calls
)

// exec runs the batch until its deadline. rueidis uses the deadline for a dial only, so exec ends the call. If
// the connection has received nothing for half of the time, it is cut, because later calls would wait for the
// same silent server; rueidis keeps the replies that came before. If it still receives replies, they belong to
// other callers, and only this call is abandoned.
//
// The last result is the generation of the connection that was used: the existing one, or the one dialled
// for it.
func (c *Client) exec(deadline time.Time, batch []rueidis.Completed) ([]rueidis.RedisResult, ending, int64) {
	used := c.link.generation()
	ctx, giveUp := context.WithCancel(driver.Until(context.WithValue(context.Background(), dialledKey{}, &used), deadline))
	defer giveUp()
	var passed atomic.Int32
	left := time.Until(deadline)
	timer := time.AfterFunc(left, func() {
		if c.link.silent(left / 2) {
			passed.Store(int32(cut))
			c.link.cut()
		} else {
			passed.Store(int32(gaveUp))
			giveUp()
		}
	})
	defer timer.Stop()
	results := c.redis.DoMulti(ctx, batch...)
	return results, ending(passed.Load()), used
}
