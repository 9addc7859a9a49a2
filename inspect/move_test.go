package inspect

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
)

// oldestFirst are the payloads of a list in the order in which they are taken.
func (w *world) oldestFirst(key string) (payloads []string) {
	w.Helper()
	for _, part := range w.do("LRANGE", key, "0", "-1").([]any) {
		payloads = append(payloads, part.(string))
	}
	slices.Reverse(payloads)
	return payloads
}

func inQueueOf(class, queue string, n int) string {
	return fmt.Sprintf(`{"class":%q, "jid":"%s%d","args":[1.0,"é\/"],"queue":%q,"unique_for":1E2}`, class, class, n, queue)
}

func TestMove(t *testing.T) {
	promises(t, map[string]func(w *world){
		"keeps the order and every byte but the queue's name": func(w *world) {
			var want []string
			w.do("LPUSH", w.keys.Queue("mail"), "first")
			want = append(want, "first")
			for n := range 600 {
				w.do("LPUSH", w.keys.Queue("mial"), inQueueOf("A", "mial", n))
				want = append(want, inQueueOf("A", "mail", n))
			}
			w.do("LPUSH", w.keys.Queue("mial"), "garbage", inQueueOf("B", "mial", 1))
			want = append(want, inQueueOf("B", "mail", 1))
			tally, err := w.inspector.Move(w.Context(), Waiting("mial"), "mail", Selection{All: true}, nil)
			require.NoError(w, err)
			require.Equal(w, []int{601, 1}, []int{tally.Moved, tally.Refused}, tally.Problems)
			require.Equal(w, want, w.oldestFirst(w.keys.Queue("mail")))
			require.Equal(w, []string{"garbage"}, w.oldestFirst(w.keys.Queue("mial")))
			require.Equal(w, int64(1), w.do("SISMEMBER", w.keys.Queues(), "mail"))
		},
		"takes one class in its order while workers take from the same end": func(w *world) {
			var want, rest []string
			for n := range 1500 {
				class := []string{"A", "B", "B"}[n%3]
				w.do("LPUSH", w.keys.Queue("mixed"), inQueueOf(class, "mixed", n))
				if class == "A" {
					want = append(want, inQueueOf(class, "mail", n))
				} else {
					rest = append(rest, inQueueOf(class, "mixed", n))
				}
			}
			taken := 0
			worker := &betweenCalls{Client: w.driver, after: func(call driver.Call) {
				if call.Script != nil && call.Script.Name() == "act" && taken < 400 { // what was left of the pages so far is taken
					taken += 100
					for range 100 {
						w.do("RPOP", w.keys.Queue("mixed"))
					}
				}
			}}
			tally, err := (&Inspector{driver: worker, keys: w.keys}).Move(w.Context(), Waiting("mixed"), "mail", Selection{Class: "A"}, nil)
			require.NoError(w, err)
			require.Greater(w, taken, 200)
			got := w.oldestFirst(w.keys.Queue("mail"))
			require.Len(w, got, tally.Moved)
			left := w.oldestFirst(w.keys.Queue("mixed"))
			for _, payload := range left {
				require.NotContains(w, payload, `"class":"A"`, "none is passed over")
				require.Contains(w, rest, payload)
			}
			at := -1
			for _, payload := range got {
				next := slices.Index(want, payload)
				require.Greater(w, next, at, "in their order")
				at = next
			}
		},
		"leaves the quarantined quarantined, and others' locks alone": func(w *world) {
			w.do("LPUSH", w.keys.Quarantine("mial"), inQueueOf("A", "mial", 1), inQueueOf("A", "mial", 2))
			w.do("LPUSH", w.keys.Quarantine("mail"), "first")
			w.do("SET", w.keys.Lock("d"), "-j\nA\n1")
			_, err := w.inspector.Move(w.Context(), Quarantined("mial"), "mail", Selection{All: true}, nil)
			require.NoError(w, err)
			require.Equal(w, []string{"first", inQueueOf("A", "mail", 1), inQueueOf("A", "mail", 2)}, w.oldestFirst(w.keys.Quarantine("mail")))
			require.Empty(w, w.oldestFirst(w.keys.Queue("mail")))
			require.Equal(w, "-j\nA\n1", w.do("GET", w.keys.Lock("d")))
		},
		"refuses what makes no sense": func(w *world) {
			for _, c := range []struct {
				from Home
				to   string
			}{{Dead(), "mail"}, {Waiting("mail"), "mail"}, {Waiting("mail"), ""}} {
				_, err := w.inspector.Move(context.Background(), c.from, c.to, Selection{All: true}, nil)
				require.Error(w, err)
			}
			_, err := w.inspector.Act(context.Background(), Waiting("mail"), "move", Selection{All: true}, nil)
			require.Error(w, err)
		},
	})
}
