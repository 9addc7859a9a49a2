package belaytest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

// names returns the arguments of the runs, in order.
func names(runs []belaytest.Run) []string {
	all := []string{}
	for _, run := range runs {
		all = append(all, run.Job.ArgsJSON())
	}
	return all
}

// counter returns a kit whose handler of Count jobs is do.
func counter(t testing.TB, do func(ctx context.Context, k *belaytest.Kit, n int) error) *belaytest.Kit {
	k := belaytest.New(t)
	k.Serve(func(s *belay.Server) {
		count.Handle(s, func(ctx context.Context, n int) error { return do(ctx, k, n) })
	})
	return k
}

func push(t testing.TB, k *belaytest.Kit, n int, options ...belay.JobOption) {
	t.Helper()
	_, err := count.Enqueue(context.Background(), k.Client(), n, options...)
	require.NoError(t, err)
}

func nothing(context.Context, *belaytest.Kit, int) error { return nil }

// countdown pushes the next lower number.
func countdown(ctx context.Context, k *belaytest.Kit, n int) error {
	if n == 0 {
		return nil
	}
	_, err := count.Enqueue(ctx, k.Client(), n-1)
	return err
}

var errBroken = errors.New("the printer is broken")

func broken(context.Context, *belaytest.Kit, int) error { return errBroken }

