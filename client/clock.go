package client

import (
	"context"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

const (
	// clockFor is how long the estimate of Redis' time is used before it is read again. Clocks drift apart by
	// about a millisecond in that time. A longer time would give wrong timestamps to more pushes after a clock
	// was set.
	clockFor = time.Minute
	// clockRetry is how soon to read it again after a call without a reply; until then this machine's clock is
	// used.
	clockRetry = time.Second
	// sureFor is how long the estimate is used for a job that would be early if it were wrong.
	sureFor = time.Second
)

// now returns the estimate of Redis' time. The first time it reads the time with a call of its own, because a
// timestamp must be in the payload before that is sent.
func (c *Client) now(ctx context.Context) time.Time {
	if c.askAt.Load() == 0 {
		c.askTime(ctx)
	}
	return c.clock.Now()
}

// nowFor returns Redis' time for the push of a job that is due at an instant, or at once if that is zero. If
// the job seems to be due, the estimate is at most a second old: an older one may be from before Redis' clock
// was set back, and the job would run early.
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

// timeIsDue reports whether the next pipeline should also read Redis' time: true for one of many callers.
func (c *Client) timeIsDue() bool {
	due, now := c.askAt.Load(), time.Since(c.born)
	return int64(now) >= due && c.askAt.CompareAndSwap(due, int64(now+clockRetry))
}

// sawTime records the reply to lua.AskTime.
func (c *Client) sawTime(reply driver.Reply, sent time.Time) {
	received, next := time.Now(), clockRetry
	if now, err := lua.TimeOf(reply); err == nil {
		c.clock.Saw(now, sent, received)
		next = clockFor
	}
	c.askAt.Store(int64(received.Sub(c.born) + next))
}
