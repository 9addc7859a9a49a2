package lua

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTake(t *testing.T) {
	keep(t,
		promise{"oldest_first_in_the_order_of_the_queues", func(w *world) {
			identity := w.process("low", "high")
			w.push("low", "l1", "l2")
			w.push("high", "h1", "h2")
			require.Equal(w, Taken{Why: WhyEnough, Jobs: []TakenJobs{
				{Queue: 0, Bytes: []string{"h1", "h2"}}, {Queue: 1, Bytes: []string{"l1"}},
			}}, w.take(identity, 3, "high", "low"))
			require.Equal(w, []string{"h2", "h1"}, w.list(w.keys.Working("high", identity)), "newest at the head")
			require.Equal(w, []string{"l1"}, w.list(w.keys.Working("low", identity)))
			require.Equal(w, []string{"l2"}, w.waiting("low"))
		}},
		promise{"at_most_as_many_as_asked_for", func(w *world) {
			identity := w.process("q")
			w.push("q", "a", "b", "c")
			taken := w.take(identity, 2, "q")
			require.Equal(w, WhyEnough, taken.Why)
			require.Equal(w, []TakenJobs{{Bytes: []string{"a", "b"}}}, taken.Jobs)
			require.Equal(w, []string{"c"}, w.waiting("q"))
		}},
		promise{"never_more_than_a_call_may_move", func(w *world) {
			identity := w.process("q")
			for range 3 {
				w.push("q", strings.Split(strings.Repeat("x,", 99)+"x", ",")...)
			}
			taken := w.take(identity, 300, "q")
			require.Equal(w, WhyEnough, taken.Why)
			require.Len(w, taken.Jobs[0].Bytes, MaxItems)
			require.Len(w, w.waiting("q"), 300-MaxItems)
		}},
		promise{"says_empty_when_nothing_more_waits", func(w *world) {
			identity := w.process("q", "r")
			w.push("q", "a")
			taken := w.take(identity, 2, "q", "r")
			require.Equal(w, WhyEmpty, taken.Why)
			require.Equal(w, []TakenJobs{{Bytes: []string{"a"}}}, taken.Jobs)
			require.Equal(w, Taken{Why: WhyEmpty}, w.take(identity, 2, "q", "r"))
		}},
		promise{"passes_bytes_through_untouched", func(w *world) {
			odd := []string{"{\"n\":9007199254740993, \"f\":1.0,\"e\":[],\"o\":{}}", "\x00\r\n\xff\xfe", "ü\\u00fc", ""}
			identity := w.process("q\n:{}\x01")
			w.push("q\n:{}\x01", odd...)
			require.Equal(w, []TakenJobs{{Bytes: odd}}, w.take(identity, 9, "q\n:{}\x01").Jobs)
		}},
		promise{"passes_over_paused_queues_and_names_them", func(w *world) {
			identity := w.process("a", "b", "c")
			w.redis("SADD", w.keys.Paused(), "a", "c")
			w.push("a", "a1")
			w.push("b", "b1")
			require.Equal(w, Taken{Why: WhyEmpty, Paused: []int{0, 2}, Jobs: []TakenJobs{
				{Queue: 1, Bytes: []string{"b1"}},
			}}, w.take(identity, 5, "a", "b", "c"))
			require.Equal(w, []string{"a1"}, w.waiting("a"))
		}},
		promise{"names_a_broken_queue_and_serves_the_others", func(w *world) {
			identity := w.process("a", "b", "c")
			w.redis("SET", w.keys.Queue("a"), "no list")
			w.redis("SET", w.keys.Working("b", identity), "no list")
			w.push("b", "b1")
			w.push("c", "c1")
			taken := w.take(identity, 5, "a", "b", "c")
			require.Len(w, taken.Broken, 2)
			for position, err := range taken.Broken {
				require.Less(w, position, 2)
				require.ErrorContains(w, err, "WRONGTYPE")
			}
			taken.Broken = nil
			require.Equal(w, Taken{Why: WhyEmpty, Jobs: []TakenJobs{{Queue: 2, Bytes: []string{"c1"}}}}, taken)
			require.Equal(w, []string{"b1"}, w.waiting("b"))
		}},
		promise{"is_fenced_and_moves_nothing_for_one_who_never_registered", func(w *world) {
			w.push("q", "a")
			w.fenced("host:1:unknown")
		}},
		promise{"is_fenced_and_moves_nothing_for_one_who_has_lapsed", func(w *world) {
			identity := w.process("q")
			w.push("q", "a")
			w.lapse(identity)
			w.fenced(identity)
		}},
		promise{"is_fenced_and_moves_nothing_after_a_tombstone", func(w *world) {
			deserter, leaver := w.process("q"), w.process("q")
			w.push("q", "a")
			w.lapse(deserter)
			ask(w, w.keys.Recover(deserter, []string{"q"}, nil, w.today))
			w.fenced(deserter)
			ask(w, w.keys.Deregister(leaver, []string{"q"}))
			w.fenced(leaver)
		}},
		promise{"is_fenced_after_a_tombstone_even_if_its_expiry_lay_far_ahead", func(w *world) {
			identity := w.hold("a", "b")
			w.push("q", "c")
			w.redis("ZADD", w.keys.Alive(), "99999999999999", identity)
			answer := ask(w, w.keys.Recover(identity, []string{"q"}, nil, w.today))
			require.Equal(w, Recovered{State: StateDead, Left: 2}, answer)
			w.fenced(identity)
		}},
		promise{"names_what_is_too_large_and_goes_on", func(w *world) {
			identity := w.process("p", "q")
			large := strings.Repeat("x", 101)
			w.push("q", "a", large, strings.Repeat("y", 100), "b")
			taken := ask(w, w.keys.Take(identity, []string{"p", "q"}, 3, MaxBytes, 100))
			require.Equal(w, WhyEnough, taken.Why)
			require.Equal(w, []TakenJobs{{Queue: 1, Bytes: []string{"a", strings.Repeat("y", 100), "b"}}}, taken.Jobs)
			require.Equal(w, []Large{{At: 1, Bytes: 101, Head: large, Tail: large}}, taken.Large)
			require.Equal(w, []string{"b", strings.Repeat("y", 100), large, "a"}, w.list(w.keys.Working("q", identity)))
		}},
		promise{"says_of_what_is_too_large_only_its_ends", func(w *world) {
			identity := w.process("q")
			large := "{" + strings.Repeat("x", 3000) + "}"
			w.push("q", large)
			taken := ask(w, w.keys.Take(identity, []string{"q"}, 3, MaxBytes, 100))
			require.Equal(w, []Large{LargeOf(large)}, taken.Large)
			require.Len(w, taken.Large[0].Head+taken.Large[0].Tail, 2*1024)
		}},
		promise{"ends_a_page_by_its_bytes", func(w *world) {
			identity := w.process("q", "r")
			for range 5 {
				w.push("q", strings.Repeat("x", 1<<20))
			}
			w.push("r", "never stands in front")
			taken := w.take(identity, 10, "q", "r")
			require.Equal(w, WhyBytes, taken.Why)
			require.Len(w, taken.Jobs, 1)
			require.Len(w, taken.Jobs[0].Bytes, MaxBytes>>20)
			require.Equal(w, WhyEmpty, w.take(identity, 10, "q", "r").Why)
		}},
	)
}

func (w *world) fenced(identity string) {
	w.Helper()
	w.unchanged(func() {
		require.Equal(w, Taken{Why: WhyFenced}, w.take(identity, 5, "q"))
	})
}
