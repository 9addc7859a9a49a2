package lua

import (
	"sync/atomic"
	"time"
)

// A Clock estimates Redis' time between its answers, for instants that must stand in bytes or in the name of a key.
// Scripts compare with TIME itself; nothing is decided by a Clock. Its zero value is this machine's time.
type Clock struct{ ahead atomic.Int64 }

// Saw learns from an answer that Redis' time was now between sent and received, both read on this machine. The middle
// is taken: the error is at most half the round trip.
func (c *Clock) Saw(now, sent, received time.Time) {
	middle := sent.Add(received.Sub(sent) / 2)
	// Wall clocks on both sides: now has no monotonic reading, so Sub compares what people would read off.
	c.ahead.Store(int64(now.Sub(middle.Round(0))))
}

// Now is Redis' time as far as it is known.
func (c *Clock) Now() time.Time { return time.Now().Round(0).Add(time.Duration(c.ahead.Load())) }
