package lua

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPush(t *testing.T) {
	keep(t,
		promise{"jobs_of_several_queues_at_their_backs_in_order", func(w *world) {
			w.push("q", "a")
			require.Equal(w, "pushed", ask(w, w.keys.Push([]QueueBatch{
				{Queue: "q", Jobs: []string{"b", "c"}}, {Queue: "r", Jobs: []string{"d"}},
			})))
			require.Equal(w, []string{"a", "b", "c"}, w.waiting("q"))
			require.Equal(w, []string{"d"}, w.waiting("r"))
			require.ElementsMatch(w, []string{"q", "r"}, w.texts("SMEMBERS", w.keys.Queues()))
		}},
		promise{"names_its_queue_again_after_Ruby_took_the_name_out", func(w *world) {
			w.push("q", "a")
			w.redis("SREM", w.keys.Queues(), "q")
			w.push("q", "b")
			require.Equal(w, []string{"q"}, w.texts("SMEMBERS", w.keys.Queues()))
		}},
		promise{"all_or_none", func(w *world) {
			w.redis("SET", w.keys.Queue("r"), "no list")
			w.unchanged(func() {
				refused(w, "WRONGTYPE", w.keys.Push([]QueueBatch{
					{Queue: "q", Jobs: []string{"a"}}, {Queue: "r", Jobs: []string{"b"}},
				}))
			})
		}},
		promise{"as_many_as_a_call_may_hold", func(w *world) {
			jobs := make([]string, MostItems)
			w.push("q", jobs...)
			require.Equal(w, MostItems, w.number("LLEN", w.keys.Queue("q")))
		}},
	)
}
