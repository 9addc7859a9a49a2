package lua

import (
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

var unlistScript = load("unlist")

// Unlist removes up to MostItems locks from the index that expired at least since ago, and returns how many.
func (k Keys) Unlist(since time.Duration) Ask[int] {
	return Ask[int]{
		Call: driver.Call{Script: unlistScript, Keys: []string{k.Unique()}, Args: []string{millis(since), strconv.Itoa(MostItems)}},
		read: numberOf,
	}
}
