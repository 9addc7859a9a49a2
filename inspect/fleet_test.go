package inspect

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
)

// another returns a further keyspace on the same Redis.
func (w *world) another() *world {
	w.Helper()
	other := *w
	other.prefix = strings.TrimSuffix(drivertest.Prefix(w.T), ":")
	other.keys = lua.NewKeys(other.prefix)
	other.inspector = inspectorOf(w.T, w.driver, other.prefix)
	return &other
}

// noServer is a Redis that is away.
type noServer struct{ driver.Client }

func (noServer) Do(_ context.Context, calls ...driver.Call) []driver.Reply {
	replies := make([]driver.Reply, len(calls))
	for i := range replies {
		replies[i].Err = &driver.NotSentError{Err: fmt.Errorf("connection refused")}
	}
	return replies
}

// frozen is a Redis that answers nothing until the context of a call ends.
type frozen struct{ driver.Client }

func (frozen) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	<-ctx.Done()
	replies := make([]driver.Reply, len(calls))
	for i := range replies {
		replies[i].Err = fmt.Errorf("read the reply: %w", ctx.Err())
	}
	return replies
}

// fleet returns a fleet of three shards, of which the second is away, and the keyspaces of the others.
func (w *world) fleet() (f *Fleet, a, b *world) {
	b = w.another()
	away := inspectorOf(w.T, noServer{w.driver}, "away")
	return NewFleet(Shard{"a", w.inspector}, Shard{"away", away}, Shard{"b", b.inspector}), w, b
}

