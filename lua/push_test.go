package lua

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPush(t *testing.T) {
	keep(t,
		promise{"jobs_of_several_queues_at_their_backs_in_order", func(w *world) {
			w.push("q", "a")
			require.Equal(w, "pushed", ask(w, w.keys.Push([]QueueBatch{
				{Queue: "q", Jobs: []string{"b", "c"}}, {Queue: "r", Jobs: []string{"d"}},
			}, nil)))
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
				}, nil))
			})
		}},
		promise{"for_later_by_Redis_clock_or_at_an_instant", func(w *world) {
			at := time.Unix(2_000_000_000, 250_000_000)
			before := w.now()
			require.Equal(w, "pushed", ask(w, w.keys.Push([]QueueBatch{{Queue: "q", Jobs: []string{"now"}}}, []Scheduled{
				{Job: "in", In: time.Hour}, {Job: "at", At: at},
			})))
			require.Equal(w, []string{"now"}, w.waiting("q"))
			require.InDelta(w, before+3600, w.score(w.keys.Schedule(), "in"), 60)
			require.GreaterOrEqual(w, w.score(w.keys.Schedule(), "in"), before+3600, "never early")
			require.InDelta(w, 2_000_000_000.25, w.score(w.keys.Schedule(), "at"), 1e-6)
			require.Equal(w, []string{"q"}, w.texts("SMEMBERS", w.keys.Queues()), "Ruby names no queue for a scheduled job")
		}},
		promise{"nothing_when_the_schedule_is_broken", func(w *world) {
			w.redis("SET", w.keys.Schedule(), "no set")
			w.unchanged(func() {
				refused(w, "WRONGTYPE", w.keys.Push([]QueueBatch{{Queue: "q", Jobs: []string{"a"}}}, []Scheduled{{Job: "b", In: time.Hour}}))
			})
		}},
		promise{"as_many_as_a_call_may_hold", func(w *world) {
			jobs := make([]string, MostItems)
			w.push("q", jobs...)
			require.Equal(w, MostItems, w.number("LLEN", w.keys.Queue("q")))
		}},
	)
}
