package measure

import (
	"context"
	"math/rand/v2"
	"time"
)

// instants are the moments of an open loop, as durations since its beginning: so many of them, rate a second,
// one in each period, at a random phase of it. They are drawn before the first of them, and nothing that
// happens later moves them. A loop that waited for each answer before its next request would ask less often
// while the system is slow, and so leave out of its figures most of what it is there to find (coordinated
// omission). The random phase keeps the loop from falling into step with something that polls.
func instants(random *rand.Rand, rate float64, count int) []time.Duration {
	period := time.Duration(float64(time.Second) / rate)
	at := make([]time.Duration, count)
	for i := range at {
		at[i] = time.Duration(i)*period + time.Duration(random.Int64N(int64(period)))
	}
	return at
}

// SleepUntil returns at that instant, to some ten microseconds where the system can do it; a context's end
// returns sooner. Go's own timers are not used for the last stretch: an idle program waits for them in whole
// milliseconds, which is several times the measured time.
func SleepUntil(ctx context.Context, at time.Time) error {
	if rest := time.Until(at) - preciseStretch; rest > 0 {
		if err := Pause(ctx, rest); err != nil {
			return err
		}
	}
	if rest := time.Until(at); rest > 0 {
		preciseSleep(rest)
	}
	return context.Cause(ctx)
}

// preciseStretch is what is slept precisely: by more than this no timer of Go's is late on a machine that is
// not overloaded.
const preciseStretch = 3 * time.Millisecond

// wakeUntil returns at that instant, to a microsecond: it is awake before. For what waits once in a while,
// and not for each of many parcels.
func wakeUntil(ctx context.Context, at time.Time) error {
	if err := SleepUntil(ctx, at.Add(-awakeBefore)); err != nil {
		return err
	}
	for time.Now().Before(at) {
	}
	return nil
}

// awakeBefore is more than a thread takes to wake: its timer slack of 50 µs, and as much again for the
// scheduler.
const awakeBefore = 200 * time.Microsecond
