package lua

import (
	"math/rand/v2"
	"time"
)

// A Backoff returns growing delays between attempts while Redis cannot be reached. The zero Backoff has no
// delay. It must not be used concurrently.
type Backoff struct{ delay time.Duration }

// Next returns the delay after one more failure: about twice the last one, from first to longest.
func (b *Backoff) Next(first, longest time.Duration) time.Duration {
	b.delay = min(max(2*b.delay, first), longest)
	return Jitter(b.delay)
}

// Reset makes the next delay the first one again.
func (b *Backoff) Reset() { b.delay = 0 }

// Jitter returns a random delay between half of d and d, so that a fleet that lost Redis at one instant does
// not return at one instant.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
