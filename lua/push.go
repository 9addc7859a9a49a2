package lua

import (
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

var pushScript = load("push")

// A QueueBatch is jobs for one queue, as bytes. There is at least one.
type QueueBatch struct {
	Queue string
	Jobs  []string
}

// A Scheduled is a job for later: after In by Redis' clock, or at At when that is set.
type Scheduled struct {
	Job string
	In  time.Duration
	At  time.Time
}

// Push stores the jobs of all batches at the backs of their queues, and those for later in the schedule: all of them or
// none. A full Redis refuses with OOM. The caller keeps within MostItems and MostBytes and names no queue twice.
func (k Keys) Push(batches []QueueBatch, later []Scheduled) Ask[string] {
	keys := make([]string, 0, 2+len(batches))
	keys = append(keys, k.Queues(), k.Schedule())
	args := []string{strconv.Itoa(len(later))}
	for _, scheduled := range later {
		if scheduled.At.IsZero() {
			args = append(args, "in", strconv.FormatFloat(scheduled.In.Seconds(), 'f', 6, 64), scheduled.Job)
		} else {
			args = append(args, "at", job.Stamp(scheduled.At, job.Seconds), scheduled.Job)
		}
	}
	for _, batch := range batches {
		keys = append(keys, k.Queue(batch.Queue))
		args = append(args, batch.Queue, strconv.Itoa(len(batch.Jobs)))
		args = append(args, batch.Jobs...)
	}
	return Ask[string]{Call: driver.Call{Script: pushScript, Keys: keys, Args: args}, read: wordOf}
}
