package lua

import (
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

var limitScript = load("limit")

// KeepLimit is how long a size of code is kept that no worker registers any more, while workers are alive.
const KeepLimit = 10 * time.Minute

// A LimitAct is what is done with a limit's size.
type LimitAct string

// The acts. Each but the first two is an operator's or the poller's.
const (
	// LimitStarts registers the limit of a process that starts: its size replaces another one's of code.
	LimitStarts LimitAct = "starts"
	// LimitSeen registers the limit of a process that runs: its size is stored if there is none, or if that of
	// code which is in force was not registered for half of KeepLimit, while workers were alive.
	LimitSeen LimitAct = "seen"
	// LimitSet stores the size of an operator. Code does not replace it.
	LimitSet LimitAct = "set"
	// LimitReset lets the next registration of a worker replace an operator's size.
	LimitReset LimitAct = "reset"
	// LimitRemove removes the size. The limit's waiters go back to their queues. A start stores the size of its
	// program again.
	LimitRemove LimitAct = "remove"
	// LimitExpire removes a size that no worker has registered for KeepLimit, while workers were alive, unless
	// it is an operator's.
	LimitExpire LimitAct = "expire"
)

// A LimitWord is the result for one limit.
type LimitWord string

// The results.
const (
	LimitStored  LimitWord = "stored"
	LimitSame    LimitWord = "same"    // the size is as it was
	LimitKept    LimitWord = "kept"    // another size is in force: an operator's, or that of a process that started later
	LimitUnknown LimitWord = "unknown" // there is no such limit
	LimitRemoved LimitWord = "removed"
)

// A LimitChange is one limit with the size that it gets, for the acts that give it one.
type LimitChange struct {
	Name string
	Size Size
}

// ChangeLimits does this with each of these limits, at most MaxItems. It returns a word for each.
func (k Keys) ChangeLimits(act LimitAct, changes []LimitChange) Ask[[]LimitWord] {
	args := []string{string(act), wholeSeconds(KeepLimit)}
	for _, change := range changes {
		args = append(args, change.Name, change.Size.String())
	}
	return asking(limitScript, []string{k.Limits(), k.Up()}, args, func(r reader) ([]LimitWord, error) {
		words := make([]LimitWord, len(changes))
		for i := range words {
			words[i] = LimitWord(r.text())
		}
		return words, r.end()
	})
}

// LimitPage is a page of the limits, in no order.
type LimitPage struct {
	Limits []Limit
	// Next is where the page after it begins; LastPage if there is none.
	Next string
}

// ReadLimits reads the next limits, from the Next of the page before on, at first from FirstPage. Fields that
// are unreadable are left out. A limit may be on several pages.
func (k Keys) ReadLimits(from string) Ask[LimitPage] {
	return Ask[LimitPage]{Call: driver.Command("HSCAN", k.Limits(), from, "COUNT", strconv.Itoa(MaxItems)), read: func(r reader) (LimitPage, error) {
		page := LimitPage{Next: r.text()}
		pairs := r.innerTexts()
		for i := 0; i+1 < len(pairs); i += 2 {
			if l, err := ParseLimit(pairs[i], pairs[i+1]); err == nil {
				page.Limits = append(page.Limits, l)
			}
		}
		return page, r.end()
	}}
}
