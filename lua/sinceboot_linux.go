package lua

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot reads a clock that cannot be set and that counts while the machine is suspended. Go's monotonic
// clock stops then: after an hour of suspension the last heartbeat would seem a second old.
func SinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Since(started)
	}
	return time.Duration(now.Nano())
}

var started = time.Now()
