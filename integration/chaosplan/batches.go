package chaosplan

import "fmt"

// What a callback of a batch is called with.
const (
	Complete = "complete"
	Success  = "success"
	Death    = "death"
)

// BatchID names the nth batch, and NestedID the one that is in it.
func BatchID(n int) string { return fmt.Sprintf("batch-%d", n) }

// NestedID names the batch that is in the nth one.
func NestedID(n int) string { return BatchID(n) + "-nested" }

// HasNested reports whether another batch is in the nth one, and HasKeys whether the members of both have keys,
// by which each is stored once, however often it is pushed. Members of the others are pushed anew by a pusher
// that takes the place of a killed one.
func HasNested(n int) bool { return n%10 == 4 }

// HasKeys reports whether the members of the nth batch have keys.
func HasKeys(n int) bool { return n%4 < 2 }
