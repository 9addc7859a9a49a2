package link

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// The usual bounds of a Backoff.
const (
	// FirstRest is short, because most failures are one closed connection, which is replaced at once.
	FirstRest = 50 * time.Millisecond
	// MaxRest lets work resume well within five seconds of Redis' return.
	MaxRest = 2 * time.Second
)

// A Backoff returns growing delays between attempts while Redis cannot be reached. The zero Backoff is ready
// for use. It must not be used concurrently.
type Backoff struct {
	// First is about the delay after the first failure. Default: FirstRest.
	First time.Duration
	// Max is the longest delay, even if First is longer. Default: MaxRest.
	Max time.Duration

	delay time.Duration
}

// Next returns the delay after one more failure: about twice the last one, from First to Max.
func (b *Backoff) Next() time.Duration {
	b.delay = min(max(2*b.delay, cmp.Or(b.First, FirstRest)), b.maxDelay())
	return Jitter(b.delay)
}

// Last returns the longest delay, and so does each later Next, until Reset: for a failure that lasts until an
// operator acts.
func (b *Backoff) Last() time.Duration {
	b.delay = b.maxDelay()
	return Jitter(b.delay)
}

func (b *Backoff) maxDelay() time.Duration { return cmp.Or(b.Max, MaxRest) }

// Reset makes the next delay the first one again.
func (b *Backoff) Reset() { b.delay = 0 }

// Jitter returns a random delay between half of d and d, so that a fleet that lost Redis at one instant does
// not return at one instant.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
