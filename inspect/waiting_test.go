package inspect

import (
	"fmt"
	"log/slog"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// wait puts jobs of a queue behind those that wait at a gate already.
func (w *world) wait(gate, queue string, jobs ...string) {
	w.Helper()
	for _, payload := range jobs {
		w.do("LPUSH", w.keys.WaitingList(gate), queue+"\n"+payload)
	}
	w.do("ZADD", w.keys.Waiting(), "1700000000.5", gate)
}

// hostile is a key, or a name of a queue, that another program chose.
const hostile = `"jid":"x" <b>é%s:{}`

func TestJobsThatWaitAtAGate(t *testing.T) {
	garbage := `{"class":"A","jid":`
	promises(t, map[string]func(w *world){
		"are found with their gate and their place in line": func(w *world) {
			var before []string
			for n := range 600 {
				before = append(before, sample("B", "before"+strconv.Itoa(n)))
			}
			w.wait("api:"+hostile, hostile, before...)
			w.wait("api:"+hostile, hostile, sample("A", "waits", `"enqueued_at":1700000000.5`), garbage)
			w.wait("other:", "q", sample("A", "1"))
			found, err := w.inspector.Find(w.Context(), "waits", nil)
			require.NoError(w, err)
			require.Equal(w, sample("A", "waits", `"enqueued_at":1700000000.5`), found.Entry.parsed.Raw())
			require.Equal(w, int64(1_700_000_000), found.Since.Unix())
			require.Equal(w, []any{PlaceWaiting, hostile, "api:" + hostile, 601, "A"}, []any{found.Place, found.Queue, found.Gate, found.Line, found.Class})
			require.Equal(w, []any{"waiting", hostile, "api:" + hostile}, []any{found.Entry.In, found.Entry.Queue, found.Entry.Gate})
			found, err = w.inspector.Find(w.Context(), unreadableID(garbage), nil)
			require.NoError(w, err)
			require.Equal(w, []any{PlaceWaiting, garbage, 602}, []any{found.Place, found.Entry.Payload, found.Line})
			entry, ok, err := w.inspector.Get(w.Context(), Waiters("other:"), "0:1")
			require.NoError(w, err)
			require.True(w, ok)
			require.Equal(w, "q", entry.Queue)
		},
		"are searched a part at a time, at all gates": func(w *world) {
			var want []string
			for gate := range 300 {
				for n := range 3 {
					jid := fmt.Sprintf("%03d-%d", gate, n)
					w.wait(fmt.Sprintf("g:%03d", gate), []string{"q", "other"}[n%2], sample("A", jid))
					if n%2 == 1 {
						want = append(want, jid)
					}
				}
			}
			w.do("SET", w.keys.WaitingList("odd:"), "x")
			w.do("ZADD", w.keys.Waiting(), "1", "odd:", "2", "empty:")
			var got []string
			query := Query{Places: []Place{PlaceWaiting}, Filter: Filter{Queue: "other"}, Limit: 7}
			for {
				results, err := w.inspector.Search(w.Context(), query)
				require.NoError(w, err)
				for _, found := range results.Found {
					got = append(got, found.JID)
				}
				if query.Cursor = results.Next; query.Cursor == "" {
					require.Equal(w, []string{"jobs that wait at gate odd: is not a list"}, results.Unseen)
					break
				}
			}
			require.Equal(w, want, got)
		},
		"are deleted and killed without their queue's name, and their gate goes with the last": func(w *world) {
			w.wait("g:", "q", sample("A", "1"), sample("B", "2"), sample("B", "3"), garbage)
			require.Equal(w, ActCounts{Moved: 1}, w.act(Waiters("g:"), Delete, Selection{IDs: []string{"2"}}))
			require.Equal(w, []string{"1", "3", unreadableID(garbage)}, w.ids(Waiters("g:"), 0))
			require.Equal(w, ActCounts{Moved: 1}, w.act(Waiters("g:"), Kill, Selection{Filter: Filter{Class: "B"}}))
			require.Equal(w, []string{"g:"}, w.set(w.keys.Waiting()))
			require.Equal(w, ActCounts{Moved: 2}, w.act(Waiters("g:"), Kill, Selection{All: true}))
			require.Equal(w, []string{sample("B", "3"), sample("A", "1"), garbage}, w.set(w.keys.Dead()))
			require.Equal(w, int64(0), w.do("EXISTS", w.keys.Waiting(), w.keys.WaitingList("g:")))
		},
		"go to a queue, to their own without a change": func(w *world) {
			w.wait("g:", "q", sample("A", "1", `"x":1E2`), garbage, sample("A", "2"))
			w.wait("g:", "other", sample("A", "3"))
			counts, err := w.inspector.Act(w.Context(), Task{Home: Waiters("g:"), Action: Move, Selection: Selection{IDs: []string{"2"}}, To: "mail"}, nil)
			require.NoError(w, err)
			require.Equal(w, ActCounts{Moved: 1}, counts)
			moved, err := job.Parse(w.list(w.keys.Queue("mail"))[0])
			require.NoError(w, err)
			require.Equal(w, "mail", moved.Queue())
			w.do("RPUSH", w.keys.WaitingList("g:"), "no queue")
			counts = w.act(Waiters("g:"), Move, Selection{All: true})
			require.Equal(w, []int{3, 1}, []int{counts.Moved, counts.Refused}, counts.Problems)
			require.Equal(w, []string{sample("A", "1", `"x":1E2`), garbage}, w.oldestFirst(w.keys.Queue("q")))
			require.Equal(w, []string{sample("A", "3")}, w.list(w.keys.Queue("other")))
			require.ElementsMatch(w, []string{"mail", "other", "q"}, texts(w.do("SMEMBERS", w.keys.Queues())))
			require.Equal(w, []string{"no queue"}, w.list(w.keys.WaitingList("g:")))
			require.Equal(w, 1, w.act(Waiters("g:"), Delete, Selection{All: true}).Moved)
			require.Empty(w, w.set(w.keys.Waiting()))
		},
		"are cancelled": func(w *world) {
			w.wait("g:1", "q", sample("A", "1"), sample("A", "2"))
			w.wait("g:2", "q", sample("A", "3"))
			results := w.cancel("1", "3")
			require.Equal(w, []CancelResult{CancelRemoved, CancelRemoved}, []CancelResult{results["1"].Result, results["3"].Result})
			require.Equal(w, []any{PlaceWaiting, "q"}, []any{results["1"].Place, results["1"].Queue})
			require.Equal(w, []string{"2"}, w.ids(Waiters("g:1"), 0))
			require.Equal(w, []string{"g:1"}, w.set(w.keys.Waiting()))
		},
		"go back to their queues when a fleet leaves Belay": func(w *world) {
			w.wait("g:1", "q", sample("A", "1"), sample("A", "2"))
			w.wait("g:2", "other", sample("A", "3"))
			returned, err := w.inspector.Return(w.Context(), job.DefaultPayloadLimit, slog.New(slog.DiscardHandler))
			require.NoError(w, err)
			require.Equal(w, Returned{Waiting: 3}, returned)
			require.Equal(w, []string{sample("A", "1"), sample("A", "2")}, w.oldestFirst(w.keys.Queue("q")))
			require.Equal(w, []string{sample("A", "3")}, w.list(w.keys.Queue("other")))
			require.Equal(w, int64(0), w.do("EXISTS", w.keys.Waiting()))
		},
	})
}
