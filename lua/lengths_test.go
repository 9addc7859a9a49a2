package lua

import (
	"cmp"
	"fmt"
	"slices"
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
		promise{"of_all_queues_are_on_several_pages", func(w *world) {
			names := []string{"SADD", w.keys.Queues()}
			for n := range 3 * MaxItems {
				names = append(names, fmt.Sprint("q", n))
			}
			w.redis(names...)
			w.push("q7", "1", "2")
			w.redis("LPUSH", w.keys.Quarantine("q8"), "1")
			w.redis("SET", w.keys.Queue("q9"), "no list")
			sizes, err := w.keys.QueueSizes(w.Context(), w.client)
			require.NoError(w, err)
			require.Len(w, sizes, 3*MaxItems)
			slices.SortFunc(sizes, func(a, b QueueSize) int { return cmp.Or(len(a.Name)-len(b.Name), cmp.Compare(a.Name, b.Name)) })
			require.Equal(w, []QueueSize{{"q6", 0, 0}, {"q7", 2, 0}, {"q8", 0, 1}, {"q9", -1, 0}, {"q10", 0, 0}}, sizes[6:11])
			w.redis("DEL", w.keys.Queues())
			sizes, err = w.keys.QueueSizes(w.Context(), w.client)
			require.NoError(w, err)
			require.Empty(w, sizes)
			w.redis("SET", w.keys.Queues(), "no set")
			_, err = w.keys.QueueSizes(w.Context(), w.client)
			require.ErrorContains(w, err, "WRONGTYPE")
		}},
	)
}
