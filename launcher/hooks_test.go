package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// A diary notes what was called, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

func TestHooksOfASession(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	l := r.build(r.config())
	var calls diary
	began, quieted := make(chan struct{}), make(chan struct{})
	l.OnStart(func(context.Context) error { calls.note("start"); return nil })
	l.OnStart(func(context.Context) error { calls.note("start too"); return nil })
	l.OnQuiet(func() { panic("a quiet hook of no use") })
	l.OnQuiet(func() { calls.note("quiet"); close(quieted) })
	l.OnStop(func() { <-quieted; calls.note("stop") })
	l.OnExit(func() { calls.note("exit, added first") })
	l.OnExit(func() { calls.note("exit, added last") })
	l.Handle("Greet", func(ctx context.Context, _ *job.Job) error {
		close(began)
		<-ctx.Done()
		calls.note("run ends")
		return nil
	}, launcher.Class{Timeout: 2 * time.Second}) // when all earlier hooks have been called
	r.push("Greet", "[]")
	w := r.start(l)
	receive(t, "the run", began)
	l.Quiet()
	receive(t, "the quiet hook", quieted)
	l.Quiet()
	l.Stop()
	w.wait(t)
	lines := calls.read()
	require.ElementsMatch(t, []string{"start", "start too", "quiet", "stop", "run ends", "exit, added last", "exit, added first"}, lines)
	require.Equal(t, []string{"start", "start too", "quiet"}, lines[:3])
	require.Equal(t, []string{"exit, added last", "exit, added first"}, lines[5:], "when all is settled, the last one first")
	require.Equal(t, "1", r.counter(r.keys.Processed()))
	require.Contains(t, r.log.String(), "quiet hook panicked")
}

func TestStartHookThatFailsEndsRunBeforeAnythingIsTaken(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]func(context.Context) error{
		"no database":   func(context.Context) error { return errors.New("no database") },
		"hook panicked": func(context.Context) error { panic("at the start") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := oneClient(t)
			l := r.build(r.config())
			l.OnStart(hook)
			l.Handle("Greet", func(context.Context, *job.Job) error { return nil }, launcher.Class{})
			r.push("Greet", "[]")
			require.ErrorContains(t, l.Run(t.Context()), name)
			require.Empty(t, r.counter(r.keys.Processed()))
			require.Empty(t, l.Identity(), "it was never registered")
		})
	}
}

// A death handler is called for each kind of death, after the class' own handler, and can do no harm.
func TestDeathsAreReported(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.Retry.MaxRetries = -1
	l := r.build(cfg)
	var calls diary
	own := func(_ context.Context, j *job.Job, err error) { calls.note("own %s: %v", j.Class(), err) }
	owns := []func(context.Context, *job.Job, error){own}
	l.OnDeath(func(context.Context, *job.Job, error) { panic("a death handler of no use") })
	l.OnDeath(func(ctx context.Context, j *job.Job, err error) {
		info, _ := launcher.Info(ctx)
		calls.note("death %s: %v in %s", j.Class(), err, info.Class)
	})
	l.OnDeath(func(_ context.Context, j *job.Job, _ error) {
		if j.Class() == "Fails" {
			runtime.Goexit()
		}
	})
	l.Handle("Fails", func(context.Context, *job.Job) error { return errors.New("broken") }, launcher.Class{Exhausted: owns})
	l.Handle("Killed", func(context.Context, *job.Job) error { return retry.Kill(errors.New("hopeless")) }, launcher.Class{})
	l.Handle("Dropped", func(context.Context, *job.Job) error { return retry.Discard(errors.New("never mind")) }, launcher.Class{Exhausted: owns})
	l.Handle("Good", func(context.Context, *job.Job) error { return nil }, launcher.Class{Exhausted: owns})
	for _, class := range []string{"Fails", "Killed", "Dropped", "Good"} {
		r.push(class, "[]")
	}
	r.start(l)
	r.eventually("all to be counted", func() bool { return r.counter(r.keys.Processed()) == "4" })
	require.ElementsMatch(t, []string{"own Fails: broken", "death Fails: broken in Fails", "death Killed: hopeless in Killed"}, calls.read())
	require.Contains(t, r.log.String(), "death handler panicked")
	require.Equal(t, int64(2), r.do("ZCARD", r.keys.Dead()))
}

