package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	b := Backoff{First: 100 * time.Millisecond, Max: 500 * time.Millisecond}
	for range 2 {
		for _, most := range []int{100, 200, 400, 500, 500} {
			most := time.Duration(most) * time.Millisecond
			got := b.Next()
			require.GreaterOrEqual(t, got, most/2)
			require.LessOrEqual(t, got, most)
		}
		b.Reset()
	}
	require.GreaterOrEqual(t, b.Last(), b.Max/2)
	require.GreaterOrEqual(t, b.Next(), b.Max/2, "after the longest delay comes a shorter one")

	var usual Backoff
	require.LessOrEqual(t, usual.Next(), FirstRest)
	for range 20 {
		require.LessOrEqual(t, usual.Next(), MaxRest)
	}
	require.GreaterOrEqual(t, usual.Next(), MaxRest/2)
	require.Less(t, 2*MaxRest, 5*time.Second, "workers reconnect within five seconds")

	drawn := make(map[time.Duration]bool)
	for range 20 {
		drawn[Jitter(time.Second)] = true
	}
	require.Greater(t, len(drawn), 10, "a fleet must not come back in step")
}
