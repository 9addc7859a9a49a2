package web

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestTurnsGoRoundTheAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := turns{free: 1, waiting: make(map[string][]chan struct{})}
		require.True(t, all.take(t.Context(), "first"))
		var got []string
		wait := func(ctx context.Context, from, name string) {
			go func() {
				if all.take(ctx, from) {
					got = append(got, name)
				}
			}()
			synctest.Wait()
		}
		for _, name := range []string{"a1", "a2", "a3", "a4", "a5", "a6"} {
			wait(t.Context(), "a", name)
		}
		left, leave := context.WithCancel(t.Context())
		wait(left, "b", "b1")
		wait(left, "c", "c1")
		wait(t.Context(), "c", "c2")
		leave()
		synctest.Wait()
		for range 8 {
			all.pass()
			synctest.Wait()
		}
		require.Equal(t, []string{"a6", "c2", "a5", "a1", "a4", "a3", "a2"}, got, "the latest of an address first, and now and then the oldest")
		require.Empty(t, all.waiting)
		require.Equal(t, 1, all.free)
		require.Empty(t, all.order)
	})
}
