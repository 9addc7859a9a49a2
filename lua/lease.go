package lua

import (
	"math/rand/v2"
	"time"

	"github.com/belayq/belay/driver"
)

var leaseScript = load("lease")

// Lease answers whether holder now has the lease kept at key, for hold from now.
func Lease(key, holder string, hold time.Duration) Ask[bool] {
	return Ask[bool]{
		Call: driver.Call{Script: leaseScript, Keys: []string{key}, Args: []string{holder, millis(hold)}},
		read: wordIs("held"),
	}
}

const (
	// fewProcesses may all ask for a lease as often as its duty would like.
	fewProcesses = 50
	// mostPatience is how many times longer than that each of very many rests.
	mostPatience = 5
)

// LeaseRest is how long a process that found a lease busy leaves it alone: usual where there are few processes. Of up to 250
// each rests longer, so that together they ask hardly more often than 50 would; of more each as long as those, because hundreds may
// turn into two, who must not rest for minutes. Each time is drawn anew, so that they do not ask all at once and then none
// for long. It is between usual and five times that.
func LeaseRest(usual time.Duration, processes int) time.Duration {
	if processes <= fewProcesses {
		return usual
	}
	rest := min(usual*time.Duration(processes)/fewProcesses, usual*mostPatience)
	return max(usual, rest/2+rand.N(rest/2+1))
}
