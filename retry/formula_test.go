package retry_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

func TestFormula(t *testing.T) {
	t.Parallel()
	t.Run("draws_as_its_version_of_Sidekiq_does", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			formula    retry.Formula
			count      int
			wantRange  int // what rand is asked for
			wantJitter time.Duration
		}{
			{retry.Sidekiq8, 0, 10, 7 * time.Second}, {retry.Sidekiq8, 4, 50, 7 * time.Second},
			{retry.Sidekiq6, 0, 10, 7 * time.Second}, {retry.Sidekiq6, 4, 10, 35 * time.Second},
			{retry.Sidekiq4, 0, 30, 7 * time.Second}, {retry.Sidekiq4, 4, 30, 35 * time.Second},
		} {
			ranges := []int{}
			dice := func(n int) int { ranges = append(ranges, n); return 7 }
			base := time.Duration(math.Pow(float64(c.count), 4)+15) * time.Second
			require.Equal(t, base+c.wantJitter, c.formula.Delay(c.count, dice))
			require.Equal(t, []int{c.wantRange}, ranges)
		}
	})
	t.Run("takes_about_three_weeks_for_the_default_number_of_retries", func(t *testing.T) {
		t.Parallel()
		var sum time.Duration
		for count := range retry.DefaultMaxRetries {
			sum += retry.Sidekiq8.Delay(count, nil)
		}
		require.InDelta(t, 20.4, sum.Hours()/24, 0.1)
	})
	t.Run("is_never_negative_never_too_long_and_grows", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			formula := retry.Formula(rapid.IntRange(0, 2).Draw(t, "formula"))
			count := rapid.OneOf(rapid.Int(), rapid.IntRange(-2, 40)).Draw(t, "count")
			dice := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "dice") }
			d := formula.Delay(count, dice)
			require.GreaterOrEqual(t, d, 15*time.Second)
			require.LessOrEqual(t, d, 100*365*24*time.Hour)
			if count < math.MaxInt {
				require.GreaterOrEqual(t, formula.Delay(count+1, nil), formula.Delay(count, nil))
			}
		})
	})
}

func TestABackoff(t *testing.T) {
	t.Parallel()
	j := parse(t, payload(""))
	fixed := func(d time.Duration) retry.BackoffFunc {
		return func(int, error, *job.Job) time.Duration { return d }
	}
	decided := func(f retry.BackoffFunc) time.Duration {
		run := retry.EndedRun{Job: j, Queue: "q", Err: errBoom, Now: now, Rand: always(3), Backoff: f}
		return retry.Decide(retry.Policy{}, run).Outcome.After()
	}
	t.Run("is_waited_exactly_whatever_it_returns", func(t *testing.T) {
		t.Parallel()
		for _, d := range []time.Duration{1, time.Second, 2 * time.Second, 4 * time.Second} {
			require.Equal(t, d, decided(fixed(d)))
		}
		require.Equal(t, 100*365*24*time.Hour, decided(fixed(math.MaxInt64)))
	})
	t.Run("with_jitter_waits_longer_by_at_most_the_fraction", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			base := time.Duration(rapid.Int64().Draw(t, "base"))
			fraction := rapid.Float64Range(0, 1e300).Draw(t, "fraction")
			delay := fixed(base).WithJitter(fraction)(rapid.Int().Draw(t, "count"), errBoom, j)
			if base <= 0 {
				require.Equal(t, base, delay, "the formula's delay is used")
				return
			}
			require.GreaterOrEqual(t, delay, min(base, 100*365*24*time.Hour))
			require.LessOrEqual(t, delay, 100*365*24*time.Hour)
			require.LessOrEqual(t, float64(delay), float64(base)*(1+fraction)+1)
		})
		require.Equal(t, time.Minute, decided(fixed(time.Minute).WithJitter(0)))
	})
	t.Run("with_jitter_spreads_jobs_and_counts_evenly", func(t *testing.T) {
		t.Parallel()
		spread := fixed(time.Second).WithJitter(1)
		var tenths [10]int
		for n := range 10_000 {
			delay := spread(n%2, errBoom, parse(t, strings.Replace(payload(""), `"jid":"j"`, fmt.Sprintf(`"jid":"%d"`, n/2), 1)))
			tenths[(delay-time.Second)/(100*time.Millisecond)]++
		}
		for _, jobs := range tenths {
			require.InDelta(t, 1000, jobs, 150)
		}
	})
	t.Run("with_jitter_refuses_what_is_no_fraction", func(t *testing.T) {
		t.Parallel()
		for _, fraction := range []float64{-0.1, math.NaN(), math.Inf(1)} {
			require.Panics(t, func() { fixed(time.Second).WithJitter(fraction) })
		}
		require.Panics(t, func() { retry.BackoffFunc(nil).WithJitter(0.1) })
	})
}
