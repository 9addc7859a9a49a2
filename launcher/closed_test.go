package launcher_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/launcher"
)

// A worker on a closed client would take jobs while its health says for ever that Redis is away.
func TestAClosedClientIsReported(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		build := func() *launcher.Launcher { return r.withCapsule(r.config()) }
		under := build()
		done := make(chan error, 1)
		go func() { done <- under.Run(t.Context()) }()
		r.eventually("the worker to be ready", func() bool { return under.Ready(t.Context()).OK })
		require.NoError(t, r.client.Close())
		const line = "client closed while its server runs"
		r.eventually("word of it", func() bool { return strings.Contains(r.log.String(), line) })
		under.Stop()
		require.NoError(t, receive(t, "the end", done))
		require.Equal(t, 1, strings.Count(r.log.String(), line), "not once for each capsule, nor for each look")

		require.ErrorContains(t, build().Run(t.Context()), "the client is closed")
		require.Equal(t, 1, strings.Count(r.log.String(), `"message":"working"`), "it never came to that")
	})
}
