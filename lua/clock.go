package lua

import (
	"cmp"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
)

// AskTime asks Redis for its time.
var AskTime = driver.Command("TIME")

// TimeOf reads the reply to AskTime.
func TimeOf(reply driver.Reply) (time.Time, error) {
	parts, err := Texts(reply)
	if err != nil {
		return time.Time{}, err
	}
	if len(parts) != 2 {
		return time.Time{}, fmt.Errorf("unexpected reply to TIME: %q", parts)
	}
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	micros, microsErr := strconv.ParseInt(parts[1], 10, 64)
	if err = cmp.Or(err, microsErr); err != nil {
		return time.Time{}, fmt.Errorf("read redis' time: %w", err)
	}
	return time.Unix(seconds, micros*1000), nil
}

// A Clock estimates Redis' time between its replies, for timestamps in payloads and key names. It decides
// nothing: scripts compare with TIME. The zero Clock is this machine's time.
type Clock struct{ ahead atomic.Int64 }

// Saw records that Redis' time was now between sent and received, both read on this machine. It takes the
// middle, so the error is at most half the round trip.
func (c *Clock) Saw(now, sent, received time.Time) {
	middle := sent.Add(received.Sub(sent) / 2)
	// Both sides are wall clocks: now has no monotonic reading, so Sub compares wall time.
	c.ahead.Store(int64(now.Sub(middle.Round(0))))
}

// Now returns the estimate of Redis' time.
func (c *Clock) Now() time.Time { return c.At(time.Now()) }

// At returns the estimate of Redis' time at an instant that was read on this machine.
func (c *Clock) At(here time.Time) time.Time { return here.Round(0).Add(time.Duration(c.ahead.Load())) }
