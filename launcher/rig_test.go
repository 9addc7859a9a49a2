package launcher_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

// patience bounds every wait: far above what anything here takes, so that only a hang fails by it.
const patience = 20 * time.Second

// openers are both ways to Redis.
var openers = adapters.Open

func eachClient(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, open, drivertest.Redis(t).URL(), drivertest.Prefix(t)))
		})
	}
}

// oneClient is a rig for tests in which the choice of a client plays no part.
func oneClient(t *testing.T) *rig {
	t.Helper()
	return newRig(t, openers["go-redis"], drivertest.Redis(t).URL(), drivertest.Prefix(t))
}

func newRig(t *testing.T, open func(url string) (driver.Client, error), url, prefix string) *rig {
	t.Helper()
	client, err := open(url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return &rig{t: t, client: client, prefix: prefix, keys: lua.NewKeys(prefix)}
}

// A rig is a keyspace, and workers in it.
type rig struct {
	t      *testing.T
	client driver.Client
	prefix string
	keys   lua.Keys
	log    drivertest.Buffer
}

// A worker is a Launcher that runs.
type worker struct {
	*launcher.Launcher
	done chan error
}

// config is a worker's, with beats fast enough for tests, and a lifetime that leaves its calls time on a busy
// machine.
func (r *rig) config() launcher.Config {
	log := slog.New(logbook.JSON(&r.log, slog.LevelInfo))
	return launcher.Config{
		Client: r.client, Prefix: r.prefix, Concurrency: 4, Beat: 200 * time.Millisecond, TTL: 8 * time.Second,
		ShutdownTimeout: 10 * time.Second, Log: log,
	}
}

func (r *rig) build(cfg launcher.Config) *launcher.Launcher {
	r.t.Helper()
	l, err := launcher.New(cfg)
	require.NoError(r.t, err)
	return l
}

// start runs l until the test ends.
func (r *rig) start(l *launcher.Launcher) *worker {
	r.t.Helper()
	w := &worker{Launcher: l, done: make(chan error, 1)}
	go func() { w.done <- l.Run(context.Background()) }()
	r.t.Cleanup(func() {
		select {
		case err := <-w.done:
			require.NoError(r.t, err)
			return
		default:
		}
		l.Stop()
		l.Stop()
		w.wait(r.t)
	})
	return w
}

// wait waits until Run has returned.
func (w *worker) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-w.done:
		require.NoError(t, err)
		w.done <- nil
	case <-time.After(patience):
		require.FailNow(t, "Run does not return")
	}
}

func (r *rig) do(words ...string) any {
	r.t.Helper()
	reply := r.client.Do(context.Background(), driver.Command(words...))[0]
	require.NoError(r.t, reply.Err)
	return reply.Value
}

// push stores a job as a foreign producer would, and answers its bytes.
func (r *rig) push(class, args string, extra ...job.Edit) string {
	r.t.Helper()
	payload := job.Draft{Class: class, Queue: "default", ArgsJSON: args, CreatedAt: time.Now(), EnqueuedAt: time.Now(), Extra: extra}.Encode()
	r.do("LPUSH", r.keys.Queue("default"), payload)
	return payload
}

func (r *rig) list(key string) []string {
	r.t.Helper()
	parts, _ := r.do("LRANGE", key, "0", "-1").([]any)
	return texts(parts)
}

func (r *rig) set(key string) []string {
	r.t.Helper()
	parts, _ := r.do("ZRANGE", key, "0", "-1").([]any)
	return texts(parts)
}

func texts(parts []any) []string {
	entries := make([]string, len(parts))
	for i, part := range parts {
		entries[i], _ = part.(string)
	}
	return entries
}

func (r *rig) counter(key string) string {
	r.t.Helper()
	text, _ := r.do("GET", key).(string)
	return text
}

// eventually waits until a condition holds.
func (r *rig) eventually(what string, condition func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			require.FailNow(r.t, "waited in vain for "+what, "log:\n%s", r.log.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// receive waits for a value on a channel.
func receive[T any](t *testing.T, what string, channel <-chan T) T {
	t.Helper()
	select {
	case value := <-channel:
		return value
	case <-time.After(patience):
		require.FailNow(t, "waited in vain for "+what)
		panic("unreachable")
	}
}

// declareDead does what a janitor does to a process that has lapsed: it brings these of its jobs back to
// their queue. The clock is not waited for. A beat may come in between, and then it is done again.
func (r *rig) declareDead(identity string, payloads ...string) {
	r.t.Helper()
	orphans := lua.Orphans{Queue: "default"}
	for _, payload := range payloads {
		orphans.Entries = append(orphans.Entries, lua.Orphan{Old: payload, New: payload})
	}
	r.eventually("the verdict", func() bool {
		r.do("ZADD", r.keys.Alive(), "XX", "1", identity)
		answer, err := r.keys.Recover(identity, []string{"default"}, []lua.Orphans{orphans}, time.Now()).Do(r.t.Context(), r.client)
		require.NoError(r.t, err)
		return answer.State == lua.StateDead && answer.Moved == len(payloads)
	})
}