func TestDrain(t *testing.T) {
	t.Parallel()
	t.Run("runs waiting jobs and the jobs that they push, oldest first, each once", func(t *testing.T) {
		t.Parallel()
		k := counter(t, countdown)
		push(t, k, 2)
		push(t, k, 10, belay.Queue("later"))
		push(t, k, 0)
		runs := k.Drain()
		require.Equal(t, []string{"[2]", "[0]", "[1]", "[0]"}, names(runs)[:4])
		require.Equal(t, "[10]", names(runs)[4], "the job of the queue whose oldest job is younger")
		require.Len(t, runs, 15)
		require.Empty(t, k.Waiting())
		require.Empty(t, k.Drain())
		require.Equal(t, runs, k.Runs())
	})

	t.Run("leaves scheduled jobs", func(t *testing.T) {
		t.Parallel()
		k := counter(t, nothing)
		push(t, k, 1, belay.In(time.Hour))
		require.Empty(t, k.Drain())
		require.Len(t, k.Waiting(), 1)
	})

	t.Run("fails the test when a run fails, and does not run the retry", func(t *testing.T) {
		t.Parallel()
		text := failuresOf(t, func(tb testing.TB) {
			k := counter(tb, broken)
			push(tb, k, 7)
			require.Len(t, k.Drain(), 1)
			require.Len(t, k.Waiting(), 1)
			require.Contains(t, k.Waiting()[0].String(), "Count [7] in queue default, retry 1 due in ")
			require.Empty(t, k.Drain())
		})
		require.Equal(t, "belaytest: Count [7], attempt 1: the printer is broken\n", text)
	})

	t.Run("reports failures to a registered callback instead", func(t *testing.T) {
		t.Parallel()
		k := counter(t, func(_ context.Context, _ *belaytest.Kit, n int) error {
			return []error{errBroken, belay.Discard(nil), belay.Discard(errBroken), belay.Snooze(time.Hour), nil}[n]
		})
		var failed []belaytest.Run
		k.OnFailure(func(r belaytest.Run) { failed = append(failed, r) })
		for n := range 5 {
			push(t, k, n)
		}
		runs := k.Drain()
		require.Equal(t, []string{"[0]", "[2]"}, names(failed))
		require.ErrorIs(t, runs[0].Err, errBroken)
		require.Error(t, runs[3].Err, "a snooze has an error and is not a failure")
		require.NoError(t, runs[4].Err)
	})

	t.Run("reports failures that no handler returns", func(t *testing.T) {
		t.Parallel()
		k := counter(t, func(_ context.Context, _ *belaytest.Kit, n int) error { panic(errBroken) })
		k.OnFailure(func(belaytest.Run) {})
		push(t, k, 1)
		_, err := k.Client().Push(t.Context(), belay.RawJob{Class: "Unknown"})
		require.NoError(t, err)
		_, err = k.Client().Push(t.Context(), belay.RawJob{Class: "Count", Args: []any{"one"}})
		require.NoError(t, err)
		runs := k.Drain()
		require.Len(t, runs, 3)
		var panicked *belay.PanicError
		require.ErrorAs(t, runs[0].Err, &panicked)
		require.ErrorContains(t, runs[1].Err, "no handler is registered")
		require.ErrorContains(t, runs[2].Err, "argument")
	})

	t.Run("says how to register a handler", func(t *testing.T) {
		t.Parallel()
		text := failuresOf(t, func(tb testing.TB) {
			k := belaytest.New(tb)
			push(t, k, 1)
			k.Drain()
		})
		require.Contains(t, text, `no handler is registered for the class "Count"; pass Kit.Serve the function that registers it`)
	})

	t.Run("ends after a handler that fails the test", func(t *testing.T) {
		t.Parallel()
		text := failuresOf(t, func(tb testing.TB) {
			k := counter(tb, func(context.Context, *belaytest.Kit, int) error {
				tb.Fatalf("failed by the handler")
				return nil
			})
			push(tb, k, 1)
			push(tb, k, 2)
			require.Len(t, k.Drain(), 2)
		})
		require.Contains(t, text, "failed by the handler")
	})

	t.Run("reports an invalid config of the server", func(t *testing.T) {
		t.Parallel()
		text := failuresOf(t, func(tb testing.TB) {
			k := counter(tb, nothing)
			k.Configure(belay.ServerConfig{Concurrency: -1})
			push(tb, k, 1)
			require.Empty(t, k.Drain())
		})
		require.Contains(t, text, "concurrency -1")
	})

	t.Run("runs as many jobs at once as the server's config allows", func(t *testing.T) {
		t.Parallel()
		met := make(chan struct{})
		k := counter(t, func(context.Context, *belaytest.Kit, int) error {
			select { // each run waits for the other
			case met <- struct{}{}:
			case <-met:
			}
			return nil
		})
		k.Configure(belay.ServerConfig{Concurrency: 2, Queues: belay.Queues("never used")})
		push(t, k, 1)
		push(t, k, 2)
		require.Len(t, k.Drain(), 2)
	})

	t.Run("does not cancel its last job", func(t *testing.T) {
		t.Parallel()
		k := counter(t, func(ctx context.Context, _ *belaytest.Kit, _ int) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(50 * time.Millisecond):
				return nil
			}
		})
		k.Configure(belay.ServerConfig{ShutdownTimeout: time.Millisecond})
		push(t, k, 1)
		require.NoError(t, k.Drain()[0].Err)
	})
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	t.Run("runs the jobs that come due in that time, in that order, and the jobs that they push", func(t *testing.T) {
		t.Parallel()
		k := counter(t, func(ctx context.Context, k *belaytest.Kit, n int) error {
			if n != 1 {
				return nil
			}
			_, err := count.Enqueue(ctx, k.Client(), 2, belay.In(time.Hour))
			return err
		})
		push(t, k, 3, belay.In(150*time.Minute))
		push(t, k, 1, belay.In(time.Hour))
		push(t, k, 4, belay.In(4*time.Hour))
		push(t, k, 0)
		require.Equal(t, []string{"[0]", "[1]", "[2]", "[3]"}, names(k.Advance(3*time.Hour)))
		require.Len(t, k.Waiting(), 1)
		require.InDelta(t, time.Hour, time.Until(k.Waiting()[0].At), float64(30*time.Second))
		require.Empty(t, k.Advance(30*time.Minute))
		require.Equal(t, []string{"[4]"}, names(k.Advance(30*time.Minute)))
	})

	t.Run("runs the retry of a failed job", func(t *testing.T) {
		t.Parallel()
		k := counter(t, func(ctx context.Context, _ *belaytest.Kit, _ int) error {
			if run, _ := belay.Info(ctx); run.Attempt == 1 {
				return belay.RetryIn(time.Minute, errBroken)
			}
			return nil
		})
		k.OnFailure(func(belaytest.Run) {})
		push(t, k, 1)
		require.Len(t, k.Drain(), 1)
		require.Empty(t, k.Advance(50*time.Second))
		runs := k.Advance(10 * time.Second)
		require.Len(t, runs, 1)
		require.Equal(t, 2, runs[0].Attempt)
		require.NoError(t, runs[0].Err)
		require.Empty(t, k.Waiting())
	})
}

