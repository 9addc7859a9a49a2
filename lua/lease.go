package lua

import (
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
