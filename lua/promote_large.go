package lua

import (
	"fmt"
	"strconv"
)

var promoteLargeScript = load("promote_large")

// PromoteLarge moves a due entry that is too large for any reply from a sorted set to the back of its queue, as
// it is. It returns false, and writes nothing, if the entry has gone.
func (k Keys) PromoteLarge(set, queue string, large Large) Ask[bool] {
	args := []string{strconv.Itoa(large.At), strconv.Itoa(large.Bytes), large.Head, large.Tail, queue, strconv.Itoa(MaxBytes)}
	return asking(promoteLargeScript, []string{set, k.Queue(queue), k.Queues()}, args, func(r reader) (bool, error) {
		word := r.text()
		if word != "promoted" && word != "gone" {
			return false, fmt.Errorf("unexpected reply %q", word)
		}
		return word == "promoted", r.end()
	})
}
