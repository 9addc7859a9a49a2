package retry

import (
	"fmt"
	"time"
)

// A Formula says how long a failed job waits, by the version of Sidekiq that waits so. The zero Formula is
// Sidekiq8.
type Formula int

const (
	// Sidekiq8 is that of 8.0 and later: the jitter is drawn evenly over its whole range.
	Sidekiq8 Formula = iota
	// Sidekiq6 is that of 6.2.2 to 7.3: the jitter is one of ten steps, which grow with the count.
	Sidekiq6
	// Sidekiq4 is that of 4.2.3 to 6.2.1: one of thirty such steps, and none added to a delay of one's own.
	Sidekiq4
)

// formulaNames are the names by which configurations speak of formulas.
var formulaNames = [...]string{Sidekiq8: "8.x", Sidekiq6: "6.x", Sidekiq4: "4.2.3"}

// FormulaByName returns the formula called "8.x", "6.x" or "4.2.3"; any other name is an error that lists
// these.
func FormulaByName(name string) (Formula, error) {
	for f, known := range formulaNames {
		if name == known {
			return Formula(f), nil
		}
	}
	return 0, fmt.Errorf("there is no retry formula %q; known are %q", name, formulaNames)
}

// String returns the formula's name.
func (f Formula) String() string {
	if f < 0 || int(f) >= len(formulaNames) {
		return fmt.Sprintf("Formula(%d)", int(f))
	}
	return formulaNames[f]
}

// longestDelay bounds every delay. A count of a few hundred would overflow a time.Duration, and then a job
// that should wait for centuries would run at once.
const longestDelay = 100 * 365 * 24 * time.Hour

// Delay returns how long a job waits whose retry_count is now count (0 after the first failure): count⁴ + 15
// seconds and the jitter. rand(n) answers an integer from 0 to n-1; a nil rand means no jitter.
func (f Formula) Delay(count int, rand func(n int) int) time.Duration {
	c := bounded(count)
	// The cap comes before the conversion: the fourth power still fits an int64, its nanoseconds do not.
	seconds := min(c*c*c*c+15, int64(longestDelay/time.Second))
	return sum(time.Duration(seconds)*time.Second, f.jitter(count, rand))
}

// Custom returns how long it waits when its class has said base itself: base and the jitter, for jobs that fail
// together would otherwise come back together.
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

// bounded keeps a count where its fourth power and its jitter fit. What lies beyond waits for longestDelay
// anyhow; below 0 is what operators' retries make of a 0.
func bounded(count int) int64 { return int64(min(max(count, 0), 10_000)) }

// sum adds two delays without leaving 0 to longestDelay.
func sum(a, b time.Duration) time.Duration {
	a, b = min(max(a, 0), longestDelay), min(max(b, 0), longestDelay)
	return min(a+b, longestDelay)
}
