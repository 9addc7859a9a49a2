package belaytest_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

func TestInABubbleOfSynctest(t *testing.T) {
	t.Parallel()
	t.Run("a sleep and a Drain run due jobs, and all clocks agree", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var ranAt []time.Time
			k := counter(t, func(context.Context, *belaytest.Kit, int) error {
				ranAt = append(ranAt, time.Now())
				return nil
			})
			begin := time.Now()
			push(t, k, 1, belay.In(24*time.Hour))
			belaytest.RequireEnqueued(t, k, count, 1, belay.In(24*time.Hour))
			time.Sleep(24*time.Hour - time.Millisecond)
			require.Empty(t, k.Drain())
			time.Sleep(time.Millisecond)
			runs := k.Drain()
			require.Len(t, runs, 1)
			enqueuedAt, _ := runs[0].Job.EnqueuedAt()
			require.WithinDuration(t, begin.Add(24*time.Hour), enqueuedAt, time.Millisecond)
			require.WithinDuration(t, begin.Add(24*time.Hour), ranAt[0], time.Millisecond)
		})
	})

	t.Run("a server keeps a rate, as Drain does not", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			k := belaytest.New(t)
			once := belay.Define[int]("Once", belay.LimitedTo(belay.Limit{Name: "once", Rate: belay.Window(1, time.Minute)}))
			begin, ran := time.Now(), []time.Duration{}
			server, err := belay.NewServer(k.Client(), belay.ServerConfig{Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			once.Handle(server, func(context.Context, int) error {
				ran = append(ran, time.Since(begin).Round(time.Minute))
				return nil
			})
			for n := range 3 {
				_, err := once.Enqueue(t.Context(), k.Client(), n)
				require.NoError(t, err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- server.Run(ctx) }()
			time.Sleep(150 * time.Second)
			stop()
			require.NoError(t, <-done)
			require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute}, ran)
		})
	})

	t.Run("retry_for runs out", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			k := counter(t, broken)
			k.OnFailure(func(belaytest.Run) {})
			push(t, k, 1, belay.RetryFor(time.Hour))
			for range 100 {
				k.Drain()
				time.Sleep(10 * time.Minute)
			}
			require.Empty(t, k.Waiting())
			require.Len(t, k.Dead(), 1)
		})
	})

	t.Run("a handler's time is the bubble's, and a Definition's timeout ends the run", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			slow := belay.Define[int]("Slow", belay.Timeout(time.Minute))
			k := belaytest.New(t)
			k.OnFailure(func(belaytest.Run) {})
			k.Serve(func(s *belay.Server) {
				slow.Handle(s, func(ctx context.Context, _ int) error {
					<-ctx.Done()
					return context.Cause(ctx)
				})
			})
			_, err := slow.Enqueue(t.Context(), k.Client(), 1)
			require.NoError(t, err)
			begin := time.Now()
			runs := k.Drain()
			require.InDelta(t, time.Minute, time.Since(begin), float64(20*time.Millisecond))
			require.ErrorIs(t, runs[0].Err, context.DeadlineExceeded)
		})
	})

	t.Run("Advance runs a job that is due at its very end, though no time passes in the bubble", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			k := counter(t, nothing)
			push(t, k, 1, belay.In(time.Hour))
			time.Sleep(700 * time.Nanosecond) // Redis counts microseconds only
			require.Empty(t, k.Advance(time.Hour-time.Millisecond))
			require.Len(t, k.Advance(time.Millisecond), 1)
		})
	})

	t.Run("a Drain finds due jobs after a Drain so long that its server became the poller", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			k := counter(t, func(context.Context, *belaytest.Kit, int) error {
				time.Sleep(10 * time.Second)
				return nil
			})
			push(t, k, 1)
			push(t, k, 2, belay.In(10*time.Second+500*time.Millisecond))
			require.Len(t, k.Drain(), 1)
			time.Sleep(500 * time.Millisecond)
			require.Len(t, k.Drain(), 1)
		})
	})

	t.Run("a Server that runs in the bubble runs jobs at their time, also retries and snoozes", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		synctest.Test(t, func(t *testing.T) {
			k := belaytest.New(t)
			server, err := belay.NewServer(k.Client(), belay.ServerConfig{})
			require.NoError(t, err)
			begin := time.Now()
			ranAfter := make(chan time.Duration, 9)
			results := []error{belay.Snooze(10 * time.Second), belay.RetryIn(20*time.Second, errBroken), nil}
			count.Handle(server, func(context.Context, int) error {
				ranAfter <- time.Since(begin)
				result := results[0]
				results = results[1:]
				return result
			})
			ended := make(chan error)
			go func() { ended <- server.Run(context.Background()) }()
			push(t, k, 1, belay.In(time.Minute))
			for _, want := range []time.Duration{60 * time.Second, 70 * time.Second, 90 * time.Second} {
				// The poller sleeps until the next job is due, to the millisecond.
				require.InDelta(t, want, <-ranAfter, float64(20*time.Millisecond))
			}
			synctest.Wait()
			require.Empty(t, k.Waiting())
			server.Stop()
			require.NoError(t, <-ended)
		})
		t.Logf("90 s of a live server took %v", time.Since(began).Round(time.Millisecond))
	})
}
