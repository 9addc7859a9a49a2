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
				require.Equal(w, want[:MaxItems], ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, MaxBytes, noLimit)).Entries)
				require.Equal(w, want[MaxItems:], ask(w, w.keys.Entries(w.keys.Working("q", identity), MaxItems, MaxBytes, noLimit)).Entries)
				require.Empty(w, ask(w, w.keys.Entries(w.keys.Working("q", identity), len(want), MaxBytes, noLimit)).Entries)
			})
		}},
		promise{"there_are_none_in_a_list_that_is_not_there", func(w *world) {
			require.Empty(w, ask(w, w.keys.Entries(w.keys.Working("q", "host:1:x"), 0, MaxBytes, noLimit)).Entries)
		}},
		promise{"names_what_is_too_large_for_a_page", func(w *world) {
			large, larger := LargeOf(strings.Repeat("x", 101)), LargeOf(strings.Repeat("x", 102))
			identity := w.hold("a", large.Head, strings.Repeat("y", 100), larger.Head, "b")
			w.unchanged(func() {
				listed := ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, MaxBytes, 100))
				require.Equal(w, []string{"b", strings.Repeat("y", 100), "a"}, listed.Entries)
				larger.At, large.At = 1, 3
				require.Equal(w, []Large{larger, large}, listed.Large)
			})
		}},
		promise{"ends_a_page_by_its_bytes", func(w *world) {
			identity := w.process("q")
			for i := range 5 {
				w.redis("LPUSH", w.keys.Working("q", identity), strconv.Itoa(i)+strings.Repeat("x", 1<<20))
			}
			require.Len(w, ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, MaxBytes, noLimit)).Entries, MaxBytes>>20)
			require.Len(w, ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, 3<<20, noLimit)).Entries, 3, "a caller may want less")
			require.Len(w, ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, 1, noLimit)).Entries, 1, "one job whatever its size")
		}},
		promise{"gets_past_any_number_of_jobs_too_large", func(w *world) {
			identity := w.hold("small")
			for i := range 9 {
				w.redis("LPUSH", w.keys.Working("q", identity), strconv.Itoa(i)+strings.Repeat("x", 1<<20))
			}
			first := 0
			for first < 9 {
				listed := ask(w, w.keys.Entries(w.keys.Working("q", identity), first, MaxBytes, 1<<20))
				require.NotEmpty(w, listed.Large)
				require.Equal(w, first, listed.Large[0].At)
				first += len(listed.Large) + len(listed.Entries)
			}
			require.Equal(w, []string{"small"}, ask(w, w.keys.Entries(w.keys.Working("q", identity), 9, MaxBytes, 1<<20)).Entries)
		}},
	)
}
