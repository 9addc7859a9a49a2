package launcher

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
)

// The presence and the waits give up their connections for any call; the duties do only for heartbeats and
// settles.
func TestDutiesGiveTheirConnectionsToNothingLessThanAHeartbeat(t *testing.T) {
	t.Parallel()
	client, err := goredisdriver.Open(drivertest.Start(t).URL())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	l, err := New(Config{Client: client})
	require.NoError(t, err)
	s := l.shards[0]
	require.NoError(t, s.open())
	t.Cleanup(l.close)

	s.tooManyClients(false)
	for _, lane := range s.lanes.onDemand() {
		require.NoError(t, lane.Do(t.Context(), driver.Command("PING"))[0].Err)
	}
	s.tooManyClients(true)
	for _, lane := range s.lanes.onDemand() {
		err := lane.Do(t.Context(), driver.Command("PING"))[0].Err
		require.ErrorContains(t, err, "more urgent calls", "the connections of duties stay")
	}
}
