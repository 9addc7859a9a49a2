package lua

import (
	"strconv"

	"github.com/belayq/belay/driver"
)

var pushScript = load("push")

// A QueueBatch is jobs for one queue, as bytes.
type QueueBatch struct {
	Queue string
	Jobs  []string
}

// Push stores the jobs of all batches at the backs of their queues, all of them or none. A full Redis refuses with OOM.
// The caller keeps within MostItems and MostBytes and names no queue twice.
func (k Keys) Push(batches []QueueBatch) Ask[string] {
	keys := make([]string, 0, 1+len(batches))
	keys = append(keys, k.Queues())
	var args []string
	for _, batch := range batches {
		keys = append(keys, k.Queue(batch.Queue))
		args = append(args, batch.Queue, strconv.Itoa(len(batch.Jobs)))
		args = append(args, batch.Jobs...)
	}
	return Ask[string]{Call: driver.Call{Script: pushScript, Keys: keys, Args: args}, read: wordOf}
}
