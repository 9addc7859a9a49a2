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

// enqueue pushes a job and returns its receipt.
func enqueue[T any](t testing.TB, k *belaytest.Kit, d *belay.Definition[T], args T, options ...belay.JobOption) belay.Receipt {
	t.Helper()
	receipt, err := d.Enqueue(context.Background(), k.Client(), args, options...)
	require.NoError(t, err)
	return receipt
}

func TestUnique(t *testing.T) {
	t.Parallel()
	reindex := belay.Define[int]("Reindex", belay.Unique(belay.UntilExecuted))
	t.Run("a duplicate is refused until the job has run", func(t *testing.T) {
		t.Parallel()
		k := belaytest.New(t)
		k.Serve(func(s *belay.Server) { reindex.Handle(s, func(context.Context, int) error { return nil }) })
		first := enqueue(t, k, reindex, 42)
		second := enqueue(t, k, reindex, 42)
		require.Equal(t, belay.StatusDuplicate, second.Status)
		require.Equal(t, first.JID, second.Holder)
		require.Equal(t, first.JID, belaytest.RequireEnqueued(t, k, reindex, 42).Job.JID())
		require.Len(t, k.Drain(), 1)
		require.Equal(t, belay.StatusQueued, enqueue(t, k, reindex, 42).Status)
		require.Equal(t, belay.StatusQueued, enqueue(t, k, reindex, 42, belay.NotUnique()).Status)
	})
	t.Run("a failed job keeps its lock, and a discarded one does not", func(t *testing.T) {
		t.Parallel()
		k := belaytest.New(t)
		k.OnFailure(func(belaytest.Run) {})
		answer := errors.New("not today")
		k.Serve(func(s *belay.Server) { reindex.Handle(s, func(context.Context, int) error { return answer }) })
		enqueue(t, k, reindex, 42)
		k.Drain()
		require.Equal(t, belay.StatusDuplicate, enqueue(t, k, reindex, 42).Status)
		answer = belay.Discard(nil)
		require.Len(t, k.DrainAll(), 1)
		require.Equal(t, belay.StatusQueued, enqueue(t, k, reindex, 42).Status)
	})
	t.Run("with UntilExecuting a handler may push the next job", func(t *testing.T) {
		t.Parallel()
		next := belay.Define[int]("Next", belay.Unique(belay.UntilExecuting))
		k := belaytest.New(t)
		left := 3
		k.Serve(func(s *belay.Server) {
			next.Handle(s, func(context.Context, int) error {
				if left--; left > 0 {
					require.Equal(t, belay.StatusQueued, enqueue(t, k, next, 1).Status)
					require.Equal(t, belay.StatusDuplicate, enqueue(t, k, next, 1).Status)
				}
				return nil
			})
		})
		enqueue(t, k, next, 1)
		require.Len(t, k.Drain(), 3)
	})
	t.Run("pushes that are refused during the run lead to one more run", func(t *testing.T) {
		t.Parallel()
		again := belay.Define[int]("Again", belay.Unique(belay.UntilExecuted, belay.UniqueOpts{RescheduleOnce: true}))
		k := belaytest.New(t)
		runs := 0
		k.Serve(func(s *belay.Server) {
			again.Handle(s, func(context.Context, int) error {
				if runs++; runs == 1 {
					for range 3 {
						require.Equal(t, belay.StatusDuplicate, enqueue(t, k, again, 1).Status)
					}
				}
				return nil
			})
		})
		enqueue(t, k, again, 1)
		require.Equal(t, belay.StatusDuplicate, enqueue(t, k, again, 1).Status, "the first run serves this push")
		require.Len(t, k.Drain(), 2)
		require.Equal(t, 2, runs)
	})
	t.Run("a lock expires by the bubble's clock", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			k := belaytest.New(t)
			for range 2 {
				require.Equal(t, belay.StatusQueued, enqueue(t, k, reindex, 42).Status)
				time.Sleep(6*time.Hour - time.Second)
				require.Equal(t, belay.StatusDuplicate, enqueue(t, k, reindex, 42).Status)
				time.Sleep(2 * time.Second)
			}
		})
	})
}
