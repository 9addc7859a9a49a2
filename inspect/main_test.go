package inspect

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
	"github.com/belayq/belay/lua"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// drivers are all that a picture must come out the same with.
var drivers = map[string]func(url string) (driver.Client, error){
	"goredis": func(url string) (driver.Client, error) { return goredisdriver.Open(url) },
	"rueidis": func(url string) (driver.Client, error) { return rueidisdriver.Open(url) },
}

// A world is a keyspace of its own on a real Redis.
type world struct {
	*testing.T
	server    *drivertest.Server
	driver    driver.Client
	keys      lua.Keys
	inspector *Inspector
}

// promises holds each with both drivers, in a world of its own.
func promises(t *testing.T, these map[string]func(w *world)) {
	t.Parallel()
	for name, keep := range these {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for driverName, open := range drivers {
				t.Run(driverName, func(t *testing.T) {
					t.Parallel()
					server, prefix := drivertest.Redis(t), strings.TrimSuffix(drivertest.Prefix(t), ":")
					d, err := open(server.URL())
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, d.Close()) })
					keep(&world{T: t, server: server, driver: d, keys: lua.NewKeys(prefix), inspector: New(d, prefix)})
				})
			}
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
