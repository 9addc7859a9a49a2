package inspect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

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
	// FailedJIDs and DeadJIDs are some of its members that have failed or died, at most 100 each: the same ones
	// each time, as far as they are still there. Nested batches have no jid. Only Inspector.Batch reads them.
	FailedJIDs []string `json:"failed_jids,omitempty"`
	DeadJIDs   []string `json:"dead_jids,omitempty"`

	read lua.BatchRead
}

const (
	// batchJIDs is how many members Inspector.Batch names at most.
	batchJIDs = 100
	// maxJIDPages bounds the pages that it reads for them: nearly all of the failed members of a batch may be
	// the end jobs of nested ones.
	maxJIDPages = 40
)

// BatchCount returns how many batches there are.
func (i *Inspector) BatchCount(ctx context.Context) (int64, error) {
	reply := i.driver.Do(ctx, driver.Command("ZCARD", i.keys.Batches()))[0]
	if reply.Err != nil {
		return 0, fmt.Errorf("count batches: %w", reply.Err)
	}
	count, _ := reply.Value.(int64)
	return count, nil
}

// BatchStates counts batches by their states: of the 256 that are kept the longest. others is how many more
// there are. A batch is kept for a day after its success, and for up to thirty days before it, so the others
// are over as a rule.
func (i *Inspector) BatchStates(ctx context.Context) (states map[lua.BatchState]int, others int, err error) {
	page, err := i.page(ctx, i.keys.Batches(), lua.OrderHighest, 0, lua.MaxItems)
	if err != nil {
		return nil, 0, fmt.Errorf("list batches: %w", err)
	}
	batches, err := i.batchPage(ctx, page.Entries)
	if err != nil {
		return nil, 0, fmt.Errorf("read batches: %w", err)
	}
	states = make(map[lua.BatchState]int)
	for _, b := range batches {
		states[b.State]++
	}
	return states, max(page.Total-len(page.Entries), 0), nil
}

// Batches yields the batches, the first to expire first. It reads a page at a time, as the caller continues.
// Batches come and go meanwhile, so it may yield one twice or miss one. It yields an error once, and then ends.
func (i *Inspector) Batches(ctx context.Context) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		yieldPages(ctx, i, "batches", i.keys.Batches(), lua.Cursor{From: "-inf", To: "+inf"}, i.batchPage, yield)
	}
}

// BatchesFrom returns at most 256 batches, in the order of Batches, after the first skip of them; total is how
// many there are.
func (i *Inspector) BatchesFrom(ctx context.Context, skip, most int) (batches []Batch, total int, err error) {
	page, err := i.page(ctx, i.keys.Batches(), lua.OrderLowest, max(skip, 0), min(most, lua.MaxItems))
	if err != nil {
		return nil, 0, fmt.Errorf("list batches: %w", err)
	}
	if batches, err = i.batchPage(ctx, page.Entries); err != nil {
		return nil, 0, fmt.Errorf("read batches: %w", err)
	}
	return batches, page.Total, nil
}

// batchPage reads the batches of a page of the set of all batches; it skips those that do not exist any more.
func (i *Inspector) batchPage(ctx context.Context, page []lua.Entry) ([]Batch, error) {
	ids := make([]string, len(page))
	for n, entry := range page {
		ids[n] = entry.Bytes
	}
	return i.readBatches(ctx, ids...)
}

// readBatches reads the batches with these ids that exist. No batch has an id that a program could not give it.
func (i *Inspector) readBatches(ctx context.Context, ids ...string) ([]Batch, error) {
	ids = slices.DeleteFunc(ids, func(id string) bool { return lua.CheckBatchID(id) != nil })
	if len(ids) == 0 {
		return nil, nil
	}
	now, err := i.Now(ctx)
	if err != nil {
		return nil, err
	}
	read, err := i.keys.ReadBatches(ctx, i.driver, ids...)
	batches := make([]Batch, len(read))
	for n, b := range read {
		batches[n] = Batch{
			BatchStatus: b.BatchStatus, Queue: b.Queue, Parent: b.Parent.ID, Age: Seconds{max(now.Sub(b.CreatedAt), 0)}, read: b,
		}
	}
	return batches, err
}

// Batch returns what is known about a batch, with the jids of some of its members that have failed; found is
// false if there is none.
func (i *Inspector) Batch(ctx context.Context, id string) (b Batch, found bool, err error) {
	if b, found, err = i.batch(ctx, id); err != nil || !found {
		return b, found, err
	}
	var failedErr, deadErr error
	b.FailedJIDs, failedErr = i.someMembers(ctx, b, i.keys.BatchFailed(id))
	b.DeadJIDs, deadErr = i.someMembers(ctx, b, i.keys.BatchDead(id))
	if err := cmp.Or(failedErr, deadErr); err != nil {
		return b, found, fmt.Errorf("read the members of batch %s: %w", id, err)
	}
	return b, true, nil
}

// someMembers returns the jids of members of a set of a batch, sorted. Redis lists them in the same order each
// time, so those that stay are listed again.
func (i *Inspector) someMembers(ctx context.Context, b Batch, set string) (jids []string, err error) {
	for from, pages := lua.FirstPage, 0; pages < maxJIDPages; pages++ {
		page, err := lua.NamePage(set, from).Do(ctx, i.driver)
		if err != nil {
			return nil, err
		}
		if b.Nested > 0 && len(page.Names) > 0 {
			if page.Names, err = i.withoutNested(ctx, b.ID, page.Names); err != nil {
				return nil, err
			}
		}
		jids = append(jids, page.Names...)
		if from = page.Next; from == lua.LastPage || len(jids) >= batchJIDs {
			break
		}
	}
	return sorted(jids[:min(len(jids), batchJIDs)]), nil
}

// withoutNested returns the jids that are not end jobs of nested batches.
func (i *Inspector) withoutNested(ctx context.Context, id string, jids []string) (members []string, err error) {
	are, err := i.keys.AreNested(id, jids).Do(ctx, i.driver)
	if err != nil {
		return nil, err
	}
	for n, jid := range jids {
		if are[n] == 0 {
			members = append(members, jid)
		}
	}
	return members, nil
}

func (i *Inspector) batch(ctx context.Context, id string) (b Batch, found bool, err error) {
	batches, err := i.readBatches(ctx, id)
	switch {
	case err != nil:
		return b, false, fmt.Errorf("read batch %s: %w", id, err)
	case len(batches) == 0:
		return b, false, nil
	}
	return batches[0], true, nil
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
