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

// An IdempotencyKey identifies a push that may be sent again. Redis keeps only the last push of each scope.
type IdempotencyKey struct {
	// Scope is the name of the scope in Redis; see Keys.IdempotencyScope.
	Scope string
	// Number is above that of every earlier push in the scope.
	Number int64
	// Mark distinguishes this push from another one with its number. It is drawn once for a push.
	Mark string
	// Remember is how long the scope is kept after the push was stored.
	Remember time.Duration
}

// args are the arguments with which a script gets the key; all are empty if there is none.
func (k *IdempotencyKey) args() []string {
	if k == nil {
		return []string{"", "", ""}
	}
	return []string{strconv.FormatInt(k.Number, 10), k.Mark, millis(k.Remember)}
}

// The results of a push that was not refused.
const (
	// PushStored says that the jobs are stored, by this call or by an earlier one with the same IdempotencyKey.
	PushStored = "pushed"
	// PushStale says that this call stored nothing, because its scope has a later push, or another one with
	// this number. An earlier call with the same IdempotencyKey may have stored the jobs.
	PushStale = "stale"
)

// Push stores the jobs of all batches at the backs of their queues, and those for later in the schedule: all
// of them or none. With an IdempotencyKey, which may be nil, they are stored once, however often the call is
// sent while the scope is kept. The result is PushStored or PushStale. A full Redis refuses with OOM. The
// caller keeps within MaxItems and MaxBytes and names no queue twice.
func (k Keys) Push(key *IdempotencyKey, batches []QueueBatch, later []Scheduled) Ask[string] {
	keys := []string{k.Queues(), k.Schedule()}
	if key != nil {
		keys = append(keys, key.Scope)
	}
	args := append(key.args(), strconv.Itoa(len(later)))
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

// PushOne returns the calls that store jobs of one queue at its back, all or none. It needs no script: LPUSH
// is atomic. The reply to the last call is that of the jobs. The queue's name is stored first, as in Ruby: a
// name without jobs does no harm, and operators would not see jobs without a name.
func (k Keys) PushOne(batch QueueBatch) []driver.Call {
	words := append(make([]string, 0, 2+len(batch.Jobs)), "LPUSH", k.Queue(batch.Queue))
	return []driver.Call{driver.Command("SADD", k.Queues(), batch.Queue), driver.Command(append(words, batch.Jobs...)...)}
}
