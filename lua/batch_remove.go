package lua

var batchRemoveScript = load("batch_remove")

// RemoveMembers takes members out of a batch whose jobs are nowhere, and returns how many of them were pending.
// They count as removed. The caller keeps within MaxItems.
func (k Keys) RemoveMembers(b Batch, jids []string) Ask[int] {
	return asking(batchRemoveScript, b.keysOf(k), append([]string{b.String()}, jids...), readNumber)
}
