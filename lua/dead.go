package lua

import (
	"cmp"
	"strconv"
	"time"
)

// DeadLimits bound the dead set. A script that adds to it removes the oldest jobs that are beyond these limits,
// at most MaxItems of them, in the same step.
type DeadLimits struct {
	// Limit is how many jobs may stay there, and For how long each of them. A zero field is the default.
	Limit int
	For   time.Duration
}

// The defaults of DeadLimits are Sidekiq's dead_max_jobs and dead_timeout_in_seconds.
const (
	DefaultDeadLimit = 10_000
	DefaultDeadFor   = 180 * 24 * time.Hour
)

// WithDeadLimits returns Keys whose scripts keep the dead set within other limits than the default.
func (k Keys) WithDeadLimits(limits DeadLimits) Keys {
	k.dead = limits
	return k
}

// deadLimits are the limits as arguments of scripts.
func (k Keys) deadLimits() []string {
	return []string{
		strconv.Itoa(cmp.Or(k.dead.Limit, DefaultDeadLimit)), wholeSeconds(cmp.Or(k.dead.For, DefaultDeadFor)),
	}
}
