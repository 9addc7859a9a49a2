package service_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/launcher/service"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// patience bounds every wait: far above what anything here takes, so that only a hang fails by it.
const patience = 20 * time.Second

// A world is a keyspace.
type world struct {
	driver.Client
	keys lua.Keys
}

// build makes a worker in a keyspace of its own.
func build(t *testing.T, url string, cfg launcher.Config) (*launcher.Launcher, world) {
	t.Helper()
	client, err := goredisdriver.Open(url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	cfg.Client, cfg.Prefix = client, drivertest.Prefix(t)
	g, err := launcher.New(cfg)
	require.NoError(t, err)
	return g, world{Client: client, keys: lua.NewKeys(cfg.Prefix)}
}

func push(t *testing.T, w world, class string) {
	t.Helper()
	payload := job.Draft{Class: class, Queue: "default", ArgsJSON: "[]", CreatedAt: time.Now(), EnqueuedAt: time.Now()}.Encode()
	require.NoError(t, w.Do(t.Context(), driver.Command("LPUSH", w.keys.Queue("default"), payload))[0].Err)
}

// run runs a Process until stop is called, or the test ends.
func run(t *testing.T, p service.Process) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, await(t, "the end", done))
	})
	t.Cleanup(stop)
	return stop
}

func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		require.FailNow(t, "waited in vain for "+what)
		panic("unreachable")
	}
}

// notRun returns a worker whose Run is not called. It sends the message of each line of its log, and of each
// hook, to calls.
func notRun(t *testing.T, calls chan<- string) *launcher.Launcher {
	t.Helper()
	log := zerolog.New(io.Discard).Hook(zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, message string) { calls <- message }))
	worker, err := launcher.New(launcher.Config{Client: struct{ driver.Client }{}, Log: slog.New(logbook.Zerolog(log))})
	require.NoError(t, err)
	worker.OnQuiet(func() { calls <- "quiet" })
	worker.OnStop(func() { calls <- "stop" })
	return worker
}
