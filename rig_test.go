package belay_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
)

// patience bounds every wait: far above what anything here takes, so that only a hang fails by it.
const patience = 20 * time.Second

// tick is between two looks at what is waited for.
const tick = 5 * time.Millisecond

// newServer makes a server whose config is right.
func newServer(t *testing.T, client *belay.Client, cfg belay.ServerConfig) *belay.Server {
	t.Helper()
	server, err := belay.NewServer(client, cfg)
	require.NoError(t, err)
	return server
}

// running is a server that runs until the test ends, if it does not end before.
func running(t *testing.T, server *belay.Server) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		done <- server.Run(context.WithoutCancel(t.Context()))
	}()
	t.Cleanup(func() {
		server.Stop()
		server.Stop()
		<-gone
	})
	return done
}

// idle is a handler for servers that need one and get no jobs.
func idle(context.Context, *belay.Job) error { return nil }

func awaitValue[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		require.FailNow(t, "waited in vain for "+what)
		panic("unreachable")
	}
}
