package lua

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLengths(t *testing.T) {
	keep(t,
		promise{"one_for_each_list_and_less_than_none_for_what_is_no_list", func(w *world) {
			w.push("a", "1", "2")
			w.redis("SET", w.keys.Queue("b"), "no list")
			w.push("d", "1")
			lists := []string{w.keys.Queue("a"), w.keys.Queue("b"), w.keys.Queue("c"), w.keys.Queue("d")}
			require.Equal(w, []int{2, -1, 0, 1}, ask(w, Lengths(lists)))
		}},
		promise{"of_no_lists_there_are_none", func(w *world) {
			require.Empty(w, ask(w, Lengths(nil)))
		}},
	)
}
