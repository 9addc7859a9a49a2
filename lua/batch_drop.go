package lua

var batchDropScript = load("batch_drop")

// A DropWord is the result of DropBatch.
type DropWord string

// The results of DropBatch.
const (
	DropDropped DropWord = "dropped"
	DropKept    DropWord = "kept" // it has not expired
	DropGone    DropWord = "gone" // there is none
)

// DropBatch deletes a batch, with expired only if it has expired. read is what ReadBatch returned: it names the
// parent, for which the batch's end jobs then count as removed.
func (k Keys) DropBatch(id string, read BatchRead, expired bool) Ask[DropWord] {
	keys := []string{k.Batch(id), k.BatchPending(id), k.BatchFailed(id), k.BatchDead(id), k.BatchNested(id), k.Batches()}
	args := []string{id, "any"}
	if expired {
		args[1] = "expired"
	}
	if read.Parent != (Batch{}) {
		keys = append(keys, read.Parent.keysOf(k)...)
		args = append(args, read.Parent.String(), read.Complete, read.Success)
	}
	return asking(batchDropScript, keys, args, func(r reader) (DropWord, error) { return DropWord(r.text()), r.end() })
}
