package lua

import (
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

var pushScript = load("push")

// A QueueBatch has jobs for one queue, as bytes; at least one.
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

// An IdempotencyKey identifies a push that may be sent again, by its number in a slot. The numbers of a slot
// rise.
type IdempotencyKey struct {
	// Slot is the key of the slot; see Keys.IdempotencySlot.
	Slot string
	// Number is above that of every earlier push in the slot.
	Number int64
	// Mark distinguishes this push from another one with the same number. It is drawn once for a push.
	Mark string
	// Remember is how long the slot is kept after the push was stored.
	Remember time.Duration
}

// The results of a push that was not refused.
const (
	// PushStored says that the jobs are stored, by this call or by an earlier one with the same IdempotencyKey.
	PushStored = "pushed"
	// PushStale means that this call stored nothing, because its slot has a later push, or another one with
	// this number. An earlier call with the same IdempotencyKey may have stored the jobs.
	PushStale = "stale"
)

// Push stores the jobs of all batches at the backs of their queues, and those for later in the schedule: all
// of them or none. A full Redis refuses with OOM. The caller keeps within MaxItems and MaxBytes and names
// no queue twice.
func (k Keys) Push(batches []QueueBatch, later []Scheduled) Ask[string] {
	return k.pushing([]string{k.Queues(), k.Schedule()}, []string{"", "", ""}, batches, later)
}

// PushOne returns the calls that store jobs of one queue at its back, all or none. It needs no script: LPUSH
// is atomic. The reply to the last call is that of the jobs. The queue's name is stored first, as in Ruby: a
// name without jobs does no harm, and operators would not see jobs without a name.
func (k Keys) PushOne(batch QueueBatch) []driver.Call {
	words := append(make([]string, 0, 2+len(batch.Jobs)), "LPUSH", k.Queue(batch.Queue))
	return []driver.Call{driver.Command("SADD", k.Queues(), batch.Queue), driver.Command(append(words, batch.Jobs...)...)}
}

// PushOnce is Push for jobs that are stored once, however often the call is sent while the slot is kept. The
// result is PushStored or PushStale.
func (k Keys) PushOnce(number IdempotencyKey, batches []QueueBatch, later []Scheduled) Ask[string] {
	return k.pushing([]string{k.Queues(), k.Schedule(), number.Slot},
		[]string{strconv.FormatInt(number.Number, 10), number.Mark, millis(number.Remember)}, batches, later)
}

// pushing adds the jobs, and the keys of their queues, to the given keys and arguments.
func (k Keys) pushing(keys, args []string, batches []QueueBatch, later []Scheduled) Ask[string] {
	args = append(args, strconv.Itoa(len(later)))
	for _, scheduled := range later {
		if scheduled.At.IsZero() {
			args = append(args, "in", seconds(scheduled.In), scheduled.Job)
		} else {
			args = append(args, "at", job.Stamp(scheduled.At, job.Seconds), scheduled.Job)
		}
	}
	for _, batch := range batches {
		keys = append(keys, k.Queue(batch.Queue))
		args = append(args, batch.Queue, strconv.Itoa(len(batch.Jobs)))
		args = append(args, batch.Jobs...)
	}
	return asking(pushScript, keys, args, readText)
}
