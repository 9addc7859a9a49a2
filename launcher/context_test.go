package launcher_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// returns are the ways in which a handler comes back.
var returns = map[string]func() error{
	"nil":    func() error { return nil },
	"error":  func() error { return errors.New("boom") },
	"panic":  func() error { panic("boom") },
	"goexit": func() error { runtime.Goexit(); return nil },
}

// What waits for the end of a handler's context does not wait longer than the run: a transaction of package
// database/sql is rolled back, a goroutine ends.
func TestContextEndsWithItsRun(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"without_a_timeout": 0, "with_a_timeout": time.Hour} {
		for how, comeBack := range returns {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				r := oneClient(t)
				cfg := r.config()
				cfg.Concurrency = 1
				l := r.build(cfg)
				causes, contexts, after := make(chan error, 3), make(chan context.Context, 1), make(chan error, 1)
				l.Handle("Leaves", func(ctx context.Context, _ *job.Job) error {
					derived, cancel := context.WithCancel(ctx)
					t.Cleanup(cancel) // not at the end of the run
					for _, waits := range []context.Context{ctx, derived} {
						go func() { <-waits.Done(); causes <- context.Cause(waits) }()
					}
					context.AfterFunc(ctx, func() { causes <- context.Cause(ctx) })
					contexts <- ctx
					launcher.AfterRun(ctx, func(job.Outcome, error) { after <- ctx.Err() })
					return comeBack()
				}, launcher.Class{Timeout: timeout})
				began, free := make(chan error, 1), make(chan struct{})
				l.Handle("Next", func(ctx context.Context, _ *job.Job) error {
					began <- ctx.Err()
					select {
					case <-free:
					case <-ctx.Done():
					}
					began <- ctx.Err()
					return nil
				}, launcher.Class{Timeout: timeout})
				r.push("Leaves", "[]")
				r.start(l)
				ended := receive(t, "the run", contexts)
				for range cap(causes) {
					require.Equal(t, context.Canceled, receive(t, "the end of a context", causes))
				}
				if alive := receive(t, "the callback", after); timeout == 0 {
					require.NoError(t, alive, "it ended before a callback of AfterRun")
				}

				// The next run on the same processor lives.
				r.push("Next", "[]")
				require.NoError(t, receive(t, "the next run", began))
				late, cancel := context.WithCancel(ended)
				defer cancel()
				require.Equal(t, []error{context.Canceled, context.Canceled}, []error{late.Err(), ended.Err()})
				close(free)
				require.NoError(t, receive(t, "its end", began))
			})
		}
	}
}

// The end of a context that nothing followed is the run's own, too, and not that of a later run.
func TestContextOfAnEndedRunHasItsOwnCause(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.Concurrency = 1
	l := r.build(cfg)
	contexts, causes := make(chan context.Context, 1), make(chan error, 1)
	l.Handle("Leaves", func(ctx context.Context, _ *job.Job) error { contexts <- ctx; return nil }, launcher.Class{})
	l.Handle("Waits", func(ctx context.Context, _ *job.Job) error {
		contexts <- ctx
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}, launcher.Class{})
	r.push("Leaves", "[]")
	r.start(l)
	ended := receive(t, "the run", contexts)
	r.processed(1)
	require.Equal(t, context.Canceled, ended.Err())
	payload := r.push("Waits", "[]")
	cancelled := receive(t, "the next run", contexts)
	r.mark(jidOf(t, payload))
	require.ErrorIs(t, receive(t, "its cause", causes), launcher.ErrCancelled)
	r.processed(2)
	require.ErrorIs(t, context.Cause(cancelled), launcher.ErrCancelled, "it ended before the run")

	require.Equal(t, context.Canceled, context.Cause(ended))
	late, cancel := context.WithCancel(ended)
	defer cancel()
	receive(t, "the end of a context derived later", late.Done())
	require.Equal(t, context.Canceled, context.Cause(late))
	info, ok := launcher.Info(late)
	require.True(t, ok)
	require.Equal(t, "Leaves", info.Class)
}

// Whatever derives a context while the run ends gets one that ends.
func TestContextDerivedAtTheEndOfItsRunEnds(t *testing.T) {
	t.Parallel()
	const jobs = 500
	r := oneClient(t)
	l := r.build(r.config())
	ended := make(chan struct{}, jobs)
	var dead atomic.Int64
	l.Handle("Quick", func(ctx context.Context, _ *job.Job) error {
		go func() {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			<-derived.Done()
			ended <- struct{}{}
		}()
		runtime.Gosched()
		if ctx.Err() != nil {
			dead.Add(1)
		}
		return nil
	}, launcher.Class{})
	for range jobs {
		r.push("Quick", "[]")
	}
	r.start(l)
	for n := range jobs {
		receive(t, "context "+strconv.Itoa(n), ended)
	}
	require.Zero(t, dead.Load(), "contexts that ended before their runs")
}
