// Package adapters runs a test once for each Redis client that Belay supports. It is not part of package
// drivertest, because the adapters' own tests import that.
package adapters

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
)

// An Opener opens a client for a URL, which is closed when the test ends.
type Opener func(t testing.TB, url string) driver.Client

// All are the clients by name. Whatever could differ between them is tested with each.
var All = map[string]Opener{
	"go-redis": func(t testing.TB, url string) driver.Client {
		client, err := goredisdriver.Open(url)
		return opened(t, client, err)
	},
	"rueidis": func(t testing.TB, url string) driver.Client {
		client, err := rueidisdriver.Open(url)
		return opened(t, client, err)
	},
}

func opened(t testing.TB, client driver.Client, err error) driver.Client {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// Each runs a test once for each client, in parallel.
func Each(t *testing.T, test func(t *testing.T, open Opener)) {
	t.Helper()
	for name, open := range All {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open)
		})
	}
}
