package lua

import (
	"strconv"
	"time"
)

var unlistScript = load("unlist")

// Unlist removes up to MaxItems locks from the index that expired at least since ago, and returns how many.
func (k Keys) Unlist(since time.Duration) Ask[int] {
	return asking(unlistScript, []string{k.Unique()}, []string{millis(since), strconv.Itoa(MaxItems)}, readNumber)
}
