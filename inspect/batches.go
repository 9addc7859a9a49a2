package inspect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A Batch is what an operator sees of a batch. Its text is untrusted.
type Batch struct {
	lua.BatchStatus
	// Queue is where its callbacks go, and Parent the id of the batch in which it is nested; empty for none.
	Queue  string `json:"queue"`
	Parent string `json:"parent,omitempty"`
	// Age is how long ago it was made, by Redis' clock.
	Age Seconds `json:"age_seconds"`
	// FailedJIDs and DeadJIDs are some of its members that have failed or died, at most 100 each. Only
	// Inspector.Batch reads them.
	FailedJIDs []string `json:"failed_jids,omitempty"`
	DeadJIDs   []string `json:"dead_jids,omitempty"`

	read lua.BatchRead
}

// batchJIDs is how many members Inspector.Batch names at most.
const batchJIDs = 100

// BatchCount returns how many batches there are.
func (i *Inspector) BatchCount(ctx context.Context) (int64, error) {
	reply := i.driver.Do(ctx, driver.Command("ZCARD", i.keys.Batches()))[0]
	if reply.Err != nil {
		return 0, fmt.Errorf("count batches: %w", reply.Err)
	}
	count, _ := reply.Value.(int64)
	return count, nil
}

// Batches yields the batches, the first to expire first. It reads a page at a time, as the caller continues.
// Batches come and go meanwhile, so it may yield one twice or miss one. It yields an error once, and then ends.
func (i *Inspector) Batches(ctx context.Context) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		stopped := false
		var batchErr error
		err := i.walk(ctx, i.keys.Batches(), lua.Cursor{From: "-inf", To: "+inf"}, func(page []lua.Entry) bool {
			for _, entry := range page {
				b, found, err := i.batch(ctx, entry.Bytes)
				if batchErr = err; err != nil {
					return true
				}
				if found && !yield(b, nil) {
					stopped = true
					return true
				}
			}
			return false
		})
		if err = cmp.Or(err, batchErr); err != nil && !stopped {
			yield(Batch{}, fmt.Errorf("read batches: %w", err))
		}
	}
}

// Batch returns what is known about a batch, with the jids of some of its members that have failed; found is
// false if there is none.
func (i *Inspector) Batch(ctx context.Context, id string) (b Batch, found bool, err error) {
	if b, found, err = i.batch(ctx, id); err != nil || !found {
		return b, found, err
	}
	most := strconv.Itoa(batchJIDs)
	replies := i.driver.Do(ctx, driver.Command("SRANDMEMBER", i.keys.BatchFailed(id), most), driver.Command("SRANDMEMBER", i.keys.BatchDead(id), most))
	failed, failedErr := lua.Texts(replies[0])
	dead, deadErr := lua.Texts(replies[1])
	if err := cmp.Or(failedErr, deadErr); err != nil {
		return b, found, fmt.Errorf("read the members of batch %s: %w", id, err)
	}
	slices.Sort(failed)
	slices.Sort(dead)
	b.FailedJIDs, b.DeadJIDs = failed, dead
	return b, true, nil
}

func (i *Inspector) batch(ctx context.Context, id string) (b Batch, found bool, err error) {
	if lua.CheckBatchID(id) != nil {
		return b, false, nil //nolint:nilerr // no batch has such an id
	}
	now, err := i.Now(ctx)
	if err != nil {
		return b, false, err
	}
	read, found, err := i.keys.ReadBatch(ctx, i.driver, id)
	if err != nil {
		return b, false, fmt.Errorf("read batch %s: %w", id, err)
	}
	age := Seconds{max(now.Sub(read.CreatedAt), 0)}
	return Batch{BatchStatus: read.BatchStatus, Queue: read.Queue, Parent: read.Parent.ID, Age: age, read: read}, found, nil
}

// SealBatch records that no program pushes members into a batch any more, as Batch.Seal of the client does: for
// a batch whose program died before. found is false if there is none.
func (i *Inspector) SealBatch(ctx context.Context, id string) (found bool, err error) {
	b, found, err := i.batch(ctx, id)
	if err != nil || !found {
		return false, err
	}
	found, err = i.keys.SealBatch(lua.Batch{ID: id, Queue: b.Queue}).Do(ctx, i.driver)
	if err != nil {
		return false, fmt.Errorf("seal batch %s: %w", id, err)
	}
	return found, nil
}

// InvalidateBatch makes workers drop the members of a batch that have not started. found is false if there is
// none.
func (i *Inspector) InvalidateBatch(ctx context.Context, id string) (found bool, err error) {
	_, found, err = i.batch(ctx, id)
	if err != nil || !found {
		return false, err
	}
	if _, err := i.keys.Mark([]lua.Mark{lua.BatchMark(id)}).Do(ctx, i.driver); err != nil {
		return false, fmt.Errorf("invalidate batch %s: %w", id, err)
	}
	return true, nil
}

// DeleteBatch deletes a batch. Its jobs stay, and count nowhere; its callbacks are never called. found is false
// if there is none.
func (i *Inspector) DeleteBatch(ctx context.Context, id string) (found bool, err error) {
	b, found, err := i.batch(ctx, id)
	if err != nil || !found {
		return false, err
	}
	word, err := i.keys.DropBatch(id, b.read, false).Do(ctx, i.driver)
	if err != nil {
		return false, fmt.Errorf("delete batch %s: %w", id, err)
	}
	return word == lua.DropDropped, nil
}
