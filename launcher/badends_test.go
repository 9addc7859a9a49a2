package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/logbook"
)

// What a panic may be made of: everything about it may panic again.
type unspeakable struct{}

func (unspeakable) Error() string    { panic(unspeakable{}) }
func (unspeakable) String() string   { panic(unspeakable{}) }
func (unspeakable) GoString() string { panic(unspeakable{}) }
func (unspeakable) Unwrap() error    { panic(unspeakable{}) }

// maxStored is more than a failed job may grow by, and a line of the log: ten thousand characters of a
// message, each as a JSON escape, and a stack.
const maxStored = 80_000

// A panic is a failed run, whatever it is made of and wherever between Redis and the end of the handler it
// happens: the job is in the retry set, in JSON of a bounded size, and its processor is free for the next.
func TestPanicIsAFailedRun(t *testing.T) {
	t.Parallel()
	fail := func(context.Context, *job.Job) error { return errors.New("x") }
	panics := func(value any) launcher.Handler { return func(context.Context, *job.Job) error { panic(value) } }
	before := func(launcher.Handler) launcher.Handler { return panics("before the handler") }
	after := func(next launcher.Handler) launcher.Handler {
		return func(ctx context.Context, j *job.Job) error { defer panic("after the handler"); return next(ctx, j) }
	}
	kinds := map[string]struct {
		handler launcher.Handler
		about   launcher.Class
		says    string // in the job's error_message
	}{
		"of_ten_megabytes":              {panics(strings.Repeat("\x00", 10<<20)), launcher.Class{}, `\u0000`},
		"of_bytes_that_are_no_text":     {panics("\xff\xfe\x00\x1b[31m\n"), launcher.Class{}, `\u001b`},
		"of_nothing":                    {panics(nil), launcher.Class{}, "nil"},
		"of_an_error_that_panics":       {panics(unspeakable{}), launcher.Class{}, "panic"},
		"of_a_pointer_to_nothing":       {panics((*unspeakable)(nil)), launcher.Class{}, "panic"},
		"of_a_nil_that_is_returned":     {func(context.Context, *job.Job) error { return (*unspeakable)(nil) }, launcher.Class{}, "no text"},
		"of_an_error_that_is_returned":  {func(context.Context, *job.Job) error { return unspeakable{} }, launcher.Class{}, "no text"},
		"in_middleware_before":          {fail, launcher.Class{Middleware: []launcher.Middleware{before}}, "before the handler"},
		"in_middleware_after":           {fail, launcher.Class{Middleware: []launcher.Middleware{after}}, "after the handler"},
		"in_the_formula_of_the_backoff": {fail, launcher.Class{Backoff: func(int, error, *job.Job) time.Duration { panic(unspeakable{}) }}, "x"},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, r *rig) {
				cfg := r.config()
				cfg.Concurrency = 1
				log := slog.New(logbook.JSON(&r.log, slog.LevelDebug))
				cfg.Log = log // debug and all
				l := r.build(cfg)
				l.OnError(func(context.Context, *job.Job, error) { panic(unspeakable{}) })
				l.OnDeath(func(context.Context, *job.Job, error) { panic(unspeakable{}) })
				l.Handle("Bad", kind.handler, kind.about)
				good := make(chan bool, 1)
				l.Handle("Good", func(context.Context, *job.Job) error { good <- true; return nil }, launcher.Class{})
				r.start(l)
				pushed := r.push("Bad", "[1.0]")
				r.push("Bad", "[]", job.SetInt("retry", 0))
				r.push("Good", "[]")
				receive(t, "the next job on the same processor", good)
				r.eventually("all to be counted", func() bool { return r.counter(r.keys.Processed()) == "3" && r.counter(r.keys.Failed()) == "2" })
				requireStored(t, r.set(r.keys.Retry()), kind.says, strings.TrimSuffix(pushed, "}"))
				requireStored(t, r.set(r.keys.Dead()), kind.says, "{")
				parsed, err := job.Parse(pushed)
				require.NoError(t, err)
				failure := fmt.Sprintf(`"jid":"%s","class":"Bad","queue":"default","attempt":1,"max_attempts":26,"exit":"retry","time"`, parsed.JID())
				require.Equal(t, 1, strings.Count(r.log.String(), failure), r.log.String())
				require.Equal(t, 2, strings.Count(r.log.String(), `"message":"run failed"`), "one is dead at once")
				require.Equal(t, kind.about.Backoff != nil, strings.Contains(r.log.String(), `"message":"backoff panicked"`))
				for line := range strings.Lines(r.log.String()) {
					require.Less(t, len(line), maxStored, "a line of the log: %.300s", line)
				}
			})
		})
	}
}

func requireStored(t *testing.T, entries []string, says, begins string) {
	t.Helper()
	require.Len(t, entries, 1)
	require.Less(t, len(entries[0]), maxStored)
	require.True(t, strings.HasPrefix(entries[0], begins), "the bytes are kept: %.300s", entries[0])
	parsed, err := job.Parse(entries[0])
	require.NoError(t, err)
	message, ok := parsed.Field("error_message")
	require.True(t, ok)
	class, _ := parsed.Field("error_class") // stands before the message wherever people read it
	require.Contains(t, class+message, says)
}

// A handler that ends its goroutine, as t.FailNow does, has failed, at once; and however many do, as many
// jobs as ever run side by side.
func TestAHundredGoexitsTakeNoProcessor(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		l := r.build(cfg)
		l.Handle("Gone", func(context.Context, *job.Job) error { runtime.Goexit(); return nil }, launcher.Class{})
		meeting, met := make(chan bool), make(chan bool, cfg.Concurrency)
		var present atomic.Int64
		l.Handle("Meeting", func(ctx context.Context, _ *job.Job) error {
			if present.Add(1) == int64(cfg.Concurrency) {
				close(meeting)
			}
			select {
			case <-meeting:
				met <- true
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, launcher.Class{})
		for range 100 {
			r.push("Gone", "[]")
		}
		begun := time.Now()
		r.start(l)
		r.eventually("a hundred failures", func() bool { return r.counter(r.keys.Failed()) == "100" })
		t.Logf("a hundred goroutines ended and their jobs failed within %v", time.Since(begun))
		entries := r.set(r.keys.Retry())
		require.Len(t, entries, 100)
		for _, entry := range entries {
			require.Contains(t, entry, `"error_class":"runtime.Goexit"`)
			require.Contains(t, entry, `"retry_count":0`)
		}
		for range cfg.Concurrency {
			r.push("Meeting", "[]")
		}
		for n := range cfg.Concurrency {
			receive(t, fmt.Sprintf("the meeting's member %d", n), met)
		}
	})
}
