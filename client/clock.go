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
)

func (s *space) askTime(ctx context.Context) {
	sent := time.Now()
	s.sawTime(s.driver.Do(ctx, lua.AskTime)[0], sent)
}

// timeIsDue reports whether the next pipeline should also read Redis' time: true for one of many callers.
func (s *space) timeIsDue() bool {
	due, now := s.askAt.Load(), time.Since(s.born)
	return int64(now) >= due && s.askAt.CompareAndSwap(due, int64(now+clockRetry))
}

// sawTime records the reply to lua.AskTime.
func (s *space) sawTime(reply driver.Reply, sent time.Time) {
	received, next := time.Now(), clockRetry
	if now, err := lua.TimeOf(reply); err == nil {
		s.clock.Saw(now, sent, received)
		next = clockFor
	}
	s.askAt.Store(int64(received.Sub(s.born) + next))
}
