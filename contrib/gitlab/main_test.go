package gitlab

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/lua"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// A world is a test's own keyspace.
type world struct {
	*testing.T
	client driver.Client
	prefix string
	keys   keys
	today  time.Time // the day of the counters, the same for a whole test even at midnight
}

// An opener opens a client of a server.
type opener func(t *testing.T) driver.Client

// realServers returns both Redis clients, connected to a real Redis.
func realServers() map[string]opener {
	openers := make(map[string]opener)
	for name, open := range adapters.All {
		openers[name] = func(t *testing.T) driver.Client { return open(t, drivertest.Redis(t).URL()) }
	}
	return openers
}

// allServers returns realServers and one connected to miniredis.
func allServers() map[string]opener {
	openers := realServers()
	openers["miniredis"] = func(t *testing.T) driver.Client {
		return adapters.All["go-redis"](t, "redis://"+drivertest.Miniredis(t).Addr())
	}
	return openers
}

// promises runs each test with each of the clients, in a world of its own.
func promises(t *testing.T, openers map[string]opener, tests map[string]func(w *world)) {
	t.Parallel()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, open := range openers {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
					test(&world{T: t, client: open(t), prefix: prefix, keys: newKeys(prefix, lua.DeadLimits{}), today: time.Now()})
				})
			}
		})
	}
}

// do sends one command, which must not fail.
func (w *world) do(words ...string) any {
	w.Helper()
	reply := w.client.Do(w.Context(), driver.Command(words...))[0]
	require.NoError(w, reply.Err, "%v", words)
	return reply.Value
}

func (w *world) texts(words ...string) []string {
	w.Helper()
	var texts []string
	for _, part := range w.do(words...).([]any) {
		texts = append(texts, part.(string))
	}
	return texts
}

// list reads a list from its head, where its newest element is.
func (w *world) list(key string) []string { w.Helper(); return w.texts("LRANGE", key, "0", "-1") }

// held returns the working list of the jobs that a Ruby process has taken from a queue.
func (w *world) held(queue, process string) list {
	w.Helper()
	l, ok := w.keys.list(w.prefix + ":working:queue:" + queue + ":" + process)
	require.True(w, ok)
	return l
}

// unchanged requires that act writes nothing.
func (w *world) unchanged(act func()) {
	w.Helper()
	before := w.everything()
	act()
	require.Equal(w, before, w.everything(), "something was written")
}

// everything reads the whole keyspace.
func (w *world) everything() map[string]string {
	w.Helper()
	found := make(map[string]string)
	for _, key := range w.texts("KEYS", w.prefix+":*") {
		words := map[any][]string{
			"list": {"LRANGE", key, "0", "-1"}, "zset": {"ZRANGE", key, "0", "-1", "WITHSCORES"}, "set": {"SMEMBERS", key},
			"hash": {"HGETALL", key}, "string": {"GET", key},
		}[w.do("TYPE", key)]
		found[key] = fmt.Sprint(w.do(words...))
	}
	return found
}

// messages returns what is published on a channel from now on.
func (w *world) messages(channel string) <-chan string {
	w.Helper()
	messages, subscribed, ended := make(chan string, 9), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.client.Listen(w.Context(), []string{channel}, driver.ListenProbe, func() { close(subscribed) }, func(text string) { messages <- text })
	}()
	w.Cleanup(func() { <-ended })
	<-subscribed
	return messages
}
