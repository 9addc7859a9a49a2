package launcher_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/logbook"
)

type speechless struct{}

func (speechless) Error() string { panic("no text") }

// What is the user's may end its goroutine or panic anywhere: the job has its outcome, the processor goes on.
func TestBadGuests(t *testing.T) {
	t.Parallel()
	guests := map[string]func(l *launcher.Launcher){
		"an_error_handler_that_ends_its_goroutine": func(l *launcher.Launcher) {
			l.OnError(func(context.Context, *job.Job, error) { runtime.Goexit() })
			l.Handle("Bad", func(context.Context, *job.Job) error { return errors.New("x") }, launcher.Class{})
		},
		"a_handler_and_an_error_handler_that_do": func(l *launcher.Launcher) {
			l.OnError(func(context.Context, *job.Job, error) { runtime.Goexit() })
			l.Handle("Bad", func(context.Context, *job.Job) error { runtime.Goexit(); return nil }, launcher.Class{})
		},
		"a_backoff_that_ends_its_goroutine": func(l *launcher.Launcher) {
			l.Handle("Bad", func(context.Context, *job.Job) error { return errors.New("x") },
				launcher.Class{Backoff: func(int, error, *job.Job) time.Duration { runtime.Goexit(); return 0 }})
		},
		"a_key_of_a_limit_that_does": func(l *launcher.Launcher) {
			l.Handle("Bad", func(context.Context, *job.Job) error { return errors.New("x") },
				launcher.Class{Limit: &launcher.ClassLimit{
					Limit: limit.Limit{Name: "bad", Concurrency: 1},
					Key:   func(*job.Job) (string, error) { runtime.Goexit(); return "", nil },
				}})
		},
		"an_error_whose_text_panics_while_debugging": func(l *launcher.Launcher) {
			l.Handle("Bad", func(context.Context, *job.Job) error { return speechless{} }, launcher.Class{})
		},
	}
	for name, invite := range guests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, r *rig) {
				cfg := r.config()
				cfg.Concurrency = 1
				log := slog.New(logbook.JSON(&r.log, slog.LevelDebug))
				cfg.Log = log // debug and all
				l := r.build(cfg)
				invite(l)
				good := make(chan bool, 1)
				l.Handle("Good", func(context.Context, *job.Job) error { good <- true; return nil }, launcher.Class{})
				r.start(l)
				r.push("Bad", "[]")
				r.eventually("the retry", func() bool { return len(r.set(r.keys.Retry())) == 1 })
				r.push("Good", "[]")
				receive(t, "the next job on the same processor", good)
				require.Equal(t, 1, strings.Count(r.log.String(), `"message":"run failed"`), r.log.String())
			})
		})
	}
}

// An error whose methods panic is that of its run alone, also if the run was cancelled.
func TestBadErrorOfACancelledRun(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]error{"a_nil_pointer": (*fs.PathError)(nil), "a_bad_method": unspeakable{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := oneClient(t)
			cfg := r.config()
			cfg.Concurrency = 1
			l := r.build(cfg)
			failed := make(chan error, 1)
			l.OnError(func(_ context.Context, _ *job.Job, err error) { failed <- err })
			began, good := make(chan bool, 1), make(chan bool, 1)
			l.Handle("Bad", func(ctx context.Context, _ *job.Job) error { began <- true; <-ctx.Done(); return bad }, launcher.Class{})
			l.Handle("Good", func(context.Context, *job.Job) error { good <- true; return nil }, launcher.Class{})
			payload := r.push("Bad", "[]")
			r.start(l)
			receive(t, "the run", began)
			r.mark(jidOf(t, payload))
			require.Equal(t, bad, receive(t, "its error", failed), "a failure of its own")
			r.push("Good", "[]")
			receive(t, "the next job on the same processor", good)
			r.processed(2)
			require.Empty(t, r.counter(r.keys.Failed()), "it was cancelled")
		})
	}
}

// A badLog panics at the line of a run.
type badLog struct{ slog.Handler }

func (badLog) Handle(_ context.Context, record slog.Record) error {
	if record.Message == "run" {
		panic("a log of no use")
	}
	return nil
}

func TestALogThatPanicsHarmsNoRun(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.Log = slog.New(badLog{logbook.JSON(&r.log, slog.LevelDebug)})
	l := r.build(cfg)
	l.Handle("Good", func(context.Context, *job.Job) error { return nil }, launcher.Class{})
	r.push("Good", "[]")
	r.push("Good", "[]")
	r.start(l)
	r.processed(2)
}
