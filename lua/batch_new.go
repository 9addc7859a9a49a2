package lua

import (
	"cmp"

	"github.com/belayq/belay/job"
)

var batchNewScript = load("batch_new")

// A NewBatch is a batch to make.
type NewBatch struct {
	Batch
	Description string
	// OnComplete, OnSuccess and OnDeath are the callbacks, as batch.Callback returns them; "" for none.
	OnComplete, OnSuccess, OnDeath string
	// Unit is that of the callbacks' enqueued_at.
	Unit job.TimeUnit
	// Parent is the batch in which it is nested; zero for none. Complete and Success are then the jids of
	// OnComplete and OnSuccess, which are members of the parent. OnNested is enqueued whenever the batch has
	// its first dead member, and when it has none any more, for CountNested.
	Parent            Batch
	Complete, Success string
	OnNested          string
}

// BatchWord is the result of NewBatch.
type BatchWord string

// The results of NewBatch.
const (
	BatchNew    BatchWord = "new"    // it was made
	BatchOpen   BatchWord = "open"   // it exists, and is not sealed
	BatchOver   BatchWord = "over"   // it exists, and is sealed
	BatchOrphan BatchWord = "orphan" // its parent is over, or does not exist
)

// NewBatch makes a batch, unless one with its id exists. A full Redis refuses with OOM.
func (k Keys) NewBatch(b NewBatch) Ask[BatchWord] {
	keys := []string{k.Batch(b.ID), k.BatchPending(b.ID), k.Batches()}
	unit := "s"
	if b.Unit == job.Millis {
		unit = "ms"
	}
	fields := []string{"unit", unit, "keep_dead", wholeSeconds(cmp.Or(k.dead.For, DefaultDeadFor)), batchQueue, b.Queue}
	if b.Parent != (Batch{}) {
		keys = append(keys, k.Batch(b.Parent.ID), k.BatchPending(b.Parent.ID), k.BatchFailed(b.Parent.ID), k.BatchNested(b.Parent.ID))
		fields = append(fields, batchParent, b.Parent.String(), batchComplete, b.Complete, batchSuccess, b.Success)
	}
	for _, field := range [][2]string{
		{batchDescription, b.Description}, {"on_complete", b.OnComplete}, {"on_success", b.OnSuccess}, {"on_death", b.OnDeath}, {"on_nested", b.OnNested},
	} {
		if field[1] != "" {
			fields = append(fields, field[0], field[1])
		}
	}
	args := append([]string{b.ID, wholeSeconds(KeepBatch), b.Complete, b.Success, b.Parent.ID}, fields...)
	return asking(batchNewScript, keys, args, func(r reader) (BatchWord, error) { return BatchWord(r.text()), r.end() })
}
