package belay_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

// logText is a log that several goroutines write.
type logText struct{ drivertest.Buffer }

// lines are those with a message, as objects. Slog's names of message and level count as zerolog's.
func (l *logText) lines(t *testing.T, message string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for text := range strings.Lines(l.String()) {
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &line), text)
		if msg, ok := line["msg"]; ok {
			line["message"], line["level"] = msg, strings.ToLower(fmt.Sprint(line["level"]))
		}
		if line["message"] == message {
			found = append(found, line)
		}
	}
	return found
}

// logsTo are all kinds of logger for a server, from a level on.
var logsTo = map[string]func(w io.Writer, debug bool) *slog.Logger{
	"zerolog": func(w io.Writer, debug bool) *slog.Logger {
		return belay.Zerolog(zerolog.New(w).Level(zeroLevel(debug)))
	},
	"slog": func(w io.Writer, debug bool) *slog.Logger {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slogLevel(debug)}))
	},
	"a book": func(w io.Writer, debug bool) *slog.Logger {
		return logbook.New(logbook.JSON(w, slogLevel(debug))).Logger()
	},
	"zerolog with a field of slog's": func(w io.Writer, debug bool) *slog.Logger {
		return belay.Zerolog(zerolog.New(w).Level(zeroLevel(debug))).With("app", "shop")
	},
}

func slogLevel(debug bool) slog.Level {
	if debug {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

func zeroLevel(debug bool) zerolog.Level {
	if debug {
		return zerolog.DebugLevel
	}
	return zerolog.InfoLevel
}

func eachLog(t *testing.T, test func(t *testing.T, to func(w io.Writer, debug bool) *slog.Logger)) {
	t.Helper()
	for name, to := range logsTo {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, to)
		})
	}
}

func TestAHandlersLogSaysWhichRunItIs(t *testing.T) {
	t.Parallel()
	eachLog(t, func(t *testing.T, to func(io.Writer, bool) *slog.Logger) {
		var out logText
		client := openShared(t)
		greet := belay.Define[string]("Greet", belay.Queue("mail"), belay.Timeout(time.Minute))
		server := newServer(t, client, belay.ServerConfig{Logger: to(&out, false), Queues: belay.Queues("mail")})
		ended := make(chan struct{})
		greet.Handle(server, func(ctx context.Context, _ string) error {
			info, _ := belay.Info(ctx)
			if info.Attempt == 1 {
				return belay.RetryIn(time.Millisecond, errors.New("once"))
			}
			defer close(ended)
			var both sync.WaitGroup // a handler's goroutines have the same logger
			both.Go(func() { belay.Log(ctx).With("a", 1).WithGroup("g").Info("by slog", "b", 2) })
			both.Go(func() { zerolog.Ctx(ctx).Info().Int("a", 1).Msg("by zerolog") })
			both.Wait()
			zerolog.Ctx(ctx).Debug().Msg("too quiet")
			belay.Log(ctx).Debug("too quiet")
			return nil
		})
		server.OnError(func(ctx context.Context, _ *belay.Job, err error) { belay.Log(ctx).Error("reported", "error", err) })
		done := running(t, server)
		receipt, err := greet.Enqueue(t.Context(), client, "you")
		require.NoError(t, err)
		awaitValue(t, "the second run", ended)
		server.Stop()
		require.NoError(t, awaitValue(t, "the end", done))

		attempts := map[string]float64{"by slog": 2, "by zerolog": 2, "reported": 1}
		if _, isJSON := to(io.Discard, false).Handler().(*slog.JSONHandler); isJSON {
			delete(attempts, "by zerolog") // its lines have nowhere to go
		}
		for message, attempt := range attempts {
			lines := out.lines(t, message)
			require.Len(t, lines, 1, "%s: %s", message, out.String())
			require.Equal(t, receipt.JID, lines[0]["jid"])
			require.Equal(t, "Greet", lines[0]["class"])
			require.Equal(t, "mail", lines[0]["queue"])
			require.InDelta(t, attempt, lines[0]["attempt"], 0)
		}
		require.NotContains(t, out.String(), "too quiet")
		require.Len(t, out.lines(t, "working"), 1)
		require.Len(t, out.lines(t, "stopped"), 1)
		require.NotContains(t, out.String(), `"you"`, "arguments only when asked")
	})
}

func TestLogOutsideOfARunIsTheProgramsOwn(t *testing.T) {
	t.Parallel()
	require.Same(t, slog.Default(), belay.Log(t.Context()))
}

