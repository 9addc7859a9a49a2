package lua

import (
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

var unlistScript = load("unlist")

// Unlist takes out of the index up to MostItems locks that ran out at least since ago, and answers how many it took out.
func (k Keys) Unlist(since time.Duration) Ask[int] {
	return Ask[int]{
		Call: driver.Call{Script: unlistScript, Keys: []string{k.Unique()}, Args: []string{millis(since), strconv.Itoa(MostItems)}},
		read: numberOf,
	}
}
