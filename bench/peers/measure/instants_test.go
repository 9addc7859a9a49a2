package measure

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestInstants(t *testing.T) {
	t.Run("one in each period, in order", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rate := rapid.Float64Range(0.1, 1000).Draw(t, "rate")
			count := rapid.IntRange(0, 1000).Draw(t, "count")
			at := instants(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), rate, count)
			require.Len(t, at, count)
			period := time.Duration(float64(time.Second) / rate)
			for i, d := range at {
				require.GreaterOrEqual(t, d, time.Duration(i)*period)
				require.Less(t, d, time.Duration(i+1)*period)
			}
		})
	})
	t.Run("phases differ", func(t *testing.T) {
		at := instants(rand.New(rand.NewPCG(1, 2)), 10, 10)
		phases := map[time.Duration]bool{}
		for i, d := range at {
			phases[d-time.Duration(i)*100*time.Millisecond] = true
		}
		require.Greater(t, len(phases), 5)
	})
}

func TestWaitingForAnInstant(t *testing.T) {
	for name, wait := range map[string]func(context.Context, time.Time) error{"asleep": SleepUntil, "awake": wakeUntil} {
		t.Run(name+": never returns early", func(t *testing.T) {
			for _, d := range []time.Duration{-time.Second, 0, 50 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 40 * time.Millisecond} {
				at := time.Now().Add(d)
				require.NoError(t, wait(t.Context(), at))
				require.False(t, time.Now().Before(at), "%v", d)
			}
		})
		t.Run(name+": ends with its context", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, wait(ctx, time.Now().Add(time.Hour)), context.Canceled)
		})
	}
}
