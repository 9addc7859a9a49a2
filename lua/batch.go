package lua

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

// A Batch names a batch, as its members do.
type Batch struct {
	ID string
	// Queue is where its callbacks go.
	Queue string
}

// String returns the text of the field of its members. An id has no slash.
func (b Batch) String() string { return b.ID + "/" + b.Queue }

var validID = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// maxBatchID is the maximum length of an id.
const maxBatchID = 64

// CheckBatchID returns an error unless id is valid as the id of a batch.
func CheckBatchID(id string) error {
	switch {
	case id == "":
		return errors.New("the id of the batch is empty")
	case len(id) > maxBatchID:
		return fmt.Errorf("the id of the batch is %d bytes long; at most %d are allowed", len(id), maxBatchID)
	case !validID.MatchString(id):
		return fmt.Errorf("the id of the batch is %q: use letters, digits, dots, dashes and underscores", id)
	}
	return nil
}

// ParseBatch reads the text of job.FieldBatch or job.FieldBatchEnded.
func ParseBatch(text string) (b Batch, err error) {
	id, queue, found := strings.Cut(text, "/")
	if !found {
		return b, fmt.Errorf("the batch %q has no queue: it must be BID/QUEUE", text)
	}
	if err := errors.Join(CheckBatchID(id), job.CheckQueue(queue)); err != nil {
		return b, err
	}
	return Batch{id, queue}, nil
}

// keysOf are the keys of a batch, in the order in which shared/batch.lua has them.
func (b Batch) keysOf(k Keys) []string {
	return []string{k.Batch(b.ID), k.BatchPending(b.ID), k.BatchFailed(b.ID), k.BatchDead(b.ID), k.Queue(b.Queue), k.Batches(), k.Queues(), k.Ended()}
}

// KeepBatch is how long a batch is kept after its last push; after its success it is kept for a day.
const KeepBatch = 30 * 24 * time.Hour

// notSealed is the member of the pending jobs of a batch that is not sealed: no jid has a space.
const notSealed = "not sealed"

// batchEnded begins a message on the channel Ended about a batch.
const batchEnded = "batch "

// BatchOfMessage returns the id of the batch that a message on the channel Ended is about; ok is false for a
// message about jobs.
func BatchOfMessage(message string) (id string, ok bool) {
	return strings.CutPrefix(message, batchEnded)
}

// A BatchRead is what is known about a batch. Instants are by Redis' clock; zero if they have not come.
type BatchRead struct {
	Description string
	// Queue is where its callbacks go.
	Queue     string
	CreatedAt time.Time
	// CompleteAt, SuccessAt and DeathAt are when its callbacks were called, also those that it does not have.
	CompleteAt, SuccessAt, DeathAt time.Time
	InvalidAt                      time.Time
	// Sealed: the program that made it has pushed all members.
	Sealed bool
	// Total is how many members were ever stored. Pending are not done; Failed of these have failed; Dead of these
	// have died. Removed were cancelled, deleted or dropped.
	Total, Pending, Failed, Dead, Removed int
	// Parent is the batch in which it is nested; zero for none. Complete and Success are then the jids of its end
	// jobs there.
	Parent            Batch
	Complete, Success string
}

// Fields of a batch's hash that its program sets.
const (
	batchDescription = "description"
	batchQueue       = "queue"
	batchParent      = "parent" // "BID/QUEUE"
	batchComplete    = "complete"
	batchSuccess     = "success"
)

var batchFields = []string{
	"created", batchDescription, batchQueue, batchParent, batchComplete, batchSuccess,
	"complete_at", "success_at", "death_at", "invalid_at", "total", "removed",
}

// ReadBatch returns the calls that read a batch, and the function that reads their replies; ok is false if there
// is none. The calls are not one step: figures that change meanwhile may not fit together.
func (k Keys) ReadBatch(id string) (calls []driver.Call, read func(replies []driver.Reply) (b BatchRead, ok bool, err error)) {
	calls = []driver.Call{
		driver.Command(append([]string{"HMGET", k.Batch(id)}, batchFields...)...),
		driver.Command("SCARD", k.BatchPending(id)), driver.Command("SCARD", k.BatchFailed(id)), driver.Command("SCARD", k.BatchDead(id)),
		driver.Command("SISMEMBER", k.BatchPending(id), notSealed),
	}
	return calls, func(replies []driver.Reply) (b BatchRead, ok bool, err error) {
		var counts [4]int
		for at, reply := range replies[1:] {
			if reply.Err != nil {
				return b, false, reply.Err
			}
			r := readerOf(reply.Value)
			counts[at] = r.number()
		}
		if replies[0].Err != nil {
			return b, false, replies[0].Err
		}
		r := readerOf(replies[0].Value)
		b.CreatedAt = r.instant()
		ok = !b.CreatedAt.IsZero()
		b.Description, b.Queue = r.textOrNil(), r.textOrNil()
		b.Parent, _ = ParseBatch(r.textOrNil()) // none has no slash
		b.Complete, b.Success = r.textOrNil(), r.textOrNil()
		b.CompleteAt, b.SuccessAt, b.DeathAt, b.InvalidAt = r.instant(), r.instant(), r.instant(), r.instant()
		b.Total, _ = strconv.Atoi(r.textOrNil())
		b.Removed, _ = strconv.Atoi(r.textOrNil())
		b.Pending, b.Failed, b.Dead, b.Sealed = counts[0]-counts[3], counts[1], counts[2], counts[3] == 0
		return b, ok, r.end()
	}
}

// instant reads an instant in milliseconds since 1970; zero for Redis' nil.
func (r *reader) instant() time.Time {
	ms, err := strconv.ParseInt(r.textOrNil(), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
