package lua

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEntries(t *testing.T) {
	keep(t,
		promise{"pages_newest_first_and_moves_nothing", func(w *world) {
			identity, want := w.process("q"), make([]string, 300)
			for i := range want {
				want[len(want)-1-i] = strconv.Itoa(i)
				w.redis("LPUSH", w.keys.Working("q", identity), strconv.Itoa(i))
			}
			w.unchanged(func() {
				require.Equal(w, want[:MostItems], ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, MostBytes, noLimit)))
				require.Equal(w, want[MostItems:], ask(w, w.keys.Entries(w.keys.Working("q", identity), MostItems, MostBytes, noLimit)))
				require.Empty(w, ask(w, w.keys.Entries(w.keys.Working("q", identity), len(want), MostBytes, noLimit)))
			})
		}},
		promise{"there_are_none_in_a_list_that_is_not_there", func(w *world) {
			require.Empty(w, ask(w, w.keys.Entries(w.keys.Working("q", "host:1:x"), 0, MostBytes, noLimit)))
		}},
		promise{"buries_what_is_too_large_for_a_page", func(w *world) {
			large, larger := strings.Repeat("x", 101), strings.Repeat("x", 102)
			identity := w.hold("a", large, strings.Repeat("y", 100), larger, "b")
			require.Equal(w, []string{"b", strings.Repeat("y", 100), "a"}, ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, MostBytes, 100)))
			require.Equal(w, []string{"b", strings.Repeat("y", 100), "a"}, w.list(w.keys.Working("q", identity)))
			require.ElementsMatch(w, []string{large, larger}, w.sorted(w.keys.Dead()))
			require.NotEqual(w, w.score(w.keys.Dead(), large), w.score(w.keys.Dead(), larger), "told apart by score")
		}},
		promise{"a_dead_set_of_a_wrong_type_loses_nothing_and_hides_nothing", func(w *world) {
			identity := w.hold("a", "too large", "b")
			w.redis("SET", w.keys.Dead(), "no set")
			w.unchanged(func() {
				require.Equal(w, []string{"b", "a"}, ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, MostBytes, 5)))
			})
		}},
		promise{"ends_a_page_by_its_bytes", func(w *world) {
			identity := w.process("q")
			for i := range 5 {
				w.redis("LPUSH", w.keys.Working("q", identity), strconv.Itoa(i)+strings.Repeat("x", 1<<20))
			}
			require.Len(w, ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, MostBytes, noLimit)), MostBytes>>20)
			require.Len(w, ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, 3<<20, noLimit)), 3, "a caller may want less")
			require.Len(w, ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, 1, noLimit)), 1, "one job whatever its size")
		}},
		promise{"gets_past_any_number_of_jobs_too_large", func(w *world) {
			identity := w.hold("small")
			for i := range 9 {
				w.redis("LPUSH", w.keys.Working("q", identity), strconv.Itoa(i)+strings.Repeat("x", 1<<20))
			}
			for w.number("ZCARD", w.keys.Dead()) < 9 {
				before := w.number("ZCARD", w.keys.Dead())
				require.NotContains(w, strings.Join(ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, MostBytes, 1<<20)), ""), "x")
				require.Greater(w, w.number("ZCARD", w.keys.Dead()), before)
			}
			require.Equal(w, []string{"small"}, ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, MostBytes, 1<<20)))
		}},
	)
}
