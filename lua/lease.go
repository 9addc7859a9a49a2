package lua

import "time"

var leaseScript = load("lease")

// Lease reports whether holder now has the lease at key, for hold from now.
func Lease(key, holder string, hold time.Duration) Ask[bool] {
	return asking(leaseScript, []string{key}, []string{holder, millis(hold)}, wordIs("held"))
}

// GiveUpLease ends the lease at key before its time, if holder has it, and reports whether it had.
func GiveUpLease(key, holder string) Ask[bool] {
	return asking(leaseScript, []string{key}, []string{holder, "0"}, wordIs("free"))
}

// StandBy is how long a process that did not get a lease waits before it asks again: in effect for ever. A
// heartbeat finds out when the lease is free (HeartbeatReply.Free), so a process that stands by costs nothing.
const StandBy = time.Hour
