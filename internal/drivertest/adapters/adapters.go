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

// Open has the constructors of all clients by name: the one list of them. Whatever could differ between them is
// tested with each.
var Open = For("")

// For returns the constructors of Open for keys with a prefix, which a Cluster needs.
func For(prefix string) map[string]func(url string) (driver.Client, error) {
	with := driver.ForPrefix(prefix)
	return map[string]func(url string) (driver.Client, error){
		"go-redis": func(url string) (driver.Client, error) { return goredisdriver.Open(url, with) },
		"rueidis":  func(url string) (driver.Client, error) { return rueidisdriver.Open(url, with) },
	}
}

// An Opener opens a client for a URL, which is closed when the test ends.
type Opener func(t testing.TB, url string) driver.Client

// All are the clients of Open as Openers.
var All = openers()

func openers() map[string]Opener {
	all := make(map[string]Opener, len(Open))
	for name, open := range Open {
		all[name] = func(t testing.TB, url string) driver.Client {
			t.Helper()
			client, err := open(url)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			return client
		}
	}
	return all
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
