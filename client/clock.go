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
func (s *space) now(ctx context.Context) time.Time {
	if s.askAt.Load() == 0 {
		s.askTime(ctx)
	}
	return s.clock.Now()
}

// nowFor returns Redis' time for the push of a job that is due at an instant, or at once if that is zero. If
// the job seems to be due, the estimate is at most a second old: an older one may be from before Redis' clock
// was set back, and the job would run early.
func (s *space) nowFor(ctx context.Context, due time.Time) time.Time {
	now := s.now(ctx)
	if due.IsZero() || due.After(now) {
		return now
	}
	answered := s.askAt.Load() - int64(clockFor)
	if int64(time.Since(s.born))-answered > int64(sureFor) {
		s.askTime(ctx)
	}
	return s.clock.Now()
}

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
