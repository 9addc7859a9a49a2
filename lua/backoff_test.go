package lua

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	var b Backoff
	for range 2 {
		for _, most := range []int{100, 200, 400, 500, 500} {
			most := time.Duration(most) * time.Millisecond
			got := b.Next(100*time.Millisecond, 500*time.Millisecond)
			require.GreaterOrEqual(t, got, most/2)
			require.LessOrEqual(t, got, most)
		}
		b.Reset()
	}
	drawn := make(map[time.Duration]bool)
	for range 20 {
		drawn[Jitter(time.Second)] = true
	}
	require.Greater(t, len(drawn), 10, "a fleet must not come back in step")
}
