package belay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/rueidisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
)

// Main takes what a Client takes, a driver of the program's own, and registrations that are made of its client.
func TestMainTakesClientAndServerConfigsADriverAndRegistrations(t *testing.T) {
	t.Parallel()
	prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
	opened, first := 0, Define[int]("First")
	own := func() (driver.Client, error) {
		opened++
		d, err := rueidisdriver.Open(drivertest.Redis(t).URL())
		if err == nil {
			t.Cleanup(func() { require.NoError(t, d.Close(), "it was left open") })
		}
		return d, err
	}
	pushed := 0
	second := Define[int]("Second")
	status, errs := mainRun([]string{"-log-format", "json"}, map[string]string{"BELAY_REDIS_URL": "redis://127.0.0.1:1", "REDIS_URL": "no URL"},
		func(ctx context.Context, server *Server) error {
			server.Client().Use("count", func(context.Context, *RawJob) error { pushed++; return nil })
			// As a constructor makes them, of the client and of what else it needs.
			server.Register(
				first.Handler(func(ctx context.Context, n int) error {
					_, err := second.Enqueue(ctx, server.Client(), n)
					return err
				}),
				second.Handler(func(context.Context, int) error { server.Stop(); return nil }))
			_, err := first.Enqueue(ctx, server.Client(), 1)
			return err
		}, MainConfig{Driver: own, Client: ClientConfig{Prefix: prefix, Unit: job.Millis}, Server: ServerConfig{Concurrency: 1}})
	require.Zero(t, status, errs)
	require.Equal(t, []int{1, 2}, []int{opened, pushed})
	require.Equal(t, int64(1), drivertestExists(t, prefix+":stat:processed"), "the program's prefix holds where no flag is given")

	_, errs = mainRun([]string{"-redis", "redis://127.0.0.1:1"}, nil, nil, MainConfig{Driver: own})
	require.Contains(t, errs, "--redis has no effect")
	status, errs = mainRun(nil, nil, nil, MainConfig{Driver: func() (driver.Client, error) { return nil, errors.New("no sentinel answers") }})
	require.Equal(t, exitUsage, status)
	require.Contains(t, errs, "no sentinel answers")
	_, errs = mainRun(nil, nil, nil, MainConfig{Client: ClientConfig{PayloadLimit: -1}})
	require.Contains(t, errs, "payload limit -1")
}

// What setUp starts serves handlers until the last job has ended, and the callbacks of OnExit may wait for it.
func TestTheContextOfSetUpEndsBeforeTheCallbacksOfOnExit(t *testing.T) {
	t.Parallel()
	var inRun, atExit error
	slow := Define[int]("Slow")
	status, errs := mainRun([]string{"-prefix", drivertest.Prefix(t)}, map[string]string{"REDIS_URL": drivertest.Redis(t).URL()},
		func(ctx context.Context, server *Server) error {
			ended := make(chan struct{})
			go func() {
				<-ctx.Done()
				close(ended)
			}()
			server.OnExit(func() {
				select {
				case <-ended:
				case <-time.After(5 * time.Second):
				}
				atExit = ctx.Err()
			})
			slow.Handle(server, func(run context.Context, _ int) error {
				server.Stop()
				<-Stopping(run)
				inRun = ctx.Err()
				return nil
			})
			_, err := slow.Enqueue(ctx, server.Client(), 1)
			return err
		}, MainConfig{})
	require.Zero(t, status, errs)
	require.NoError(t, inRun)
	require.ErrorIs(t, atExit, context.Canceled)
}

func TestMainServesTheProgramsMetrics(t *testing.T) {
	t.Parallel()
	var out drivertest.Buffer
	got := map[string]string{}
	status, errs := mainRun([]string{"-metrics", "127.0.0.1:0", "-prefix", drivertest.Prefix(t)},
		map[string]string{"REDIS_URL": drivertest.Redis(t).URL()},
		func(_ context.Context, server *Server) error {
			server.HandleRaw("A", func(context.Context, *Job) error { return nil })
			server.OnStart(func(ctx context.Context) error {
				defer server.Stop()
				line := regexp.MustCompile(`"address":"([^"]+)".*"message":"serving metrics"`)
				for ctx.Err() == nil && !line.MatchString(out.String()) {
					time.Sleep(time.Millisecond) // between two looks: the log is buffered
				}
				address := line.FindStringSubmatch(out.String())
				if address == nil {
					return errors.New("no address in the log: " + out.String())
				}
				for _, path := range []string{"/metrics", "/healthz"} {
					response, err := http.Get("http://" + address[1] + path)
					if err != nil {
						return err
					}
					text, err := io.ReadAll(response.Body)
					got[path] = string(text)
					if err := errors.Join(err, response.Body.Close()); err != nil {
						return err
					}
				}
				return nil
			})
			return nil
		}, MainConfig{
			Server: ServerConfig{Concurrency: 7, Logger: Zerolog(zerolog.New(&out))},
			Process: ProcessConfig{Metrics: func(_ *Client, server *Server) (http.Handler, error) {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					_, _ = fmt.Fprint(w, "processors ", server.Counters().Concurrency)
				}), nil
			}},
		})
	require.Zero(t, status, errs+out.String())
	require.Equal(t, "processors 7", got["/metrics"])
	require.Contains(t, got["/healthz"], `"ok":`)

	status, errs = mainRun([]string{"-metrics", "127.0.0.1:0"}, nil, nil, MainConfig{})
	require.Equal(t, exitUsage, status)
	require.Contains(t, errs, "--metrics has no effect: the program does not set ProcessConfig.Metrics")
}

