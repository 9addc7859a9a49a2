package belaytest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

// ledger has the kinds of values that a program may return from world: a map, pointers, unexported fields, a
// time.
type ledger struct {
	Paid map[int]int
	last *time.Time
	next *ledger
}

func TestIdempotent(t *testing.T) {
	t.Parallel()
	t.Run("passes an idempotent handler, though world always returns the same pointer", func(t *testing.T) {
		t.Parallel()
		l := &ledger{Paid: map[int]int{}}
		l.next = l
		belaytest.Idempotent(t, count, func(_ context.Context, n int) error {
			l.Paid[n] = 100
			return nil
		}, 7, func() any { return l })
		require.Equal(t, 100, l.Paid[7])
	})

	t.Run("fails for another handler, and shows the difference", func(t *testing.T) {
		t.Parallel()
		for _, change := range []func(l *ledger){
			func(l *ledger) { l.Paid[7] += 100 },
			func(l *ledger) { l.last = new(time.Now()) },
			func(l *ledger) { l.next = &ledger{next: l.next} },
		} {
			l := &ledger{Paid: map[int]int{}}
			text := failuresOf(t, func(tb testing.TB) {
				belaytest.Idempotent(tb, count, func(context.Context, int) error {
					change(l)
					return nil
				}, 7, func() any { return l })
			})
			require.Contains(t, text, "Count is not idempotent: the second run changed what world returns")
			require.Contains(t, text, "Diff:")
		}
	})

	t.Run("shows jobs that are pushed twice in few lines", func(t *testing.T) {
		t.Parallel()
		other := belaytest.New(t)
		text := failuresOf(t, func(tb testing.TB) {
			belaytest.Idempotent(tb, count, func(ctx context.Context, _ int) error {
				_, err := count.Enqueue(ctx, other.Client(), 42)
				return err
			}, 7, func() any { return other.Waiting() })
		})
		require.Contains(t, text, `"args":[42]`)
		require.NotContains(t, text, "span")
		require.Less(t, strings.Count(text, "\n"), 40, text)
	})

	t.Run("runs the same job twice as after a crash: same jid, same bytes, same attempt", func(t *testing.T) {
		t.Parallel()
		var runs []belay.RunInfo
		belaytest.Idempotent(t, belay.Define[int]("Later", belay.In(time.Hour), belay.Queue("slow")), func(ctx context.Context, _ int) error {
			run, _ := belay.Info(ctx)
			run.Identity = ""
			runs = append(runs, run)
			return nil
		}, 1, func() any { return nil })
		require.Len(t, runs, 2)
		require.Equal(t, runs[0], runs[1])
		require.Equal(t, 1, runs[1].Attempt)
		require.Equal(t, "slow", runs[1].Queue)
	})

	t.Run("fails when a run fails", func(t *testing.T) {
		t.Parallel()
		ran := 0
		text := failuresOf(t, func(tb testing.TB) {
			belaytest.Idempotent(tb, count, func(context.Context, int) error {
				if ran++; ran == 2 {
					return errBroken
				}
				return nil
			}, 7, func() any { return nil })
		})
		require.Equal(t, "belaytest: Count [7], attempt 1, run 2 of two: the printer is broken\n", text)
	})
}
