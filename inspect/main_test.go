package inspect

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/lua"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// A world is a keyspace of its own on a real Redis.
type world struct {
	*testing.T
	server    *drivertest.Server
	driver    driver.Client
	prefix    string
	keys      lua.Keys
	inspector *Inspector
}

// inspectorOf returns an Inspector of the world over another driver.
func (w *world) inspectorOf(d driver.Client) *Inspector { return inspectorOf(w.T, d, w.prefix) }

// inspectorOf returns an Inspector of the keyspace under prefix.
func inspectorOf(t *testing.T, d driver.Client, prefix string) *Inspector {
	t.Helper()
	c, err := client.New(d, client.Config{Prefix: prefix})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return New(c)
}

// promises holds each with both drivers, in a world of its own.
func promises(t *testing.T, these map[string]func(w *world)) {
	t.Parallel()
	for name, keep := range these {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapters.Each(t, func(t *testing.T, open adapters.Opener) {
				server, prefix := drivertest.Redis(t), strings.TrimSuffix(drivertest.Prefix(t), ":")
				d := open(t, server.URL())
				keep(&world{T: t, server: server, driver: d, prefix: prefix, keys: lua.NewKeys(prefix), inspector: inspectorOf(t, d, prefix)})
			})
		})
	}
}

func (w *world) do(words ...string) any {
	w.Helper()
	value, err := w.server.Do(context.Background(), words...)
	require.NoError(w, err)
	return value
}

func (w *world) status() Status {
	w.Helper()
	status, err := w.inspector.Status(w.Context())
	require.NoError(w, err)
	return status
}
