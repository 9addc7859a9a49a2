package lua

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLease(t *testing.T) {
	keep(t,
		promise{"one_holds_it_and_others_find_it_busy", func(w *world) {
			require.True(w, ask(w, Lease(w.keys.Sweeper(), "a", time.Minute)))
			w.unchanged(func() { require.False(w, ask(w, Lease(w.keys.Sweeper(), "b", time.Hour))) })
			require.True(w, ask(w, Lease(w.keys.Claim("x"), "b", time.Minute)), "another lease is free")
		}},
		promise{"ends_by_itself_when_its_time_is_over", func(w *world) {
			require.True(w, ask(w, Lease(w.keys.Sweeper(), "a", time.Minute)))
			left := w.number("PTTL", w.keys.Sweeper())
			require.Positive(w, left)
			require.LessOrEqual(w, left, 60_000)
			w.redis("PEXPIRE", w.keys.Sweeper(), "0")
			require.True(w, ask(w, Lease(w.keys.Sweeper(), "b", time.Minute)))
		}},
		promise{"its_holder_may_prolong_it", func(w *world) {
			require.True(w, ask(w, Lease(w.keys.Sweeper(), "a", time.Minute)))
			require.True(w, ask(w, Lease(w.keys.Sweeper(), "a", time.Hour)))
			require.Greater(w, w.number("PTTL", w.keys.Sweeper()), 60_000)
		}},
	)
}
