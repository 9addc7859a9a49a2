package launcher_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// Middleware gets the outcome that is stored, also where no middleware could know it: of the last attempt, of a
// panic, of a run that the stop ended. A callback that misbehaves changes nothing.
func TestAfterRun(t *testing.T) {
	t.Parallel()
	type end struct {
		class  string
		exit   job.Exit
		failed bool
		err    error
	}
	r := oneClient(t)
	cfg := r.config()
	cfg.ShutdownTimeout = -1
	l := r.build(cfg)
	ends := make(chan end, 10)
	l.Use("ends", func(next launcher.Handler) launcher.Handler {
		return func(ctx context.Context, j *job.Job) error {
			require.True(t, launcher.AfterRun(ctx, func(job.Outcome, error) { runtime.Goexit() }))
			require.True(t, launcher.AfterRun(ctx, func(outcome job.Outcome, err error) {
				_, failed := outcome.Counts()
				ends <- end{j.Class(), outcome.Exit(), failed, err}
			}))
			require.True(t, launcher.AfterRun(ctx, func(job.Outcome, error) { panic("a callback of no use") }))
			return next(ctx, j)
		}
	})
	boom := errors.New("boom")
	handle := func(class string, do func(ctx context.Context) error) {
		l.Handle(class, func(ctx context.Context, _ *job.Job) error { return do(ctx) }, launcher.Class{})
	}
	handle("Done", func(context.Context) error { return nil })
	handle("Fails", func(context.Context) error { return boom })
	handle("Panics", func(context.Context) error { panic("oh") })
	handle("Exits", func(context.Context) error { runtime.Goexit(); return nil })
	handle("Snoozes", func(context.Context) error { return retry.Snooze(time.Hour) })
	handle("Drops", func(context.Context) error { return retry.Discard(boom) })
	began := make(chan struct{})
	handle("Waits", func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	})
	w := r.start(l)
	for _, c := range []struct {
		class  string
		extra  []job.Edit
		exit   job.Exit
		failed bool
	}{
		{"Done", nil, job.ExitDone, false},
		{"Fails", nil, job.ExitRetry, true},
		{"Fails", []job.Edit{job.SetInt("retry_count", 24)}, job.ExitDead, true},
		{"Fails", []job.Edit{{Name: "retry", JSON: "false"}}, job.ExitDiscarded, true},
		{"Panics", nil, job.ExitRetry, true},
		{"Exits", nil, job.ExitRetry, true},
		{"Snoozes", nil, job.ExitSnoozed, false},
		{"Drops", nil, job.ExitDiscarded, true},
	} {
		r.push(c.class, "[]", c.extra...)
		got := receive(t, "the end of "+c.class, ends)
		require.Equal(t, end{c.class, c.exit, c.failed, got.err}, got)
		require.Equal(t, c.exit == job.ExitDone, got.err == nil)
		require.Equal(t, c.class == "Panics", retry.Panicked(got.err) != nil)
	}
	r.push("Waits", "[]")
	receive(t, "the run", began)
	l.Stop()
	w.wait(t)
	require.Equal(t, end{"Waits", job.ExitRequeued, false, context.Canceled}, receive(t, "its end", ends))
	require.Equal(t, "7", r.counter(r.keys.Processed()), "each outcome was stored once")
	require.Equal(t, "6", r.counter(r.keys.Failed()))
	require.Contains(t, r.log.String(), "callback after a run panicked")
	require.False(t, launcher.AfterRun(t.Context(), func(job.Outcome, error) {}))
}

// Goroutines of a handler may add callbacks, also one that outlives the run: each is called, or refused.
func TestAfterRunFromGoroutinesOfTheHandler(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	l := r.build(r.config())
	const goroutines = 100
	var called, added atomic.Int64
	adding := make(chan *sync.WaitGroup, 1)
	contexts, ended := make(chan context.Context, 1), make(chan struct{}, 1)
	l.Handle("Many", func(ctx context.Context, _ *job.Job) error {
		require.PanicsWithValue(t, "belay: AfterRun: the callback is nil", func() { launcher.AfterRun(ctx, nil) })
		require.True(t, launcher.AfterRun(ctx, func(job.Outcome, error) {
			require.True(t, launcher.AfterRun(ctx, func(job.Outcome, error) { ended <- struct{}{} }), "a callback may add one")
		}))
		var group sync.WaitGroup
		for range goroutines {
			group.Go(func() {
				if launcher.AfterRun(ctx, func(job.Outcome, error) { called.Add(1) }) {
					added.Add(1)
				}
			})
		}
		contexts <- ctx
		adding <- &group
		return nil
	}, launcher.Class{})
	w := r.start(l)
	r.push("Many", "[]")
	receive(t, "the goroutines", adding).Wait()
	receive(t, "the end of the run", ended)
	ctx := receive(t, "the context", contexts)
	l.Stop()
	w.wait(t)
	require.Equal(t, added.Load(), called.Load())
	require.False(t, launcher.AfterRun(ctx, func(job.Outcome, error) {}), "the run has ended")
}
