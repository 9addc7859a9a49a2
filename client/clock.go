package client

import (
	"context"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

const (
	// clockFor is how long Redis' time is trusted before it is asked for again. Clocks drift apart by about a
	// millisecond in that time; what it prevents is a minute of pushes stamped by a clock that was set in
	// between.
	clockFor = time.Minute
	// clockRetry is how soon to ask again after no answer: until then this machine's clock serves.
	clockRetry = time.Second
	// sureFor is how long it is trusted where a job would be early by it.
	sureFor = time.Second
)

// now is Redis' time as estimated. The first time it asks, with a call of its own: a timestamp has to be in
// the bytes before they are sent.
func (c *Client) now(ctx context.Context) time.Time {
	if c.askAt.Load() == 0 {
		c.askTime(ctx)
	}
	return c.clock.Now()
}

// nowFor is Redis' time for a push of a job that is due at an instant, or at once if that is zero. If the job
// seems to be due, it is Redis' time as it was within the last second: the estimate may be from before Redis'
// clock was set back, and a job must not be early for that.
func (c *Client) nowFor(ctx context.Context, due time.Time) time.Time {
	now := c.now(ctx)
	if due.IsZero() || due.After(now) {
		return now
	}
	answered := c.askAt.Load() - int64(clockFor)
	if int64(time.Since(c.born))-answered > int64(sureFor) {
		c.askTime(ctx)
	}
	return c.clock.Now()
}

func (c *Client) askTime(ctx context.Context) {
	sent := time.Now()
	c.sawTime(c.driver.Do(ctx, lua.AskTime)[0], sent)
}

// timeIsDue reports whether the next pipeline should bring Redis' time along: true for one of many callers.
func (c *Client) timeIsDue() bool {
	due, now := c.askAt.Load(), time.Since(c.born)
	return int64(now) >= due && c.askAt.CompareAndSwap(due, int64(now+clockRetry))
}

// sawTime learns from the reply to lua.AskTime.
func (c *Client) sawTime(reply driver.Reply, sent time.Time) {
	received, next := time.Now(), clockRetry
	if now, err := lua.TimeOf(reply); err == nil {
		c.clock.Saw(now, sent, received)
		next = clockFor
	}
	c.askAt.Store(int64(received.Sub(c.born) + next))
}
