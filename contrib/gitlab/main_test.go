package gitlab

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/drivertest/adapters"
	"github.com/belayq/belay/lua"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// A world is a keyspace of its own.
type world struct {
	*testing.T
	client driver.Client
	prefix string
	keys   keys
	today  time.Time // the day of the counters, the same for a whole test even at midnight
}

// A ground opens a client of a server.
type ground func(t *testing.T) driver.Client

// realServers are the clients, each on a real Redis.
func realServers() map[string]ground {
	grounds := make(map[string]ground)
	for name, open := range adapters.All {
		grounds[name] = func(t *testing.T) driver.Client { return open(t, drivertest.Redis(t).URL()) }
	}
	return grounds
}

// allServers are realServers and the fake server.
func allServers() map[string]ground {
	grounds := realServers()
	grounds["miniredis"] = func(t *testing.T) driver.Client {
		return adapters.All["go-redis"](t, "redis://"+drivertest.Miniredis(t).Addr())
	}
	return grounds
}

// promises holds each on each of the grounds, in a world of its own.
func promises(t *testing.T, grounds map[string]ground, these map[string]func(w *world)) {
	t.Parallel()
	for name, keep := range these {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, open := range grounds {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
					keep(&world{T: t, client: open(t), prefix: prefix, keys: newKeys(prefix, lua.DeadLimits{}), today: time.Now()})
				})
			}
		})
	}
}

// do sends one plain command that must not fail.
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

// list reads a list from its head, where the newest lie.
func (w *world) list(key string) []string { w.Helper(); return w.texts("LRANGE", key, "0", "-1") }

// held is the working list of a queue's jobs that a Ruby process has taken.
func (w *world) held(queue, process string) list {
	w.Helper()
	l, ok := w.keys.list(w.prefix + ":working:queue:" + queue + ":" + process)
	require.True(w, ok)
	return l
}

// unchanged requires that act writes nothing at all.
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

// announced returns the jids of jobs whose end is announced from now on, one after the other. An announcement
// whose script had to be loaded is made again.
func (w *world) announced() <-chan string {
	w.Helper()
	ended := make(chan string, 9)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	listening, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		var last string
		_ = w.client.Listen(ctx, w.keys.Ended(), func() { close(listening) }, func(message string) {
			for _, jid := range lua.EndedOf(message) {
				if jid != last {
					ended <- jid
				}
				last = jid
			}
		})
	}()
	w.Cleanup(func() { cancel(); <-gone })
	<-listening
	return ended
}