func TestFleet(t *testing.T) {
	soon := func(n int) string { return strconv.FormatInt(time.Now().Unix()+int64(60+n), 10) }
	promises(t, map[string]func(w *world){
		"adds up the shards that answer, and names the one that does not": func(w *world) {
			f, a, b := w.fleet()
			for n, shard := range []*world{a, b} {
				shard.do("SET", shard.keys.Processed(), strconv.Itoa(10+n))
				shard.do("SADD", shard.keys.Queues(), "mail", fmt.Sprint("only", n))
				shard.push(shard.keys.Queue("mail"), sought(fmt.Sprint("m", n), ""))
				shard.do("ZADD", shard.keys.Dead(), soon(0), sought(fmt.Sprint("d", n), ""))
				identity := fmt.Sprintf("vm:7:aa%d", n)
				shard.do("SADD", shard.keys.Processes(), identity, "vm:8:other")
				shard.do("HSET", shard.keys.Process(identity), "busy", "2", "info", `{"hostname":"vm","pid":7,"process":"one","queues":["mail"]}`)
				shard.do("HSET", shard.keys.Process("vm:8:other"), "busy", "1", "info", `{"hostname":"vm","pid":8,"queues":["mail"]}`)
			}
			a.do("SADD", a.keys.Paused(), "mail")
			status, err := f.Status(w.Context())
			require.NoError(w, err)
			require.Equal(w, []int64{21, 2, 2}, []int64{status.Processed, status.Enqueued, status.Dead})
			require.False(w, status.At.IsZero())
			var queues []string
			for _, queue := range status.Queues {
				queues = append(queues, fmt.Sprintf("%s %d %v", queue.Name, queue.Size, queue.Paused))
			}
			require.Equal(w, []string{"mail 2 false", "only0 0 false", "only1 0 false"}, queues)
			busy := make(map[string][]int)
			for _, process := range status.Processes {
				busy[process.Process] = append(busy[process.Process], process.Busy)
			}
			require.Equal(w, map[string][]int{"one": {4}, "": {1, 1}}, busy, "sessions of one process are one, others are not")
			require.EqualValues(w, 3, status.ProcessCount)
			require.Len(w, status.Problems, 1)
			require.Contains(w, status.Problems[0], "shard away: ")
			require.Len(w, status.Shards, 3)
			require.Equal(w, []int64{10, 0, 11}, []int64{status.Shards[0].Processed, status.Shards[1].Processed, status.Shards[2].Processed})
			require.Contains(w, status.Shards[1].Problem, "connection refused")

			sizes, err := f.Sizes(w.Context())
			require.NoError(w, err)
			require.EqualValues(w, 2, sizes.Enqueued)
			require.Empty(w, sizes.Processes)
		},
		"finds a job wherever it is": func(w *world) {
			f, _, b := w.fleet()
			b.do("SADD", b.keys.Queues(), "mail")
			b.push(b.keys.Queue("mail"), sought("there", ""))
			found, err := f.FindAll(w.Context(), Query{IDs: []string{"there", "nowhere"}}, nil)
			require.NoError(w, err)
			require.Equal(w, "b", found[0].Shard)
			require.Equal(w, PlaceQueue, found[0].Place)
			require.Empty(w, found[0].Unseen)
			require.Equal(w, PlaceNotFound, found[1].Place)
			require.Contains(w, found[1].Unseen, "shard away: ", "it may be there")
		},
		"searches shard after shard, in pages": func(w *world) {
			f, a, b := w.fleet()
			for n := range 5 {
				a.do("ZADD", a.keys.Retry(), soon(n), sought(fmt.Sprint("a", n), ""))
				b.do("ZADD", b.keys.Retry(), soon(n), sought(fmt.Sprint("b", n), ""))
			}
			var all []string
			query := Query{Places: []Place{PlaceRetry}, Limit: 3, Time: time.Minute}
			for page := 0; page == 0 || query.Cursor != ""; page++ {
				require.Less(w, page, 10)
				results, err := f.Search(w.Context(), query)
				require.NoError(w, err)
				require.LessOrEqual(w, len(results.Found), 3)
				for _, found := range results.Found {
					all = append(all, found.Shard+" "+found.JID)
				}
				query.Cursor = results.Next
			}
			require.Equal(w, []string{"a a0", "a a1", "a a2", "a a3", "a a4", "b b0", "b b1", "b b2", "b b3", "b b4"}, all)
			for _, cursor := range []string{"gone:", "a", "a:x", ":"} {
				_, err := f.Search(w.Context(), Query{Cursor: cursor})
				require.ErrorIs(w, err, ErrCursor, cursor)
			}
		},
		"acts in each, and says what it did there": func(w *world) {
			f, a, b := w.fleet()
			a.do("ZADD", a.keys.Dead(), soon(0), sought("a0", ""), soon(1), sought("a1", ""))
			b.do("ZADD", b.keys.Dead(), soon(0), sought("b0", ""))
			task := Task{Home: Dead(), Action: Delete, Selection: Selection{IDs: []string{"a0", "b0", "none"}}}
			var last FleetCounts
			counts, err := f.Act(w.Context(), task, func(counts FleetCounts) { last = counts })
			require.NoError(w, err)
			require.Equal(w, 2, counts.Moved)
			require.Equal(w, 2, last.Moved)
			require.Equal(w, []string{"none"}, counts.Missing)
			require.Len(w, counts.Shards, 3)
			require.Equal(w, []int{1, 0, 1}, []int{counts.Shards[0].Moved, counts.Shards[1].Moved, counts.Shards[2].Moved})
			require.Contains(w, counts.Shards[1].Problem, "connection refused")
			require.Len(w, counts.Problems, 1)
			require.Contains(w, counts.Problems[0], "shard away: ")
			require.Len(w, a.set(a.keys.Dead()), 1)
			require.Empty(w, b.set(b.keys.Dead()))

			_, err = f.Act(w.Context(), Task{Home: Dead(), Action: "dance"}, nil)
			require.Error(w, err)
		},
		"cancels where the job is": func(w *world) {
			f, _, b := w.fleet()
			b.do("SADD", b.keys.Queues(), "mail")
			b.push(b.keys.Queue("mail"), sought("waits", ""))
			results, err := f.Cancel(w.Context(), "waits", "nowhere")
			require.NoError(w, err)
			require.Equal(w, "b", results[0].Shard)
			require.Equal(w, CancelRemoved, results[0].Result)
			require.Empty(w, results[0].Unseen)
			require.Empty(w, results[1].Shard)
			require.Equal(w, CancelMarked, results[1].Result)
			require.Contains(w, results[1].Unseen, "shard away: ")
			require.Empty(w, b.list(b.keys.Queue("mail")))
		},
		"finds and cancels a job while another shard is frozen": func(w *world) {
			b := w.another()
			f := NewFleet(Shard{"frozen", inspectorOf(w.T, frozen{w.driver}, "frozen")}, Shard{"b", b.inspector})
			b.do("SADD", b.keys.Queues(), "mail")
			b.push(b.keys.Queue("mail"), sought("there", ""))
			ctx, end := context.WithTimeout(w.Context(), time.Minute)
			defer end()
			found, err := f.FindAll(ctx, Query{IDs: []string{"there"}}, nil)
			require.NoError(w, err)
			require.Equal(w, "b", found[0].Shard)
			require.Equal(w, PlaceQueue, found[0].Place)
			require.Empty(w, found[0].Unseen)
			require.NoError(w, ctx.Err(), "it does not wait for the other shard")

			ctx, end = context.WithTimeout(w.Context(), time.Minute)
			defer end()
			answers := make(chan []ShardCancellation, 1)
			go func() {
				results, _ := f.Cancel(ctx, "there", "nowhere")
				answers <- results
			}()
			require.Eventually(w, func() bool { return len(b.list(b.keys.Queue("mail"))) == 0 }, 30*time.Second, 5*time.Millisecond)
			require.Eventually(w, func() bool { // the marks of jobs that have ended are taken back last
				return len(b.set(b.keys.Cancelled())) > 0 && b.do("ZSCORE", b.keys.Cancelled(), "there") == nil
			}, 30*time.Second, 5*time.Millisecond)
			end()
			results := <-answers
			require.Equal(w, []CancelResult{CancelRemoved, CancelMarked}, []CancelResult{results[0].Result, results[1].Result})
			require.Equal(w, "b", results[0].Shard)
			require.Empty(w, results[0].Unseen)
			require.Contains(w, results[1].Unseen, "shard frozen: ")
		},
		"searches and acts in the other shards while one is frozen": func(w *world) {
			b := w.another()
			f := NewFleet(Shard{"frozen", inspectorOf(w.T, frozen{w.driver}, "frozen")}, Shard{"b", b.inspector})
			b.do("ZADD", b.keys.Dead(), soon(0), sought("there", ""))
			ctx, end := context.WithTimeout(w.Context(), 6*time.Second)
			defer end()
			results, err := f.Search(ctx, Query{Places: []Place{PlaceDead}})
			require.NoError(w, err)
			require.Len(w, results.Found, 1, "%v", results)
			require.Equal(w, "b", results.Found[0].Shard)
			require.Len(w, results.Unseen, 1)
			require.Contains(w, results.Unseen[0], "shard frozen: ")
			require.Empty(w, results.Next)

			ctx, end = context.WithTimeout(w.Context(), time.Minute)
			defer end()
			var last FleetCounts
			counts, err := f.Act(ctx, Task{Home: Dead(), Action: Delete, Selection: Selection{IDs: []string{"there"}}}, func(counts FleetCounts) {
				last = counts
				end() // the other shard is done
			})
			require.NoError(w, err)
			require.Equal(w, 1, counts.Moved)
			require.Equal(w, 1, last.Moved)
			require.Equal(w, []string{"frozen", "b"}, []string{counts.Shards[0].Name, counts.Shards[1].Name})
			require.Contains(w, counts.Shards[0].Problem, "context canceled")
		},
		"adds up what it does in all shards at once": func(w *world) {
			const jobs = 3 * lua.MaxItems
			b := w.another()
			f := NewFleet(Shard{"a", w.inspector}, Shard{"b", b.inspector})
			for _, shard := range []*world{w, b} {
				for n := range jobs {
					shard.push(shard.keys.Queue("mail"), strings.TrimSuffix(sought(fmt.Sprint("j", n), ""), "}")+`,"lock_digest":"gem"}`)
				}
			}
			moved := 0
			counts, err := f.Act(w.Context(), Task{Home: Waiting("mail"), Action: Move, Selection: Selection{All: true}, To: "other"},
				func(counts FleetCounts) {
					require.GreaterOrEqual(w, counts.Moved, moved)
					moved = counts.Moved
				})
			require.NoError(w, err)
			require.Equal(w, []int{2 * jobs, jobs, jobs, 2 * jobs}, []int{counts.Moved, counts.Shards[0].Moved, counts.Shards[1].Moved, moved})
			require.Empty(w, counts.Problems)
			require.Equal(w, map[string]int{"sidekiq-unique-jobs": 2 * jobs}, counts.Locked)
		},
		"says what each shard did not search for a job to cancel": func(w *world) {
			b := w.another()
			f := NewFleet(Shard{"a", w.inspector}, Shard{"b", b.inspector})
			b.do("SADD", b.keys.Queues(), "odd")
			b.do("SET", b.keys.Queue("odd"), "x")
			b.process("old:1:bb", "mail")
			b.do("HDEL", b.keys.Record("old:1:bb"), "protocol")
			b.do("LPUSH", b.keys.Working("mail", "old:1:bb"), sought("runs", ""))
			results, err := f.Cancel(w.Context(), "nowhere", "runs")
			require.NoError(w, err)
			require.Equal(w, "shard b: queue odd is not a list", results[0].Unseen)
			require.Equal(w, ShardCancellation{"b", Cancellation{JID: "runs", Result: CancelMarked, Place: PlaceRunning, Process: "old:1:bb", Class: "A", Queue: "mail"}}, results[1])
		},
		"fails if no shard answers": func(w *world) {
			away := inspectorOf(w.T, noServer{w.driver}, "away")
			f := NewFleet(Shard{"a", away}, Shard{"b", away})
			_, err := f.Status(w.Context())
			require.ErrorContains(w, err, "shard a: ")
			require.ErrorContains(w, err, "shard b: ")
			_, err = f.FindAll(w.Context(), Query{IDs: []string{"x"}}, nil)
			require.Error(w, err)
			_, err = f.Search(w.Context(), Query{})
			require.Error(w, err)
			_, err = f.Act(w.Context(), Task{Home: Dead(), Action: Delete, Selection: Selection{All: true}}, nil)
			require.Error(w, err)
			_, err = f.Cancel(w.Context(), "x")
			require.Error(w, err)
		},
		"has a name for each shard": func(w *world) {
			f, _, b := w.fleet()
			i, found := f.Shard("b")
			require.True(w, found)
			require.Same(w, b.inspector, i)
			_, found = f.Shard("c")
			require.False(w, found)
			require.Len(w, f.Shards(), 3)
			require.Panics(w, func() { NewFleet() })
			require.Panics(w, func() { NewFleet(Shard{"a", i}, Shard{"a", i}) })
		},
	})
}
