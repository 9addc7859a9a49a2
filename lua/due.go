package lua

import (
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

var dueScript = load("due")

// Due is what a look at a sorted set answered.
type Due struct {
	// Jobs are due, earliest first: a page of them.
	Jobs []string
	// Next is how long it is until the next one that was not due, a million seconds at most; negative for none.
	Next time.Duration
}

// Due reads a page of the due jobs of a sorted set (Schedule or Retry), passing over the first skip of them: at most
// MostItems, and page bytes, which the last job may exceed by its own size. Entries larger than largest bytes go to the
// dead set on the way.
func (k Keys) Due(set string, skip, page, largest int) Ask[Due] {
	return Ask[Due]{
		Call: driver.Call{
			Script: dueScript,
			Keys:   []string{set, k.Dead()},
			Args:   []string{strconv.Itoa(MostItems), strconv.Itoa(min(page, MostBytes)), strconv.Itoa(largest), strconv.Itoa(skip)},
		},
		read: readDue,
	}
}

func readDue(value any) (due Due, err error) {
	parts, ok := value.([]any)
	if !ok || len(parts) == 0 {
		return due, errShape(value)
	}
	micros, ok := parts[0].(int64)
	if !ok {
		return due, errShape(parts[0])
	}
	due.Next = time.Duration(micros) * time.Microsecond
	due.Jobs, err = textsOf(parts[1:])
	return due, err
}
