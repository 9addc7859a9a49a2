package launcher

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A heartbeat of a session without its subscription must ask for it, or the session would not subscribe.
func TestMostHeartbeatsOfASessionWithItsSubscriptionAreBrief(t *testing.T) {
	t.Parallel()
	var p presence
	for range 2 * fullBeat {
		require.False(t, p.brief())
	}
	p.since = 1
	var full int
	for range 3 * fullBeat {
		if !p.brief() {
			full++
		}
	}
	require.Equal(t, 3, full)
	require.True(t, p.brief())
	p.doubt()
	require.False(t, p.brief())
	require.True(t, p.brief())
}
