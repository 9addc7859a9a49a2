package lua

var batchNestedScript = load("batch_nested")

// CountNested counts in the parent of a nested batch whether the nested one has dead members. read is what
// ReadBatch returned. It returns false if there is no such nested batch.
func (k Keys) CountNested(id string, read BatchRead) Ask[bool] {
	keys := append([]string{k.Batch(id), k.BatchDead(id)}, read.Parent.keysOf(k)...)
	return asking(batchNestedScript, keys, []string{read.Parent.String(), read.Success}, wordIs("counted"))
}
