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
			w.unchanged(func() { require.False(w, ask(w, Lease(w.keys.Sweeper(), "b", time.Minute))) })
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
		promise{"is_free_when_it_would_outlast_what_is_asked_because_the_clock_was_set_back", func(w *world) {
			require.True(w, ask(w, Lease(w.keys.Poller(), "dead", time.Minute)))
			w.redis("PEXPIRE", w.keys.Poller(), "3660000") // what an hour back makes of a minute
			require.True(w, ask(w, Lease(w.keys.Poller(), "b", time.Minute)))
			require.Equal(w, "b", w.redis("GET", w.keys.Poller()))
			require.LessOrEqual(w, w.number("PTTL", w.keys.Poller()), 60_000)
			w.unchanged(func() { require.False(w, ask(w, Lease(w.keys.Poller(), "dead", time.Minute))) })
		}},
		promise{"of_a_living_holder_is_right_again_at_its_next_call_after_the_clock_was_set_back", func(w *world) {
			require.True(w, ask(w, Lease(w.keys.Poller(), "a", time.Minute)))
			w.redis("PEXPIRE", w.keys.Poller(), "3660000")
			require.True(w, ask(w, Lease(w.keys.Poller(), "a", time.Minute)))
			require.LessOrEqual(w, w.number("PTTL", w.keys.Poller()), 60_000)
		}},
		promise{"without_an_end_is_free", func(w *world) {
			w.redis("SET", w.keys.Poller(), "another")
			require.True(w, ask(w, Lease(w.keys.Poller(), "b", time.Minute)))
		}},
	)
}
