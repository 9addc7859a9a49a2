package client

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/lua"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// A world is a keyspace of its own on a real Redis: the client under test reaches it through proxy, the test
// itself directly.
type world struct {
	*testing.T
	server *drivertest.Server
	proxy  *faultproxy.Proxy
	client *Client
	keys   lua.Keys
}

func newWorld(t *testing.T, server *drivertest.Server, open adapters.Opener, cfg Config) *world {
	t.Helper()
	proxy := faultproxy.New(t, server.Addr())
	cfg.Prefix = strings.TrimSuffix(drivertest.Prefix(t), ":")
	client, err := New(open(t, proxy.URL()), cfg)
	require.NoError(t, err)
	client.linger = time.Hour // slices are cut by size alone, however slow the machine
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return &world{T: t, server: server, proxy: proxy, client: client, keys: lua.NewKeys(cfg.Prefix)}
}

// promises holds each with both drivers, in a world of its own on the shared server.
func promises(t *testing.T, cfg Config, these map[string]func(w *world)) {
	t.Parallel()
	for name, keep := range these {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapters.Each(t, func(t *testing.T, open adapters.Opener) {
				t.Helper()
				keep(newWorld(t, drivertest.Redis(t), open, cfg))
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

// queue is what lies in a queue, oldest first: in the order in which it will be taken.
func (w *world) queue(name string) []string {
	w.Helper()
	items := w.do("LRANGE", w.keys.Queue(name), "0", "-1").([]any)
	payloads := make([]string, len(items))
	for i, item := range items {
		payloads[len(items)-1-i] = item.(string)
	}
	return payloads
}
