package retry

import (
	"hash/fnv"
	"math"
	"strconv"
	"time"

	"github.com/belayq/belay/job"
)

// A Formula computes the delay before a retry as a version of Sidekiq does. The zero Formula is Sidekiq8.
type Formula int

const (
	// Sidekiq8 is the formula of 8.0 and later: the jitter is drawn evenly from its whole range.
	Sidekiq8 Formula = iota
	// Sidekiq6 is the formula of 6.2.2 to 7.3: the jitter is one of ten steps, which grow with the count.
	Sidekiq6
	// Sidekiq4 is the formula of 4.2.3 to 6.2.1: the jitter is one of thirty such steps.
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

// A BackoffFunc returns a class' own delay after a failure, which is waited exactly: the formula's jitter is
// not added, though Ruby's Sidekiq adds it to sidekiq_retry_in since 6.2.2. See WithJitter. count is 0 after
// the first failure, and j is the job as it was before this run. If the function returns 0 or less, or panics,
// the formula's delay is used. A delay of more than a hundred years is cut to that.
type BackoffFunc func(count int, err error, j *job.Job) time.Duration

// WithJitter returns f with longer delays: up to the given fraction of each is added, so that jobs that fail
// together are not all retried together. With 0.2, a delay of 10 s becomes 10 to 12 s. How much is added
// depends on the job's jid and the count, and looks random. It panics if f is nil, and if fraction is below 0
// or not finite.
func (f BackoffFunc) WithJitter(fraction float64) BackoffFunc {
	if f == nil {
		panic("belay: WithJitter: the BackoffFunc is nil")
	}
	if !(fraction >= 0) || math.IsInf(fraction, 1) {
		panic("belay: WithJitter: the fraction " + strconv.FormatFloat(fraction, 'g', -1, 64) + " must be 0 or more")
	}
	return func(count int, err error, j *job.Job) time.Duration {
		delay := f(count, err, j)
		if delay <= 0 {
			return delay // the formula's delay is used, with its own jitter
		}
		more := fraction * share(j.JID(), count) * float64(min(delay, maxDelay))
		return sum(delay, time.Duration(min(more, float64(maxDelay))))
	}
}

// share returns a number from 0 to less than 1 that depends on a job and a count. This package draws no random
// numbers: a decision about the same run is the same each time.
func share(jid string, count int) float64 {
	hash := fnv.New64a()
	_, _ = hash.Write(strconv.AppendInt([]byte(jid), int64(count), 10))
	mixed := hash.Sum64()
	// FNV's last bytes hardly reach the high bits, so these are mixed in, as SplitMix64 does.
	mixed = (mixed ^ mixed>>30) * 0xbf58476d1ce4e5b9
	mixed = (mixed ^ mixed>>27) * 0x94d049bb133111eb
	mixed ^= mixed >> 31
	return float64(mixed>>11) / (1 << 53)
}

// sum adds two delays and limits the result to 0 to maxDelay.
func sum(a, b time.Duration) time.Duration {
	a, b = min(max(a, 0), maxDelay), min(max(b, 0), maxDelay)
	return min(a+b, maxDelay)
}
