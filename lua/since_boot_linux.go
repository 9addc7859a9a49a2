package lua

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot reads a clock that is never set and that counts while the machine is suspended. Go's own
// monotonic clock stops then, and a process that wakes after an hour would consider its last heartbeat a
// second old.
func SinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Since(started)
	}
	return time.Duration(now.Nano())
}

var started = time.Now()
