package inspect

import (
	"cmp"
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
			counts, err := w.inspector.Act(w.Context(), Task{Home: Waiting("mial"), Action: Move, Selection: Selection{All: true}, To: "mail"}, nil)
			require.NoError(w, err)
			require.Equal(w, []int{601, 1}, []int{counts.Moved, counts.Refused}, counts.Problems)
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
			counts, err := w.inspectorOf(worker).Act(w.Context(), Task{Home: Waiting("mixed"), Action: Move, Selection: Selection{Filter: Filter{Class: "A"}}, To: "mail"}, nil)
			require.NoError(w, err)
			require.Greater(w, taken, 200)
			got := w.oldestFirst(w.keys.Queue("mail"))
			require.Len(w, got, counts.Moved)
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
			_, err := w.inspector.Act(w.Context(), Task{Home: Quarantined("mial"), Action: Move, Selection: Selection{All: true}, To: "mail"}, nil)
			require.NoError(w, err)
			require.Equal(w, []string{"first", inQueueOf("A", "mail", 1), inQueueOf("A", "mail", 2)}, w.oldestFirst(w.keys.Quarantine("mail")))
			require.Empty(w, w.oldestFirst(w.keys.Queue("mail")))
			require.Equal(w, "-j\nA\n1", w.do("GET", w.keys.Lock("d")))
		},
		"gives the jobs of a set another queue, and changes nothing else": func(w *world) {
			jobs := map[string]string{ // before, and after
				inQueueOf("A", "mail", 1): inQueueOf("A", "go_mail", 1), inQueueOf("A", "mail", 2): inQueueOf("A", "go_mail", 2),
				inQueueOf("B", "mail", 1): "", inQueueOf("A", "other", 1): "", inQueueOf("A", "go_mail", 3): "", "garbage": "",
				`{"class":"JobWrapper","wrapped":"A","jid":"w","args":[],"queue":"mail"}`: `{"class":"JobWrapper","wrapped":"A","jid":"w","args":[],"queue":"go_mail"}`,
			}
			for _, home := range []Home{Scheduled(), Retries(), Dead()} {
				key := home.key(w.keys)
				want := make(map[string]string)
				for before, after := range jobs {
					w.do("ZADD", key, "1.7000000001234567e9", before)
					want[cmp.Or(after, before)] = w.do("ZSCORE", key, before).(string)
				}
				for n := range 600 { // at one instant, so that pages end between equal scores
					w.do("ZADD", key, "1700000009", inQueueOf("A", "mail", 10+n))
					want[inQueueOf("A", "go_mail", 10+n)] = "1700000009"
				}
				counts, err := w.inspector.Act(w.Context(), Task{Home: home, Action: Move, Selection: Selection{Filter: Filter{Class: "A", Queue: "mail"}}, To: "go_mail"}, nil)
				require.NoError(w, err)
				require.Equal(w, ActCounts{Moved: 603, Locked: map[string]int{"Sidekiq Enterprise": 602}}, counts)
				got := make(map[string]string)
				all := w.do("ZRANGE", key, "0", "-1", "WITHSCORES").([]any)
				for n := 0; n < len(all); n += 2 {
					got[all[n].(string)] = all[n+1].(string)
				}
				require.Equal(w, want, got)
			}
		},
		"names the new queue for retries too, and counts jobs that a Ruby gem has locked": func(w *world) {
			retried := `{"class":"A","jid":"1","args":[],"queue":"mail","retry_queue":"slow"}`
			after := `{"class":"A","jid":"1","args":[],"queue":"go_mail","retry_queue":"go_mail"}`
			locked := `{"class":"A","jid":"2","args":[],"queue":"mail","lock_digest":"uniquejobs:a1"}`
			for _, home := range []Home{Waiting("mail"), Scheduled()} {
				words := []string{"LPUSH", home.key(w.keys), retried, locked}
				if home == Scheduled() {
					words = []string{"ZADD", home.key(w.keys), "1", retried, "2", locked}
				}
				w.do(words...)
				counts, err := w.inspector.Act(w.Context(), Task{Home: home, Action: Move, Selection: Selection{Filter: Filter{Class: "A", Queue: "mail"}}, To: "go_mail"}, nil)
				require.NoError(w, err)
				require.Equal(w, ActCounts{Moved: 2, Locked: map[string]int{"sidekiq-unique-jobs": 1}}, counts)
			}
			require.Contains(w, w.oldestFirst(w.keys.Queue("go_mail")), after)
			require.Contains(w, w.do("ZRANGE", w.keys.Schedule(), "0", "-1"), after)
		},
		"refuses what makes no sense": func(w *world) {
			for _, c := range []struct {
				from Home
				to   string
			}{{Dead(), ""}, {Waiting("mail"), "mail"}, {Waiting("mail"), ""}} {
				_, err := w.inspector.Act(context.Background(), Task{Home: c.from, Action: Move, Selection: Selection{All: true}, To: c.to}, nil)
				require.Error(w, err)
			}
			_, err := w.inspector.Act(context.Background(), Task{Home: Waiting("mail"), Action: Move, Selection: Selection{All: true}}, nil)
			require.Error(w, err)
		},
	})
}