// A reader of the log that has stopped is met in production as a full disk's pipe, a paused terminal, or a
// log shipper that hangs.
func TestNoJobAndNoBeatWaitsForTheReaderOfTheLog(t *testing.T) {
	t.Parallel()
	eachLog(t, func(t *testing.T, to func(io.Writer, bool) *slog.Logger) {
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		client := openShared(t)
		const jobs, ttl = 8000, 2 * time.Second
		server := newServer(t, client, belay.ServerConfig{Logger: to(writer, true), Concurrency: 10, Heartbeat: ttl / 5, TTL: ttl})
		work := belay.Define[int]("Work")
		ends := make(chan struct{}, jobs)
		work.Handle(server, func(context.Context, int) error {
			ends <- struct{}{}
			return nil
		})
		done := running(t, server)
		t.Cleanup(func() { // the lines that still wait are read, to the last one: writes to a closed pipe would fail
			server.Stop()
			server.Stop()
			lines := bufio.NewScanner(reader)
			for lines.Scan() && !strings.Contains(lines.Text(), "stopped") {
				continue
			}
			require.NoError(t, reader.Close())
			require.NoError(t, writer.Close())
		})
		// A line for each at level debug: more than a pipe and a buffer have room for.
		_, err = work.EnqueueMany(t.Context(), client, slices.Values(make([]int, jobs)))
		require.NoError(t, err)
		for range jobs {
			awaitValue(t, "all jobs", ends)
		}
		drivertest.Eventually(t, func() bool { return server.Counters().DroppedLogLines > 0 }, patience, time.Millisecond)

		identity := server.Identity()
		expiry := func() float64 {
			reply := client.Driver().Do(t.Context(), driver.Command("ZSCORE", lua.NewKeys(client.Config().Prefix).Alive(), identity))[0]
			require.NoError(t, reply.Err)
			var until float64
			_, err := fmt.Sscan(fmt.Sprint(reply.Value), &until)
			require.NoError(t, err)
			return until
		}
		from := expiry()
		drivertest.Eventually(t, func() bool { return expiry() > from+float64(ttl.Milliseconds()) }, patience, 20*time.Millisecond,
			"beats go on for longer than one would do")
		require.Equal(t, identity, server.Identity())
		server.Stop()
		require.NoError(t, awaitValue(t, "the end, which waits a moment for the reader", done))
	})
}

func TestArgumentsAreShownOnlyWhenAskedForAndAsRedacted(t *testing.T) {
	t.Parallel()
	long := "<" + strings.Repeat("é", 4<<10) + ">"
	card := func(class string, args json.RawMessage) json.RawMessage {
		return append(json.RawMessage(class+" "), bytes.ReplaceAll(args, []byte("Xq7Z"), []byte("****"))...)
	}
	for name, c := range map[string]struct {
		arg   string
		cfg   belay.ServerConfig
		shown any
	}{
		"not asked for":     {"card Xq7Z", belay.ServerConfig{}, nil},
		"asked for":         {"card Xq7Z", belay.ServerConfig{LogArgs: true}, `["card Xq7Z"]`},
		"redacted":          {"card Xq7Z", belay.ServerConfig{LogArgs: true, Redact: card}, `Pay ["card ****"]`},
		"only redacted":     {"card Xq7Z", belay.ServerConfig{Redact: card}, nil},
		"long ones are cut": {long, belay.ServerConfig{LogArgs: true}, `["<` + strings.Repeat("é", 2046) + `... (8198 bytes)`},
		"a redaction panicked": {"card Xq7Z", belay.ServerConfig{LogArgs: true, Redact: func(string, json.RawMessage) json.RawMessage { panic("Xq7Z") }},
			"(not shown: its redaction panicked)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for way, to := range logsTo {
				var out logText
				cfg := c.cfg
				cfg.Logger = to(&out, true)
				runOnce(t, c.arg, nil, cfg)
				lines := out.lines(t, "run")
				require.Len(t, lines, 1, "%s: %s", way, out.String())
				require.Equal(t, c.shown, lines[0]["args"], way)
				require.Equal(t, "done", lines[0]["exit"])
				require.Equal(t, "debug", lines[0]["level"])
				if c.shown != `["card Xq7Z"]` {
					require.NotContains(t, out.String(), "Xq7Z")
				}
			}
		})
	}
}

