package driver_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/belaytest"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// A promise is one sentence of the contract, as a test.
type promise struct {
	name string
	keep func(*testing.T, *world)
	// fake is why miniredis cannot show it; empty where it can.
	fake string
	// memory reports that the client of package belaytest keeps it too, which has no connection. That client
	// can release a wait, whatever fake says.
	memory bool
	// anyKind means that it does not depend on the way to the server.
	anyKind bool
	// rests means that it waits ten seconds for something that comes late or must not come, and does nothing else.
	rests bool
}

// TestConformance holds what the interfaces of package driver promise, for each adapter, on a real Redis
// and on miniredis; and for the client of package belaytest, which programs are tested with.
func TestConformance(t *testing.T) {
	t.Parallel()
	promises := slices.Concat(valuePromises, certaintyPromises, scriptPromises, waiterPromises, listenPromises, connectionPromises, urlPromises)
	all := kinds(t)
	var running sync.WaitGroup
	defer running.Wait()
	room := make(chan struct{}, 6) // most of them wait
	run := func(name string, p promise, test func(t *testing.T)) {
		running.Go(func() {
			if !p.rests { // all of those at once take as long as one
				room <- struct{}{}
				defer func() { <-room }()
			}
			t.Run(name+"/"+p.name, test)
		})
	}
	for name, maker := range adapters.For("{conformance}") {
		for server, kind := range all {
			for _, p := range promises {
				if kind.found && p.anyKind {
					continue
				}
				run(name+"/"+server, p, func(t *testing.T) {
					if kind.fake && p.fake != "" {
						t.Skip("miniredis: " + p.fake)
					}
					p.keep(t, &world{maker: maker, kind: kind})
				})
			}
		}
	}
	for _, p := range promises {
		if p.memory {
			run("belaytest/memory", p, func(t *testing.T) {
				client := belaytest.New(t).Client().Driver()
				p.keep(t, &world{maker: func(string) (driver.Client, error) { return client, nil }, memory: true})
			})
		}
	}
}

// Reasons why miniredis cannot show a promise.
const (
	noReplica    = "it is never a replica of another server"
	noSignals    = "it is no process that could be stopped or killed"
	noUnblock    = "it has no CLIENT UNBLOCK"
	noClientKill = "it has no CLIENT KILL"
	noACL        = "it has no ACL"
	noFlags      = "it does not know script flags"
	noErrorCodes = "it loses the code of an error that a script returns inside an array"
)

// A world is where one promise is tested: the adapter, and which kind of server it meets.
type world struct {
	maker func(url string) (driver.Client, error)
	kind  kind
	// memory: the client has its server in itself.
	memory bool
}

// addr returns the address of a server that other tests use, too.
func (w *world) addr(t *testing.T) string {
	t.Helper()
	if w.memory {
		return "memory"
	}
	return w.kind.addr(t)
}

// prefix returns a prefix of key names that no other test uses, with a hash tag.
func prefix(t *testing.T) string {
	t.Helper()
	return "{" + drivertest.Prefix(t) + "}"
}

// proxy returns a proxy before such a server.
func (w *world) proxy(t *testing.T) *faultproxy.Proxy {
	t.Helper()
	return faultproxy.New(t, w.addr(t))
}

// open returns a client of the adapter for the server at host:port, or at user:password@host:port.
func (w *world) open(t *testing.T, at string) driver.Client {
	t.Helper()
	if w.memory {
		return w.openURL(t, at)
	}
	return w.openURL(t, w.kind.url(t, at))
}

func (w *world) openURL(t *testing.T, url string) driver.Client {
	t.Helper()
	client, err := w.maker(url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func (w *world) lane(t *testing.T, client driver.Client, conns int) driver.Client {
	t.Helper()
	lane, err := client.Lane(conns)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lane.Close()) })
	return lane
}

func (w *world) waiter(t *testing.T, client driver.Client) driver.Waiter {
	t.Helper()
	waiter, err := client.Waiter()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, waiter.Close()) })
	return waiter
}

// within returns a context that ends with the test, or after d.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// patience bounds every wait: far above what anything here takes, so that only a hang fails by it.
const patience = 20 * time.Second

// get returns the value of a call, which must not fail.
func get(t *testing.T, client driver.Client, words ...string) any {
	t.Helper()
	reply := client.Do(within(t, patience), driver.Command(words...))[0]
	require.NoError(t, reply.Err)
	return reply.Value
}

// requireUncertain checks that the call may have been executed or not, and that waiting may cure it.
func requireUncertain(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.False(t, driver.Certain(err), "%T %v", err, err)
	require.True(t, driver.Outage(err))
}

// requireNotSent checks that the call was not sent.
func requireNotSent(t *testing.T, err error) {
	t.Helper()
	var unsent *driver.NotSentError
	require.ErrorAs(t, err, &unsent)
	require.True(t, driver.Certain(err))
}

// counting returns a script that counts its runs in a key, and that no other test uses.
func counting(prefix, name string) *driver.Script {
	return driver.NewScript(name, "#!lua\n-- "+prefix+name+"\nreturn redis.call('INCR', KEYS[1])")
}

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// BenchmarkDo times the pipeline that a busy worker sends: two scripts, the first of which gets a hundred
// payloads and returns a word for each. Compare its figures only on one machine.
func BenchmarkDo(b *testing.B) {
	settle := driver.NewScript("settle", "#!lua\nlocal words = {}\nfor i = 1, #ARGV do words[i] = 'ok' end\nreturn words")
	take := driver.NewScript("take", "#!lua\nreturn {'empty', 0}")
	calls := []driver.Call{
		{Script: settle, Keys: []string{"{b}1", "{b}2", "{b}3"}, Args: slices.Repeat([]string{strings.Repeat("x", 150)}, 100)},
		{Script: take, Keys: []string{"{b}1"}, Args: []string{"100"}},
	}
	for name, maker := range adapters.Open {
		b.Run(name, func(b *testing.B) {
			client, err := maker(drivertest.Redis(b).URL())
			require.NoError(b, err)
			defer func() { _ = client.Close() }()
			require.NoError(b, client.Do(b.Context(), calls...)[0].Err)
			b.ReportAllocs()
			for b.Loop() {
				if replies := client.Do(b.Context(), calls...); replies[0].Err != nil {
					b.Fatal(replies[0].Err)
				}
			}
		})
	}
}
