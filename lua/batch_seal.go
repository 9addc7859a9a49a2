package lua

var batchSealScript = load("batch_seal")

// SealBatch records that the program that made a batch pushes no more members. It returns false if there is no
// such batch.
func (k Keys) SealBatch(b Batch) Ask[bool] {
	return asking(batchSealScript, b.keysOf(k), []string{b.String()}, wordIs("sealed"))
}