// runOnce runs one job, which ends as fn says, to the server's end. nil is success.
func runOnce(t *testing.T, arg string, fn func() error, cfg belay.ServerConfig) {
	t.Helper()
	client := openShared(t)
	pay := belay.Define[string]("Pay")
	cfg.ShutdownTimeout = time.Minute // in which a run that has ended is reported
	server := newServer(t, client, cfg)
	ran := make(chan struct{})
	pay.Handle(server, func(context.Context, string) error {
		defer close(ran)
		if fn == nil {
			return nil
		}
		return fn()
	})
	done := running(t, server)
	_, err := pay.Enqueue(t.Context(), client, arg)
	require.NoError(t, err)
	awaitValue(t, "the run", ran)
	server.Stop()
	require.NoError(t, awaitValue(t, "the end", done))
}

func TestFailedRunsAreReportedAndTheirErrorsAsRedacted(t *testing.T) {
	t.Parallel()
	secret := errors.New("cannot charge card Xq7Z")
	eachLog(t, func(t *testing.T, to func(io.Writer, bool) *slog.Logger) {
		logged := func(fn func() error, debug bool, redact func(string, error) string) (map[string]any, *logText) {
			var out logText
			runOnce(t, "x", fn, belay.ServerConfig{Logger: to(&out, debug), RedactError: redact})
			lines := out.lines(t, "run failed")
			if len(lines) == 0 {
				return nil, &out
			}
			require.Len(t, lines, 1, out.String())
			require.Equal(t, "warn", lines[0]["level"])
			return lines[0], &out
		}
		line, _ := logged(func() error { return secret }, false, nil)
		require.Equal(t, "cannot charge card Xq7Z", line["error"])
		require.Equal(t, "Pay", line["class"])
		require.Equal(t, "default", line["queue"])
		require.Equal(t, "retry", line["exit"])
		require.Greater(t, line["again_in_ms"], 1000.0, "it says when the job runs again")
		require.InDelta(t, 1, line["attempt"], 0)
		require.NotContains(t, line, "stack")

		line, _ = logged(func() error { panic("Xq7Z") }, false, nil)
		require.Contains(t, line["error"], "Xq7Z")
		require.Contains(t, line["stack"], "log_test.go")

		line, out := logged(func() error { return secret }, true, func(class string, err error) string {
			return fmt.Sprintf("%s: an error of %d bytes", class, len(err.Error()))
		})
		require.Equal(t, "Pay: an error of 23 bytes", line["error"])
		require.Equal(t, "Pay: an error of 23 bytes", out.lines(t, "run")[0]["error"])
		require.NotContains(t, out.String(), "Xq7Z")

		line, out = logged(func() error { return secret }, true, func(_ string, err error) string { panic(err) })
		require.Equal(t, "(not shown: its redaction panicked)", line["error"])
		require.NotContains(t, out.String(), "Xq7Z")

		line, _ = logged(func() error { return belay.Snooze(time.Hour) }, true, nil)
		require.Nil(t, line, "a snooze is no failure")
	})
}

func TestWithoutALogOfTheProgramsTheServerLogsToStandardError(t *testing.T) { //nolint:paralleltest // what standard error is, is the whole program's
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	stderr := os.Stderr
	os.Stderr = writer
	defer func() { os.Stderr = stderr }()
	runOnce(t, "x", func() error { return errors.New("it broke") }, belay.ServerConfig{})
	os.Stderr = stderr
	require.NoError(t, writer.Close())
	text, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	for _, part := range []string{`"message":"working"`, `"error":"it broke"`, `"message":"stopped"`} {
		require.Contains(t, string(text), part)
	}
}

func TestClientLog(t *testing.T) {
	t.Parallel()
	for name, to := range logsTo {
		t.Run("logs refused duplicates, by "+name, func(t *testing.T) {
			t.Parallel()
			var text logText
			client := openWith(t, belay.ClientConfig{Logger: to(&text, false)})
			job := belay.RawJob{Class: "Report", Unique: &dedup.Rule{Until: belay.UntilExecuting}}
			first, err := client.Push(t.Context(), job)
			require.NoError(t, err)
			second, err := client.Push(t.Context(), job)
			require.NoError(t, err)
			require.Equal(t, belay.StatusDuplicate, second.Status)
			const message = "push refused: duplicate"
			drivertest.Eventually(t, func() bool { return len(text.lines(t, message)) > 0 }, patience, time.Millisecond)
			lines := text.lines(t, message)
			require.Len(t, lines, 1)
			require.Equal(t, "info", lines[0]["level"])
			require.Equal(t, second.JID, lines[0]["jid"])
			require.Equal(t, first.JID, lines[0]["holder"])
		})
	}
}
