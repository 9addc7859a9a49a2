package retry_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

			want := time.Minute + c.wantJitter
			if c.formula == retry.Sidekiq4 {
				want = time.Minute
			}
			require.Equal(t, want, c.formula.Custom(time.Minute, c.count, dice))
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
			own := formula.Custom(time.Duration(rapid.Int64().Draw(t, "own")), count, dice)
			require.GreaterOrEqual(t, own, time.Duration(0))
			require.LessOrEqual(t, own, 100*365*24*time.Hour)
		})
	})
}
