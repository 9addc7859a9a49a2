package belay_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/internal/drivertest"
)

// The first run fails at the third item and at the second page; the retry goes on with exactly these.
func TestEachAndPagesGoOnAfterAFailure(t *testing.T) {
	t.Parallel()
	client, err := belay.Open(t.Context(), drivertest.Redis(t).URL(), &belay.ClientConfig{Prefix: drivertest.Prefix(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	server := newServer(t, client, belay.ServerConfig{})
	boom := errors.New("boom")

	each := belay.Define[struct{}]("Each")
	items := make(chan string, 9)
	failed := false
	each.Handle(server, func(ctx context.Context, _ struct{}) error {
		return belay.Each(ctx, func(begin int, resumed bool) iter.Seq2[int, string] {
			require.Equal(t, failed, resumed)
			return func(yield func(int, string) bool) {
				for n := begin; n < 5 && yield(n, "abcde"[n:n+1]); n++ {
				}
			}
		}, func(_ context.Context, item string) error {
			if item == "c" && !failed {
				failed = true
				return belay.RetryIn(0, boom)
			}
			items <- item
			return nil
		})
	})

	pages := belay.Define[struct{}]("Pages")
	numbers := make(chan int, 9)
	broken := false
	pages.Handle(server, func(ctx context.Context, _ struct{}) error {
		return belay.Pages(ctx, func(_ context.Context, from int) ([]int, error) {
			if from == 2 && !broken {
				broken = true
				return nil, belay.RetryIn(0, boom)
			}
			six := []int{1, 2, 3, 4, 5, 6}
			first, _ := slices.BinarySearch(six, from)
			return six[first:min(first+2, len(six))], nil
		}, func(n int) int { return n }, func(_ context.Context, n int) error {
			numbers <- n
			return nil
		})
	})
	for _, class := range []*belay.Definition[struct{}]{each, pages} {
		_, err := class.Enqueue(t.Context(), client, struct{}{})
		require.NoError(t, err)
	}
	running(t, server)
	for _, want := range []string{"a", "b", "c", "d", "e"} {
		require.Equal(t, want, awaitValue(t, "an item", items))
	}
	for want := range 6 {
		require.Equal(t, want+1, awaitValue(t, "a number", numbers))
	}
	time.Sleep(10 * tick)
	require.Empty(t, items)
	require.Empty(t, numbers)
}

// The page that begins with the cursor of the last two rows is these two rows, however often it is read.
func TestPagesRefusesTwoItemsWithOneCursor(t *testing.T) {
	t.Parallel()
	client, err := belay.Open(t.Context(), drivertest.Redis(t).URL(), &belay.ClientConfig{Prefix: drivertest.Prefix(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	server := newServer(t, client, belay.ServerConfig{})
	type row struct{ id, createdAt int }
	rows := []row{{1, 10}, {2, 20}, {3, 20}}
	ended := make(chan error, 1)
	class := belay.Define[struct{}]("Ties", belay.NoRetry())
	class.Handle(server, func(ctx context.Context, _ struct{}) error {
		reads := 0
		err := belay.Pages(ctx, func(_ context.Context, from int) ([]row, error) {
			if reads++; reads > 10 {
				return nil, errors.New("it read three rows for the tenth time")
			}
			first := slices.IndexFunc(rows, func(r row) bool { return r.createdAt >= from })
			return rows[first:], nil
		}, func(r row) int { return r.createdAt }, func(context.Context, row) error { return nil })
		ended <- err
		return err
	})
	_, err = class.Enqueue(t.Context(), client, struct{}{})
	require.NoError(t, err)
	running(t, server)
	require.ErrorContains(t, awaitValue(t, "the end of the run", ended), "two items have the cursor 20")
}
