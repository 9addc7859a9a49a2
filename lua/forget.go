package lua

import (
	"time"

	"github.com/belayq/belay/driver"
)

var forgetScript = load("forget")

// Forget deletes the tombstone and the record of identity if the tombstone is older than stands and all its
// lists are empty. It answers whether it did.
func (k Keys) Forget(identity string, queues []string, stands time.Duration) Ask[bool] {
	keys := append([]string{k.Tombstones(), k.Record(identity)}, k.ListsOf(queues, identity)...)
	return Ask[bool]{
		Call: driver.Call{Script: forgetScript, Keys: keys, Args: []string{identity, millis(stands)}},
		read: wordIs("forgotten"),
	}
}
