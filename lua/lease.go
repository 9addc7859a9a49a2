package lua

import (
	"time"

	"github.com/belayq/belay/link"
)

var leaseScript = load("lease")

// Lease reports whether holder now has the lease at key, for hold from now.
func Lease(key, holder string, hold time.Duration) Ask[bool] {
	return asking(leaseScript, []string{key}, []string{holder, millis(hold)}, wordIs("held"))
}

// GiveUpLease ends the lease at key before its time, if holder has it, and reports whether it had.
func GiveUpLease(key, holder string) Ask[bool] {
	return asking(leaseScript, []string{key}, []string{holder, "0"}, wordIs("free"))
}

const (
	// fewProcesses may all ask for a lease at the usual interval.
	fewProcesses = 50
	// maxPatience is how many times longer than usual each process of a very large fleet waits.
	maxPatience = 5
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
	rest := min(usual*time.Duration(processes)/fewProcesses, usual*maxPatience)
	return max(usual, link.Jitter(rest))
}
