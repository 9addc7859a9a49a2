package chaosplan

import "fmt"

// What a callback of a batch is called with.
const (
	Complete = "complete"
	Success  = "success"
	Death    = "death"
)

// BatchID names the nth batch, in a fleet with so many shards. One with another in it begins with the name of a
// shard, so that both are there.
func BatchID(n, shards int) string {
	id := fmt.Sprintf("batch-%d", n)
	if shards > 1 && HasNested(n) {
		return fmt.Sprintf("%d.%s", n/10%shards, id)
	}
	return id
}

// NestedID names the batch that is in the nth one.
func NestedID(n, shards int) string { return BatchID(n, shards) + "-nested" }

// HasNested reports whether another batch is in the nth one, and HasKeys whether the members of both have keys,
// by which each is stored once, however often it is pushed. Members of the others are pushed anew by a pusher
// that takes the place of a killed one.
func HasNested(n int) bool { return n%10 == 4 }

// HasKeys reports whether the members of the nth batch have keys.
//
// With shards a key of a member must be on the shard of its batch, and the ids of nested ones do not say which
// text is placed there: those have none.
func HasKeys(n, shards int) bool { return n%4 < 2 && (shards < 2 || !HasNested(n)) }
