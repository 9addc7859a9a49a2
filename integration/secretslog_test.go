package integration

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
)

// Whatever is wrong between a program's server and Redis: the log at its most talkative, by either logger and
// either client, does not show the password.
func TestThePasswordIsInNoLineOfALibrarysLog(t *testing.T) {
	t.Parallel()
	logs := map[string]func(w io.Writer) *slog.Logger{
		"zerolog": func(w io.Writer) *slog.Logger { return belay.Zerolog(zerolog.New(w)) },
		"slog": func(w io.Writer) *slog.Logger {
			return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
		},
	}
	for client, open := range openers {
		for name, to := range logs {
			t.Run(client+"/"+name, func(t *testing.T) {
				t.Parallel()
				server := drivertest.Start(t, "--requirepass", canary)
				good := "redis://:" + canary + "@" + server.Addr() + "/0"
				urls := map[string]string{ // and what is waited for
					good: "run failed",
					"redis://:" + canary + "@" + drivertest.FreeAddr(t) + "/0": "redis is away",
				}
				for url, until := range urls {
					requireSilentServer(t, url, until, open, to)
				}
				for _, url := range []string{"redis://:" + canary + "Wrong@" + server.Addr() + "/0", "redis://" + canary + ":" + canary + "@" + server.Addr() + "/0"} {
					requireSilentRefusal(t, url, open, to)
				}
				var out drivertest.Buffer
				requireSilentOutage(t, server, good, open, to(&out), &out)
			})
		}
	}
}

// secretServer is a server whose jobs fail, that runs until end is called, which answers what Run has.
func secretServer(t *testing.T, d driver.Client, to *slog.Logger) (end func() error) {
	t.Helper()
	client, err := belay.NewClient(d, nil)
	require.NoError(t, err)
	server, err := belay.NewServer(client, belay.ServerConfig{
		Logger: to, LogArgs: true, Heartbeat: 200 * time.Millisecond, TTL: time.Second, ShutdownTimeout: -1,
	})
	require.NoError(t, err)
	fails := belay.Define[int]("Fails")
	fails.Handle(server, func(ctx context.Context, _ int) error {
		belay.Log(ctx).Info("of the handler's own")
		return errors.New("as it does")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = fails.Enqueue(ctx, client, 1)
	if err != nil {
		requireNoCanary(t, err.Error())
	}
	done := make(chan error, 1)
	go func() { done <- server.Run(context.WithoutCancel(t.Context())) }()
	return func() error {
		server.Dump()
		server.Stop()
		return <-done
	}
}

func requireSilentServer(t *testing.T, url, until string, open func(string) (driver.Client, error), to func(io.Writer) *slog.Logger) {
	t.Helper()
	d, err := open(url)
	require.NoError(t, err)
	defer func() { _ = d.Close() }()
	var out drivertest.Buffer
	end := secretServer(t, d, to(&out))
	eventually(t, until, func() bool { return strings.Contains(out.String(), until) })
	require.NoError(t, end())
	requireNoCanary(t, out.String())
}

// requireSilentRefusal holds that a server with a wrong password ends, and does not repeat it.
func requireSilentRefusal(t *testing.T, url string, open func(string) (driver.Client, error), to func(io.Writer) *slog.Logger) {
	t.Helper()
	d, err := open(url)
	require.NoError(t, err)
	defer func() { _ = d.Close() }()
	client, err := belay.NewClient(d, nil)
	require.NoError(t, err)
	var out drivertest.Buffer
	server, err := belay.NewServer(client, belay.ServerConfig{Logger: to(&out)})
	require.NoError(t, err)
	server.HandleRaw("Any", func(context.Context, *belay.Job) error { return nil })
	err = server.Run(t.Context())
	require.ErrorContains(t, err, "WRONGPASS")
	requireNoCanary(t, err.Error()+out.String())
}

// requireSilentOutage has Redis die and come back.
func requireSilentOutage(t *testing.T, server *drivertest.Server, url string, open func(string) (driver.Client, error), to *slog.Logger, out *drivertest.Buffer) {
	t.Helper()
	d, err := open(url)
	require.NoError(t, err)
	defer func() { _ = d.Close() }()
	end := secretServer(t, d, to)
	eventually(t, "a run", func() bool { return strings.Contains(out.String(), "run failed") })
	server.Kill()
	eventually(t, "the outage", func() bool { return strings.Contains(out.String(), "redis is away") })
	server.Restart(t)
	eventually(t, "its end", func() bool { return strings.Contains(out.String(), "redis is back") })
	require.NoError(t, end())
	requireNoCanary(t, out.String())
}
