//go:build !linux

package lua

import "time"

// SinceBoot is Go's monotonic clock: on most of these systems it does not count while the machine is
// suspended.
func SinceBoot() time.Duration { return time.Since(started) }

var started = time.Now()
