package inspect

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

func TestActsOnPartOfALongQueue(t *testing.T) {
	promises(t, map[string]func(w *world){
		"delete every selected job, and nobody is said to have taken one": func(w *world) {
			const jobs = 29_999
			var all, want []string
			for n := range jobs {
				class := []string{"Even", "Odd", "Odd"}[n%3]
				if all = append(all, inQueueOf(class, "q", n)); class == "Odd" {
					want = append(want, all[n])
				}
			}
			w.push(w.keys.Queue("q"), all...)
			require.Equal(w, ActCounts{Moved: jobs - len(want)}, w.act(Waiting("q"), Delete, Selection{Filter: Filter{Class: "Even"}}))
			left := w.list(w.keys.Queue("q"))
			slices.Sort(left)
			slices.Sort(want)
			require.Equal(w, want, left)
		},
		"by jid alike": func(w *world) {
			const jobs = 16_000
			var all, ids []string
			for n := range jobs {
				all = append(all, inQueueOf("A", "q", n))
				if n > 15_000 && n < 15_301 {
					ids = append(ids, newEntry(Waiting("q"), lua.Entry{Bytes: all[n]}).ID)
				}
			}
			w.push(w.keys.Queue("q"), all...)
			require.Equal(w, ActCounts{Moved: len(ids)}, w.act(Waiting("q"), Delete, Selection{IDs: ids}))
		},
	})
}

// Whatever the length of a queue, wherever the selected jobs are, and whatever workers take from it meanwhile
// or bring back: each selected job moves or was taken, no other does, and no job counts as taken that was not.
func TestActsReachEachSelectedJobOfAQueue(t *testing.T) {
	promises(t, map[string]func(w *world){
		"by bytes near its oldest end, and by place deep in it": func(w *world) {
			rapid.Check(w.T, func(rt *rapid.T) {
				key := w.keys.Queue("q")
				w.do("DEL", key, w.keys.Queue("r"))
				length := rapid.IntRange(1, 1200).Draw(rt, "length")
				share := rapid.SampledFrom([]int{1, 3, 10, 300}).Draw(rt, "one of")
				first := rapid.IntRange(0, length-1).Draw(rt, "first selected")
				burst := rapid.SampledFrom([]int{0, 0, 1, 5, 400}).Draw(rt, "taken after each call")
				returned := rapid.SampledFrom([]int{0, 1}).Draw(rt, "of them brought back, one of two")
				pushed := rapid.SampledFrom([]int{0, 3}).Draw(rt, "pushed after each call")
				move := rapid.Bool().Draw(rt, "move")

				var all []string
				selected := make(map[string]bool)
				random := rand.New(rand.NewPCG(uint64(length), uint64(first)))
				for n := range length {
					class := "B"
					if n >= first && random.IntN(share) == 0 {
						class = "A"
					}
					all = append(all, inQueueOf(class, "q", n))
					selected[all[n]] = class == "A"
				}
				w.push(key, all...)
				taken, more := make(map[string]bool), 0
				worker := &betweenCalls{Client: w.driver, after: func(call driver.Call) {
					if burst == 0 || len(taken) > length || call.Script == nil {
						return
					}
					got := texts(w.do("RPOP", key, strconv.Itoa(burst)))
					if keep := len(got) / 2 * returned; keep > 0 {
						w.do(append([]string{"RPUSH", key}, reversed(got[len(got)-keep:])...)...)
						got = got[:len(got)-keep]
					}
					for _, job := range got {
						taken[job] = true
					}
					for range pushed {
						more++
						w.do("LPUSH", key, inQueueOf("A", "q", length+more))
					}
				}}
				task := Task{Home: Waiting("q"), Action: Delete, Selection: Selection{Filter: Filter{Class: "A"}}}
				if move {
					task.Action, task.To = Move, "r"
				}
				inspector := w.inspectorOf(worker)
				inspector.orderly = 400
				counts, err := inspector.Act(w.Context(), task, nil)
				require.NoError(rt, err)
				require.Zero(rt, counts.Refused, counts.Problems)
				left := make(map[string]bool)
				for _, job := range w.list(key) {
					require.False(rt, left[job], "%s is there twice", job)
					left[job] = true
				}
				for _, job := range all {
					require.False(rt, left[job] && (selected[job] || taken[job]), "%s is left", job)
					require.False(rt, !left[job] && !selected[job] && !taken[job], "%s is lost", job)
				}
				if burst == 0 {
					require.Zero(rt, counts.Gone)
				}
				require.Len(rt, w.list(key), length+more-len(taken)-counts.Moved)
				if move {
					require.Len(rt, w.list(w.keys.Queue("r")), counts.Moved)
				}
			})
		},
	})
}

func reversed(jobs []string) []string {
	jobs = slices.Clone(jobs)
	slices.Reverse(jobs)
	return jobs
}
