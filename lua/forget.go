package lua

import "time"

var forgetScript = load("forget")

// Forget deletes the tombstone and the record of identity if the tombstone is older than stands and all lists
// of identity and its ledger of slots are empty. It returns whether it deleted them.
func (k Keys) Forget(identity string, queues []string, stands time.Duration) Ask[bool] {
	keys := append([]string{k.Tombstones(), k.Record(identity)}, append(k.ListsOf(queues, identity), k.Slots(identity))...)
	return asking(forgetScript, keys, []string{identity, millis(stands)}, wordIs("forgotten"))
}
