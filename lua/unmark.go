package lua

import (
	"strconv"
	"time"
)

var unmarkScript = load("unmark")

// Unmark takes marks back that were made until an instant, which Mark has returned, and returns how many. With
// tell, processes that have read them drop them, too, within a heartbeat; it is needed if a job is left that
// they could bind.
func (k Keys) Unmark(marks []Mark, until time.Time, tell bool) Ask[int] {
	args := []string{strconv.FormatInt(until.UnixMicro(), 10), bit(tell)}
	return asking(unmarkScript, []string{k.Cancelled()}, appendMarks(args, marks), readNumber)
}
