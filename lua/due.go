package lua

import (
	"strconv"
	"time"
)

var dueScript = load("due")

// Due is a page of the due jobs of a sorted set.
type Due struct {
	// Jobs are due, earliest first: a page of them.
	Jobs []string
	// Large are due jobs that are too large for the reply; At is their rank in the set.
	Large []Large
	// Next is the time until the next job is due, a million seconds at most; negative for none.
	Next time.Duration
}

// Due reads a page of the due jobs of a sorted set (Schedule or Retry), skipping the first skip of them: at
// most MostItems, and page bytes, which the last job may exceed by its own size. For entries larger than
// largest bytes it returns only what KillLarge needs.
func (k Keys) Due(set string, skip, page, largest int) Ask[Due] {
	return asking(dueScript, []string{set},
		[]string{strconv.Itoa(MostItems), strconv.Itoa(min(page, MostBytes)), strconv.Itoa(largest), strconv.Itoa(skip)}, readDue)
}

func readDue(value any) (due Due, err error) {
	parts, ok := value.([]any)
	if !ok || len(parts) < 2 {
		return due, errShape(value)
	}
	micros, ok := parts[0].(int64)
	if !ok {
		return due, errShape(parts[0])
	}
	due.Next = time.Duration(micros) * time.Microsecond
	if due.Large, err = largeOf(parts[1]); err != nil {
		return due, err
	}
	due.Jobs, err = textsOf(parts[2:])
	return due, err
}
