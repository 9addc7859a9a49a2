package lua

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
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

// KeepBatch is how long a batch is kept after its last push, and after a batch was nested in it; after its
// success it is kept for a day.
const KeepBatch = 30 * 24 * time.Hour

// notSealed is the member of the pending jobs of a batch that is not sealed: no jid has a space.
const notSealed = "not sealed"

// BatchMessage is the message on the channel Ended about a batch. It has a space, unlike the jid of a job.
func BatchMessage(id string) string { return "batch " + id }

// BatchOfMessage returns the id of the batch that a message on the channel Ended is about; ok is false for a
// jid.
func BatchOfMessage(message string) (id string, ok bool) {
	return strings.CutPrefix(message, BatchMessage(""))
}

// A BatchState is how far a batch has come.
type BatchState string

// The states. Their names are a contract.
const (
	BatchStateOpen     BatchState = "open"     // it is not sealed
	BatchStateRunning  BatchState = "running"  // it is sealed, and a member has not run yet
	BatchStateComplete BatchState = "complete" // each member has run, and some are not done
	BatchStateDead     BatchState = "dead"     // each member that is not done has died
	BatchStateOver     BatchState = "over"     // it has succeeded
)

// BatchStates are all states, in the order in which a batch has them.
var BatchStates = []BatchState{BatchStateOpen, BatchStateRunning, BatchStateComplete, BatchStateDead, BatchStateOver}

// BatchStatus is what is known about a batch. Instants are by Redis' clock; zero if they have not come.
type BatchStatus struct {
	ID          string     `json:"bid"`
	State       BatchState `json:"state"`
	Description string     `json:"description,omitempty"`
	// Total is how many members were ever stored. Pending are not done; Failed of these have failed, Dead of
	// these have died. Removed were cancelled or deleted. A nested batch counts as two members, one of which is
	// Failed and Dead while the nested batch has dead members.
	Total   int `json:"total"`
	Pending int `json:"pending"`
	Failed  int `json:"failed"`
	Dead    int `json:"dead"`
	Removed int `json:"removed"`
	// Nested counts the nested batches whose OnSuccess is not done. Those that were nested by a version without
	// Nested count as Failed instead.
	Nested int `json:"nested"`

	CreatedAt time.Time `json:"created_at"`
	// CompleteAt, SuccessAt and DeathAt are when the callbacks were called, also those that the batch does not
	// have.
	CompleteAt time.Time `json:"complete_at,omitzero"`
	SuccessAt  time.Time `json:"success_at,omitzero"`
	DeathAt    time.Time `json:"death_at,omitzero"`
	// InvalidAt is when the batch was invalidated.
	InvalidAt time.Time `json:"invalid_at,omitzero"`
}

// A BatchRead is a BatchStatus with what other scripts need to know.
type BatchRead struct {
	BatchStatus
	// Queue is where its callbacks go.
	Queue string
	// Parent is the batch in which it is nested; zero for none. Complete and Success are then the jids of its
	// end jobs there.
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
	"complete_at", "success_at", "death_at", "total", "removed",
}

// ReadBatch reads a batch; ok is false if there is none. The reads are not one step.
func (k Keys) ReadBatch(ctx context.Context, client driver.Client, id string) (b BatchRead, ok bool, err error) {
	batches, err := k.ReadBatches(ctx, client, id)
	if err != nil || len(batches) == 0 {
		return BatchRead{BatchStatus: BatchStatus{ID: id}}, false, err
	}
	return batches[0], true, nil
}

// batchesAtOnce is how many batches one pipeline reads: it has eight calls for each.
const batchesAtOnce = MaxItems / 8

// ReadBatches reads batches, in the order of their ids, without those that do not exist. The reads are not one
// step.
func (k Keys) ReadBatches(ctx context.Context, client driver.Client, ids ...string) (batches []BatchRead, err error) {
	k.readEach(ctx, client, ids, func(_ string, b BatchRead, ok bool, readErr error) (goOn bool) {
		if err = readErr; err == nil && ok {
			batches = append(batches, b)
		}
		return err == nil
	})
	return batches, err
}

// ReadEachBatch reads batches. It returns those that exist, and for each that cannot be read the reason. The
// error is an outage.
func (k Keys) ReadEachBatch(ctx context.Context, client driver.Client, ids []string) (batches map[string]BatchRead, unread map[string]error, err error) {
	batches, unread = make(map[string]BatchRead, len(ids)), make(map[string]error)
	k.readEach(ctx, client, ids, func(id string, b BatchRead, ok bool, readErr error) (goOn bool) {
		switch {
		case driver.Outage(readErr):
			err = readErr
		case readErr != nil:
			unread[id] = fmt.Errorf("read the batch %s: %w", id, readErr)
		case ok:
			batches[id] = b
		}
		return err == nil
	})
	return batches, unread, err
}

