package lua

import (
	"strconv"

	"github.com/belayq/belay/driver"
)

var lapsedScript = load("lapsed")

// Lapsed reads a page of the identities that have lapsed, passing over the first ones: MostItems at most, and fewer only
// at the end. Whoever reads page after page may miss some that move up meanwhile, because others before them are recovered.
func (k Keys) Lapsed(first int) Ask[[]string] {
	return Ask[[]string]{
		Call: driver.Call{Script: lapsedScript, Keys: []string{k.Alive()}, Args: []string{strconv.Itoa(first), strconv.Itoa(MostItems)}},
		read: textsOf,
	}
}
