package lua

import "github.com/belayq/belay/driver"

var renewScript = load("renew")

// Renew holds on to locks of jobs in hand for as long as each says, and answers how many were still their own. The caller
// keeps within MostItems.
func (k Keys) Renew(locks []Lock) Ask[int] {
	keys, args := []string{k.Unique()}, make([]string, 0, 3*len(locks))
	for _, lock := range locks {
		keys = append(keys, k.Lock(lock.Digest))
		args = append(args, lock.Digest, lock.Owner, millis(lock.Hold))
	}
	return Ask[int]{Call: driver.Call{Script: renewScript, Keys: keys, Args: args}, read: numberOf}
}