// readEach calls a function with each of these batches, in their order, until it returns false. ok is false if
// there is no such batch.
func (k Keys) readEach(ctx context.Context, client driver.Client, ids []string, each func(id string, b BatchRead, ok bool, err error) (goOn bool)) {
	for page := range slices.Chunk(ids, batchesAtOnce) {
		var calls []driver.Call
		for _, id := range page {
			calls = append(calls, k.batchCalls(id)...)
		}
		replies := client.Do(ctx, calls...)
		size := len(replies) / len(page)
		for n, id := range page {
			b, ok, err := readBatch(id, replies[n*size:(n+1)*size])
			if !each(id, b, ok, err) {
				return
			}
		}
	}
}

// ArePending returns for each of these jids whether it is pending in a batch: 1 or 0. There is at least one.
func (k Keys) ArePending(id string, jids []string) Ask[[]int] {
	return Ask[[]int]{Call: driver.Command(append([]string{"SMISMEMBER", k.BatchPending(id)}, jids...)...), read: readNumbers}
}

// AreNested returns for each of these jids whether it is the end job of a nested batch: 1 or 0. There is at
// least one.
func (k Keys) AreNested(id string, jids []string) Ask[[]int] {
	return Ask[[]int]{Call: driver.Command(append([]string{"SMISMEMBER", k.BatchNested(id)}, jids...)...), read: readNumbers}
}

// ExpiredBatches returns ids of batches that have expired, the earliest first, without the first skip of them,
// at most most.
func (k Keys) ExpiredBatches(ctx context.Context, client driver.Client, now time.Time, skip, most int) ([]string, error) {
	return Texts(client.Do(ctx, driver.Command("ZRANGEBYSCORE", k.Batches(), "-inf", strconv.FormatInt(now.Unix(), 10),
		"LIMIT", strconv.Itoa(skip), strconv.Itoa(most)))[0])
}

// batchCalls returns the calls that read a batch.
func (k Keys) batchCalls(id string) []driver.Call {
	return []driver.Call{
		driver.Command(append([]string{"HMGET", k.Batch(id)}, batchFields...)...),
		driver.Command("SCARD", k.BatchPending(id)), driver.Command("SCARD", k.BatchFailed(id)), driver.Command("SCARD", k.BatchDead(id)),
		driver.Command("SISMEMBER", k.BatchPending(id), notSealed),
		driver.Command("ZSCORE", k.Cancelled(), BatchMark(id).member()),
		driver.Command("SINTERCARD", "2", k.BatchNested(id), k.BatchFailed(id)), driver.Command("SINTERCARD", "2", k.BatchNested(id), k.BatchDead(id)),
	}
}

// essentialCalls is how many of batchCalls a user must be permitted, the first ones: one that pushes may be
// denied the marks of cancelled jobs, and one of an earlier version what counts nested batches.
const essentialCalls = 5

// readBatch reads the replies to batchCalls; ok is false if there is no batch.
func readBatch(id string, replies []driver.Reply) (b BatchRead, ok bool, err error) {
	for at, reply := range replies {
		if reply.Err != nil && (at < essentialCalls || !driver.Forbidden(reply.Err)) {
			return b, false, reply.Err
		}
	}
	b.ID = id
	r := readerOf(replies[0].Value)
	b.CreatedAt = r.instant()
	b.Description, b.Queue = r.textOrNil(), r.textOrNil()
	b.Parent, _ = ParseBatch(r.textOrNil()) // none has no slash
	b.Complete, b.Success = r.textOrNil(), r.textOrNil()
	b.CompleteAt, b.SuccessAt, b.DeathAt = r.instant(), r.instant(), r.instant()
	b.Total, _ = strconv.Atoi(r.textOrNil())
	b.Removed, _ = strconv.Atoi(r.textOrNil())
	var counts [4]int
	for at := range counts {
		count := readerOf(replies[1+at].Value)
		counts[at] = count.number()
	}
	b.Pending, b.Failed, b.Dead = counts[0]-counts[3], counts[1], counts[2]
	b.addNested(replies[6], replies[7])
	marked := readerOf(replies[5].Value)
	if us, err := strconv.ParseFloat(marked.textOrNil(), 64); err == nil {
		b.InvalidAt = time.UnixMicro(int64(us)).UTC()
	}
	b.State = b.stateOf(counts[3] == 0)
	return b, !b.CreatedAt.IsZero(), r.end()
}

// addNested counts the nested batches that are not over. Their end jobs are among the failed members from the
// beginning, though none has run; but for those that count as dead.
func (b *BatchStatus) addNested(all, dead driver.Reply) {
	if all.Err != nil || dead.Err != nil {
		return
	}
	count, ofDead := readerOf(all.Value), readerOf(dead.Value)
	b.Nested = count.number()
	b.Failed = max(b.Failed-b.Nested+ofDead.number(), b.Dead) // the replies are not of one instant
}

func (b *BatchStatus) stateOf(sealed bool) BatchState {
	switch {
	case !b.SuccessAt.IsZero():
		return BatchStateOver
	case !sealed:
		return BatchStateOpen
	case b.Pending > 0 && b.Dead == b.Pending:
		return BatchStateDead
	case !b.CompleteAt.IsZero():
		return BatchStateComplete
	}
	return BatchStateRunning
}

// instant reads an instant in milliseconds since 1970; zero for Redis' nil.
func (r *reader) instant() time.Time {
	ms, err := strconv.ParseInt(r.textOrNil(), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
