//go:build !linux

package fetch

import "time"

// sinceBoot is Go's monotonic clock: on most of these systems it does not count while the machine is suspended.
func sinceBoot() time.Duration { return time.Since(started) }

var started = time.Now()
