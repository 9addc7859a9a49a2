package janitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/drivertest/adapters"
	"github.com/belayq/belay/lua"
)

// The time in which a heartbeat must come counts only while Redis is in sight: a restart, a gap or a clock
// that was set begins it anew.
func TestGitLabSeesThatItsSightBroke(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		server := drivertest.Redis(t)
		g := NewGitLab(GitLabConfig{Client: open(t, server.URL()), Keys: lua.NewKeys("p"), Gap: time.Hour})
		sight := func() bool {
			unbroken, err := g.Sight(t.Context())
			require.NoError(t, err)
			return unbroken
		}
		require.False(t, sight(), "nothing was seen before")
		require.True(t, sight())
		g.run = "another server"
		require.False(t, sight())
		require.True(t, sight())
		g.now = g.now.Add(-time.Minute)
		require.False(t, sight(), "the clock was set")
		require.True(t, sight())
		g.cfg.Gap = time.Nanosecond
		require.False(t, sight(), "too long ago")
	})
}