func TestDrainAll(t *testing.T) {
	t.Parallel()
	t.Run("runs failed jobs until they are dead, and scheduled jobs", func(t *testing.T) {
		t.Parallel()
		failures := 0
		k := counter(t, broken)
		k.OnFailure(func(belaytest.Run) { failures++ })
		push(t, k, 1, belay.In(time.Hour), belay.Retries(2))
		push(t, k, 2, belay.NoRetry())
		require.Equal(t, []string{"[2]", "[1]", "[1]", "[1]"}, names(k.DrainAll()))
		require.Equal(t, 4, failures)
		require.Empty(t, k.Waiting())
		dead := k.Dead()
		require.Len(t, dead, 1)
		message, _ := dead[0].Text("error_message")
		require.Equal(t, errBroken.Error(), message)
	})
}

func TestInline(t *testing.T) {
	t.Parallel()
	t.Run("runs the job, and the jobs that it pushes, before the push returns", func(t *testing.T) {
		t.Parallel()
		var began, ended []int
		k := counter(t, func(ctx context.Context, k *belaytest.Kit, n int) error {
			began = append(began, n)
			err := countdown(ctx, k, n)
			ended = append(ended, n)
			return err
		})
		k.Inline()
		push(t, k, 2)
		require.Equal(t, []int{2, 1, 0}, began)
		require.Equal(t, []int{0, 1, 2}, ended, "each run is inside the push of the previous one")
	})

	t.Run("works with a repeatable push in a bubble", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var ran []int
			k := counter(t, func(ctx context.Context, k *belaytest.Kit, n int) error {
				ran = append(ran, n)
				return countdown(ctx, k, n)
			})
			k.Inline()
			push(t, k, 2, belay.PushOnce())
			push(t, k, 0, belay.PushOnce(), belay.Replicated(2, time.Second))
			require.Equal(t, []int{2, 1, 0, 0}, ran)
		})
	})

	t.Run("works with locks, keys and batches", func(t *testing.T) {
		t.Parallel()
		var ran []int
		k := counter(t, func(_ context.Context, _ *belaytest.Kit, n int) error {
			ran = append(ran, n)
			return nil
		})
		k.Inline()
		push(t, k, 1, belay.Unique(belay.UntilExecuted))
		require.Equal(t, []int{1}, ran)
		push(t, k, 2, belay.Key("two", time.Hour))
		require.Equal(t, []int{1, 2}, ran)
		_, err := belay.NewBatch(t.Context(), k.Client(), belay.BatchConfig{OnSuccess: count.Job(4)}, func(b *belay.Batch) error {
			push(t, k, 3, belay.InBatch(b))
			require.Equal(t, []int{1, 2, 3}, ran)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []int{1, 2, 3, 4}, ran)
	})

	t.Run("lets the push succeed, reports the failure, and runs no retry", func(t *testing.T) {
		t.Parallel()
		text := failuresOf(t, func(tb testing.TB) {
			k := counter(tb, broken)
			k.Inline()
			push(tb, k, 1)
			push(tb, k, 2)
			require.Len(t, k.Runs(), 2)
			require.Len(t, k.Waiting(), 2)
		})
		require.Equal(t, "belaytest: Count [1], attempt 1: the printer is broken\nbelaytest: Count [2], attempt 1: the printer is broken\n", text)
	})

	t.Run("leaves scheduled jobs", func(t *testing.T) {
		t.Parallel()
		k := counter(t, nothing)
		k.Inline()
		push(t, k, 1, belay.In(time.Hour))
		require.Empty(t, k.Runs())
		require.Len(t, k.Advance(time.Hour), 1)
	})

	t.Run("fails the test when a job pushes itself without end", func(t *testing.T) {
		t.Parallel()
		text := failuresOf(t, func(tb testing.TB) {
			k := counter(tb, func(ctx context.Context, k *belaytest.Kit, n int) error {
				if len(k.Runs()) > 50 {
					return nil // ends the test if the limit does not work
				}
				_, err := count.Enqueue(ctx, k.Client(), n)
				return err
			})
			k.Inline()
			push(tb, k, 1)
		})
		require.Contains(t, text, "does a job push itself?")
	})
}
