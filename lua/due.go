package lua

import (
	"strconv"
	"time"
)

var dueScript = load("due")

// Due is a page of the due jobs of a sorted set.
type Due struct {
	// Jobs is a page of the due jobs, earliest first.
	Jobs []string
	// Large are due jobs that are too large for the reply; At is their rank in the set.
	Large []Large
	// Next is the time until the next job is due, a million seconds at most; negative for none.
	Next time.Duration
}

// Due reads a page of the due jobs of a sorted set (Schedule or Retry), skipping the first skip of them: at
// most MaxItems, and page bytes, which the last job may exceed by its own size. For entries larger than
// largest bytes it returns only what KillLarge needs.
func (k Keys) Due(set string, skip, page, largest int) Ask[Due] {
	return asking(dueScript, []string{set},
		[]string{strconv.Itoa(MaxItems), strconv.Itoa(min(page, MaxBytes)), strconv.Itoa(largest), strconv.Itoa(skip)}, readDue)
}

func readDue(r reader) (due Due, err error) {
	due.Next = time.Duration(r.number()) * time.Microsecond
	due.Large = r.large()
	due.Jobs = r.texts()
	return due, r.end()
}