// A hook that ends its goroutine, as t.FailNow does, keeps no other hook from being called, and the log names
// it.
func TestHookThatEndsItsGoroutineSkipsNoOther(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.Retry.MaxRetries = -1
	l := r.build(cfg)
	var calls diary
	// Of each kind the first one ends its goroutine; the second is called, too.
	gone := func(kind string) func() { return func() { calls.note("%s", kind); runtime.Goexit() } }
	note := func(kind string) func() { return func() { calls.note("%s too", kind) } }
	about := func(do func()) func(context.Context, *job.Job, error) {
		return func(context.Context, *job.Job, error) { do() }
	}
	l.OnError(about(gone("error")))
	l.OnError(about(note("error")))
	l.OnDeath(about(gone("death")))
	l.OnDeath(about(note("death")))
	l.OnQuiet(gone("quiet"))
	l.OnQuiet(note("quiet"))
	l.OnStop(gone("stop"))
	l.OnStop(note("stop"))
	inner := make(chan internalError, 100)
	l.OnInternalError(func(string, error) { runtime.Goexit() })
	l.OnInternalError(func(source string, err error) { inner <- internalError{source, err} })
	owns := []func(context.Context, *job.Job, error){about(gone("exhausted")), about(note("exhausted"))}
	l.Handle("Fails", func(context.Context, *job.Job) error { return errors.New("broken") }, launcher.Class{Exhausted: owns})
	r.push("Fails", "[]")
	w := r.start(l)
	r.processed(1)
	require.Equal(t, []string{"error", "error too", "exhausted", "exhausted too", "death", "death too"}, calls.read())
	missing := []string{"error handler", "exhausted handler", "death handler"}
	for len(missing) > 0 { // each in a goroutine of its own, so in any order
		got := receive(t, "internal error", inner)
		if at := slices.Index(missing, got.source); at >= 0 {
			missing = slices.Delete(missing, at, at+1)
			require.ErrorIs(t, got.err, retry.ErrGone)
			require.Contains(t, r.log.String(), `"message":"`+got.source+` panicked"`)
		}
	}
	require.Contains(t, r.log.String(), `"panic":"it ended its goroutine (runtime.Goexit) instead of returning"`)
	w.Quiet()
	r.eventually("the quiet hooks", func() bool { return slices.Contains(calls.read(), "quiet too") })
	w.Stop()
	w.wait(t)
	r.eventually("the stop hooks", func() bool { return slices.Contains(calls.read(), "stop too") })
}

// Middleware of a class stands inside of what wraps every run.
func TestMiddlewareOfAClass(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	l := r.build(r.config())
	var calls diary
	note := func(name string) launcher.Middleware {
		return func(next launcher.Handler) launcher.Handler {
			return func(ctx context.Context, j *job.Job) error {
				calls.note("%s", name)
				return next(ctx, j)
			}
		}
	}
	l.Use("all", note("all"))
	l.Use("all too", note("all too"))
	l.Handle("Greet", func(context.Context, *job.Job) error { calls.note("handler"); return nil },
		launcher.Class{Middleware: []launcher.Middleware{note("own"), note("own too")}})
	r.push("Greet", "[]")
	r.start(l)
	r.eventually("it to be counted", func() bool { return r.counter(r.keys.Processed()) == "1" })
	require.Equal(t, []string{"all", "all too", "own", "own too", "handler"}, calls.read())
}

// The janitor that recovers a dead process' jobs reports each, and the one that crashed too often as a death.
func TestOrphansAreReported(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	victim := "gone:1:0123456789ab"
	_, err := r.keys.Register(victim, lua.Record{Queues: []string{"rest", "other"}, Beat: 20 * time.Millisecond, TTL: 80 * time.Millisecond, Concurrency: 2}).
		Do(t.Context(), r.client)
	require.NoError(t, err)
	payload := func(crashes int) string {
		return fmt.Sprintf(`{"class":"Killer","jid":"jid-%d","args":[],"queue":"rest","interrupted_count":%d}`, crashes, crashes)
	}
	r.do("LPUSH", r.keys.Working("rest", victim), payload(0))
	r.do("LPUSH", r.keys.Working("rest", victim), "{")
	r.do("LPUSH", r.keys.QuarantineRun(victim), payload(2))
	r.do("HSET", r.keys.Record(victim), "quarantine_queue", "rest")

	l := r.build(r.config())
	var orphans, deaths diary
	l.OnOrphan(func(launcher.Orphan) { panic("an orphan handler of no use") })
	l.OnOrphan(func(launcher.Orphan) { runtime.Goexit() })
	l.OnOrphan(func(o launcher.Orphan) { orphans.note("%s %s %s %v", o.From, o.Queue, o.Home, o.Job != nil) })
	l.OnDeath(func(_ context.Context, j *job.Job, err error) {
		deaths.note("%s %v", j.JID(), errors.Is(err, launcher.ErrCrashed))
	})
	r.start(l)
	r.eventually("three orphans", func() bool { return len(orphans.read()) == 3 })
	require.ElementsMatch(t, []string{victim + " rest queue true", victim + " rest dead false", victim + " rest dead true"}, orphans.read())
	r.eventually("a death", func() bool { return len(deaths.read()) == 1 })
	require.Equal(t, []string{"jid-2 true"}, deaths.read())
}

func TestHooksAfterRunAreAMistake(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	l := r.build(r.config())
	r.start(l)
	r.eventually("it to run", func() bool { return l.Identity() != "" })
	for name, add := range map[string]func(){
		"OnDeath":  func() { l.OnDeath(nil) },
		"OnOrphan": func() { l.OnOrphan(nil) },
		"OnStart":  func() { l.OnStart(nil) },
		"OnQuiet":  func() { l.OnQuiet(nil) },
		"OnStop":   func() { l.OnStop(nil) },
		"OnExit":   func() { l.OnExit(nil) },
		"OnError":  func() { l.OnError(nil) },
		"OnStuck":  func() { l.OnStuck(nil) },
	} {
		require.PanicsWithValue(t, "belay: "+name+" after Run: call it before", add)
	}
}

// Every job would fail, and the log would say that no handler is registered for them.
func TestMiddlewareThatAnswersNoHandlerEndsRun(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	l := r.build(r.config())
	l.Handle("W", func(context.Context, *job.Job) error { return nil }, launcher.Class{})
	l.Use("none", func(launcher.Handler) launcher.Handler { return nil })
	require.EqualError(t, l.Run(t.Context()), `belay: a middleware returned nil for the handler of the class "W": it must return a Handler`)
	require.NotContains(t, r.log.String(), "working")
}
