package lua

import (
	"strconv"

	"github.com/belayq/belay/driver"
)

var entriesScript = load("entries")

// Entries reads a page of a working list or an alone list from index first on, newest entry first: at most MostItems, and
// page bytes, which the last entry may exceed by its own size. Entries larger than largest bytes are moved to the dead set
// on the way.
func (k Keys) Entries(list string, first, page, largest int) Ask[[]string] {
	return Ask[[]string]{
		Call: driver.Call{
			Script: entriesScript,
			Keys:   []string{list, k.Dead()},
			Args:   []string{strconv.Itoa(first), strconv.Itoa(MostItems), strconv.Itoa(min(page, MostBytes)), strconv.Itoa(largest)},
		},
		read: textsOf,
	}
}
