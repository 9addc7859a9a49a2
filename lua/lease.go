package lua

import (
	"time"
)

var leaseScript = load("lease")

// Lease reports whether holder now has the lease at key, for hold from now.
func Lease(key, holder string, hold time.Duration) Ask[bool] {
	return asking(leaseScript, []string{key}, []string{holder, millis(hold)}, wordIs("held"))
}

const (
	// fewProcesses may all ask for a lease at the usual interval.
	fewProcesses = 50
	// mostPatience is how many times longer than usual each process of a very large fleet waits.
	mostPatience = 5
)

// LeaseRest returns how long a process that found a lease busy waits before it asks again: usual in small
// fleets. In fleets of up to 250 processes each waits longer, so that together they ask hardly more often
// than 50 would. Larger fleets do not wait longer than that, because hundreds of processes may become two,
// which must not wait for minutes. The result is random, between usual and five times that, so that the
// processes do not ask all at once.
func LeaseRest(usual time.Duration, processes int) time.Duration {
	if processes <= fewProcesses {
		return usual
	}
	rest := min(usual*time.Duration(processes)/fewProcesses, usual*mostPatience)
	return max(usual, Jitter(rest))
}
