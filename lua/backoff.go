package lua

import (
	"math/rand/v2"
	"time"
)

// A Backoff spaces out attempts while Redis cannot be reached. Its zero value has no delay. It is for one
// goroutine at a time.
type Backoff struct{ delay time.Duration }

// Next returns how long to wait after one more failure: about twice as long as after the last one, from first
// to longest.
func (b *Backoff) Next(first, longest time.Duration) time.Duration {
	b.delay = min(max(2*b.delay, first), longest)
	return Jitter(b.delay)
}

// Reset makes the next delay the first one again.
func (b *Backoff) Reset() { b.delay = 0 }

// Jitter draws a delay between half of d and d: a fleet that lost Redis at one instant must not come back in
// step.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
