package gitlab

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
)

// A process has time for a heartbeat only while Redis can be reached: after a restart, a gap or a clock step,
// sight returns false once.
func TestGitLabSeesThatItsSightBroke(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		server := drivertest.Redis(t)
		r := newRecoverer(Config{Client: open(t, server.URL()), Prefix: "p"})
		r.gap = time.Hour
		sight := func() bool {
			unbroken, err := r.sight(t.Context())
			require.NoError(t, err)
			return unbroken
		}
		require.False(t, sight(), "nothing was seen before")
		require.True(t, sight())
		r.run = "another server"
		require.False(t, sight())
		require.True(t, sight())
		r.now = r.now.Add(-time.Minute)
		require.False(t, sight(), "the clock was set")
		require.True(t, sight())
		r.gap = time.Nanosecond
		require.False(t, sight(), "too long ago")
	})
}
