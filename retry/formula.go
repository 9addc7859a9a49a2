package retry

import "time"

// A Formula computes the delay before a retry as a version of Sidekiq does. The zero Formula is Sidekiq8.
type Formula int

const (
	// Sidekiq8 is the formula of 8.0 and later: the jitter is drawn evenly from its whole range.
	Sidekiq8 Formula = iota
	// Sidekiq6 is the formula of 6.2.2 to 7.3: the jitter is one of ten steps, which grow with the count.
	Sidekiq6
	// Sidekiq4 is the formula of 4.2.3 to 6.2.1: the jitter is one of thirty such steps, and a custom delay
	// has none.
	Sidekiq4
)

// maxDelay bounds every delay. A count of a few hundred would overflow a time.Duration, and then a job
// that should wait for centuries would run at once.
const maxDelay = 100 * 365 * 24 * time.Hour

// Delay returns the delay of a job whose retry_count is now count (0 after the first failure): count⁴ + 15
// seconds, plus jitter. rand(n) returns an integer from 0 to n-1; a nil rand means no jitter.
func (f Formula) Delay(count int, rand func(n int) int) time.Duration {
	c := bounded(count)
	// The cap comes before the conversion: the fourth power still fits an int64, its nanoseconds do not.
	seconds := min(c*c*c*c+15, int64(maxDelay/time.Second))
	return sum(time.Duration(seconds)*time.Second, f.jitter(count, rand))
}

// Custom returns the delay of a job whose class has a backoff of its own: base plus jitter. Without jitter,
// jobs that fail together would be retried together.
func (f Formula) Custom(base time.Duration, count int, rand func(n int) int) time.Duration {
	if f == Sidekiq4 {
		return sum(base, 0)
	}
	return sum(base, f.jitter(count, rand))
}

func (f Formula) jitter(count int, rand func(n int) int) time.Duration {
	if rand == nil {
		return 0
	}
	c := int(bounded(count))
	var seconds int
	switch f {
	case Sidekiq4:
		seconds = rand(30) * (c + 1)
	case Sidekiq6:
		seconds = rand(10) * (c + 1)
	default:
		seconds = rand(10 * (c + 1))
	}
	return time.Duration(seconds) * time.Second
}

// bounded limits a count so that its fourth power and its jitter do not overflow. A higher count has
// maxDelay anyway; a count below 0 comes from an operator's retry.
func bounded(count int) int64 { return int64(min(max(count, 0), 10_000)) }

// sum adds two delays and limits the result to 0 to maxDelay.
func sum(a, b time.Duration) time.Duration {
	a, b = min(max(a, 0), maxDelay), min(max(b, 0), maxDelay)
	return min(a+b, maxDelay)
}