func drivertestExists(t *testing.T, key string) any {
	t.Helper()
	value, err := drivertest.Redis(t).Do(t.Context(), "EXISTS", key)
	require.NoError(t, err)
	return value
}

// A program with a log of its own still has --log-level, and gets an error that --log-format cannot work.
func TestMainsLogLevelHoldsForTheProgramsOwnLog(t *testing.T) {
	t.Parallel()
	for name, log := range map[string]func(out *drivertest.Buffer) *slog.Logger{
		"zerolog": func(out *drivertest.Buffer) *slog.Logger { return Zerolog(zerolog.New(out).Level(zerolog.InfoLevel)) },
		"slog": func(out *drivertest.Buffer) *slog.Logger {
			return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		},
		"logbook": func(out *drivertest.Buffer) *slog.Logger {
			return logbook.New(logbook.JSON(out, slog.LevelInfo)).Logger()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(args ...string) string {
				var out drivertest.Buffer
				status, errs := mainRun(append(args, "-prefix", drivertest.Prefix(t)), map[string]string{"REDIS_URL": drivertest.Redis(t).URL()},
					func(ctx context.Context, server *Server) error {
						Log(ctx).Debug("of the set-up")
						server.OnStart(func(ctx context.Context) error { Log(ctx).Debug("of the start"); return nil })
						server.HandleRaw("A", func(ctx context.Context, _ *Job) error {
							Log(ctx).Debug("of the handler")
							server.Stop()
							return nil
						})
						_, err := server.Client().Push(ctx, RawJob{Class: "A"})
						return err
					}, MainConfig{Server: ServerConfig{Logger: log(&out)}})
				require.Zero(t, status, errs)
				return out.String()
			}
			require.Contains(t, run(), "stopped")
			require.NotContains(t, run("-log-level", "error"), "stopped")
			loud := run("-log-level", "debug")
			for _, line := range []string{"of the set-up", "of the start", "of the handler"} {
				require.Contains(t, loud, line)
			}
			require.Contains(t, loud, `"attempt":1`)
			_, errs := mainRun([]string{"-log-format", "json"}, nil, nil, MainConfig{Server: ServerConfig{Logger: log(&drivertest.Buffer{})}})
			require.Contains(t, errs, "--log-format has no effect")
		})
	}
}

// A mistake on the command line is reported in a line or two, not in a page of flags.
func TestMainsMistakesAreShort(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-nosuch"}, "-nosuch"},
		{[]string{"-c", "many"}, "whole number"},
		{[]string{"-q", "a", "b"}, `from "b" on`},
		{[]string{"-q", "a b"}, "-q a -q b"},
		{[]string{"work"}, "unexpected arguments after the flags"},
		{[]string{"redis://:SECRET@h"}, "a URL"},
	} {
		status, errs := mainRun(c.args, nil, nil, MainConfig{})
		require.Equal(t, exitUsage, status, c.args)
		require.Contains(t, errs, c.says)
		require.Contains(t, errs, "see: program -h")
		require.NotContains(t, errs, "SECRET")
		require.LessOrEqual(t, strings.Count(errs, "\n"), 2, errs)
	}
	status, errs := mainRun([]string{"-h"}, nil, nil, MainConfig{})
	require.Zero(t, status)
	require.Contains(t, errs, "Usage of program:")
	require.Contains(t, errs, "-shutdown-timeout")
}

// Main checks Redis at its start, as belay work does: what is wrong there is in the log before jobs are lost
// by it.
func TestMainChecksRedisAtItsStart(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	_, err := redis.Do(t.Context(), "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	require.NoError(t, err)
	var out drivertest.Buffer
	status, _ := mainRun(nil, map[string]string{"REDIS_URL": redis.URL()}, func(_ context.Context, server *Server) error {
		server.HandleRaw("A", func(context.Context, *Job) error { return nil })
		server.OnStart(func(ctx context.Context) error {
			go func() {
				for ctx.Err() == nil && !strings.Contains(out.String(), `"check":"eviction"`) {
					time.Sleep(time.Millisecond) // between two looks
				}
				server.Stop()
			}()
			return nil
		})
		return nil
	}, MainConfig{Server: ServerConfig{Logger: Zerolog(zerolog.New(&out))}})
	require.Zero(t, status)
	require.Contains(t, out.String(), `"check":"eviction"`)
}
