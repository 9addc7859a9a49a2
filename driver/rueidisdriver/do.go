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

// send builds the pipeline and gives it to rueidis. Both panic at callers they disagree with: before it was
// handed over that is certain, after it is not.
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
	before := c.link.generation()
	results, ending, used := c.exec(deadline, batch)
	// A call that is given up may still be written. Any other was on a connection that there was, or on one
	// dialled since.
	unsent := ending != gaveUp && c.link.unasked(before)
	broken := false
	for k, i := range indexes {
		replies[i] = answer(results[k], ending != inTime, unsent)
		broken = broken || isBroken(replies[i].Err)
	}
	if broken && ending != gaveUp {
		c.replace(used)
	}
}

// isBroken says that the connection is not to be used again: it failed, or belongs to a server that has
// become a replica, when the name it was dialled by may belong to another one now.
func isBroken(err error) bool {
	var refused *driver.ServerError
	if errors.As(err, &refused) {
		return refused.Code == "READONLY"
	}
	return err != nil && !driver.Certain(err)
}

// replace cuts the connection and waits until rueidis has noticed: it tells callers of a failure a little
// earlier than it stops using the connection, and the next call would fail on it too. If somebody has had
// another dialled meanwhile, that one is left alone.
func (c *Client) replace(generation int64) {
	gone := c.link.gone(generation)
	if gone == nil {
		return
	}
	c.link.cut()
	select {
	case <-gone:
	case <-time.After(time.Second): // it never takes that long; a failed call is no reason to hang
		return
	}
	// A call on the dead connection is what takes it out of use. It cannot dial: its deadline has passed.
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	c.redis.Do(until{ctx, time.Now(), nil}, c.redis.B().Ping().Build())
}

// pingTimeout matters only if the connection has been replaced at that very moment and is silent again.
const pingTimeout = 50 * time.Millisecond

func fill(replies []driver.Reply, indexes []int, err error) {
	for _, i := range indexes {
		replies[i] = driver.Reply{Err: err}
	}
}

// build spells a call out. No word is declared a key: with one server there is no slot to find, and rueidis
// would check that all are of one.
func build(b rueidis.Builder, call *driver.Call, how driver.Naming) rueidis.Completed {
	if call.Script == nil {
		return b.Arbitrary(call.Args...).Build()
	}
	verb, body := how.Words(call.Script)
	return b.Arbitrary(verb, body, strconv.Itoa(len(call.Keys))).Args(call.Keys...).Args(call.Args...).Build()
}

// How an exec ended.
type ending int

const (
	inTime ending = iota
	cut           // its deadline passed on a silent connection
	gaveUp        // its deadline passed, the connection serves others
)

// exec runs the batch until its deadline, at which there are two cases. A connection that has brought nothing
// for half of the time is cut: later calls would wait behind the same silence, and rueidis then keeps the
// answers that came before. One that still brings answers is not, since they are other callers'; only this
// call is given up.
//
// The last result is the generation of the connection that was used: the one there was, or the one dialled
// for it.
func (c *Client) exec(deadline time.Time, batch []rueidis.Completed) ([]rueidis.RedisResult, ending, int64) {
	used := c.link.generation()
	ctx, giveUp := context.WithCancel(until{context.Background(), deadline, &used})
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

// until is a context with a deadline that does not end: rueidis uses it to dial, and is ended by exec.
type until struct {
	context.Context
	at      time.Time
	dialled *int64 // where to note the generation of a connection that is dialled with it
}

func (u until) Deadline() (time.Time, bool) { return u.at, true }

// A dialledKey is asked of a context for until.dialled.
type dialledKey struct{}

func (u until) Value(key any) any {
	if key == (dialledKey{}) {
		return u.dialled
	}
	return u.Context.Value(key)
}
