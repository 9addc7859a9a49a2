package inspect

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// fill puts jobs into a set, a second apart, the first one at this score.
func (w *world) fill(set string, first float64, jobs ...string) {
	w.Helper()
	for i, payload := range jobs {
		w.do("ZADD", set, strconv.FormatFloat(first+float64(i), 'f', -1, 64), payload)
	}
}

// sample is a payload; fields are added to it.
func sample(class, jid string, fields ...string) string {
	return fmt.Sprintf(`{"class":%q,"jid":%q,"queue":"q","args":[1.0,9007199254740993,{"z":[],"a":{}}]`, class, jid) +
		strings.Join(append([]string{""}, fields...), ",") + "}"
}

func (w *world) list(key string) []string { w.Helper(); return texts(w.do("LRANGE", key, "0", "-1")) }
func (w *world) set(key string) []string  { w.Helper(); return texts(w.do("ZRANGE", key, "0", "-1")) }

func texts(value any) []string {
	found := []string{}
	parts, _ := value.([]any)
	for _, part := range parts {
		found = append(found, part.(string))
	}
	return found
}

func (w *world) act(home Home, action Action, selection Selection) ActCounts {
	w.Helper()
	counts, err := w.inspector.Act(w.Context(), Task{Home: home, Action: action, Selection: selection}, nil)
	require.NoError(w, err)
	return counts
}

func (w *world) ids(home Home, skip int) (ids []string) {
	w.Helper()
	for entry, err := range w.inspector.Entries(w.Context(), home, skip) {
		require.NoError(w, err)
		ids = append(ids, entry.ID)
	}
	return ids
}

func TestRetry(t *testing.T) {
	promises(t, map[string]func(w *world){
		"gives a dead job one more run and forgets its crashes": func(w *world) {
			w.fill(w.keys.Dead(), 1, sample("A", "1", `"retry_count":25`, `"interrupted_count":3`, `"interrupted_at":1.5`, `"error_class":"E"`, `"x":{"y":[]}`))
			require.Equal(w, ActCounts{Moved: 1}, w.act(Dead(), Retry, Selection{IDs: []string{"1"}}))
			require.Empty(w, w.set(w.keys.Dead()))
			j, err := job.Parse(w.list(w.keys.Queue("q"))[0])
			require.NoError(w, err)
			at, ok := j.EnqueuedAt()
			require.True(w, ok)
			require.WithinDuration(w, time.Now(), at, time.Minute)
			stamp, _ := j.Field("enqueued_at")
			require.Equal(w, sample("A", "1", `"retry_count":24`, `"error_class":"E"`, `"x":{"y":[]}`, `"enqueued_at":`+stamp), j.Raw(), "and nothing else has changed")
			require.Contains(w, stamp, ".", "seconds, as its producer wrote them or did not say")
		},
		"leaves the count of a scheduled job, and writes milliseconds where its producer did": func(w *world) {
			w.fill(w.keys.Schedule(), 2e9, sample("A", "1", `"retry_count":2`, `"created_at":1700000000000`, `"at":2000000000.5`))
			w.act(Scheduled(), Retry, Selection{All: true})
			j, err := job.Parse(w.list(w.keys.Queue("q"))[0])
			require.NoError(w, err)
			n, _ := j.RetryCount()
			require.Equal(w, 2, n)
			stamp, _ := j.Field("enqueued_at")
			require.NotContains(w, stamp, ".")
			_, scheduled := j.Field("at")
			require.False(w, scheduled, "or Ruby would schedule it once more")
		},
		"goes to the queue that the job names, and to default without one": func(w *world) {
			w.fill(w.keys.Retry(), 1, `{"class":"A","jid":"1","args":[],"retry_count":0}`, sample("A", "2"), `{"class":"A","jid":"3","args":[],"queue":"other"}`)
			require.Equal(w, 3, w.act(Retries(), Retry, Selection{All: true}).Moved)
			j, err := job.Parse(w.list(w.keys.Queue("default"))[0])
			require.NoError(w, err)
			require.Equal(w, "default", j.Queue())
			n, _ := j.RetryCount()
			require.Equal(w, -1, n, "as Ruby does it")
			require.Len(w, w.list(w.keys.Queue("q")), 1)
			require.Len(w, w.list(w.keys.Queue("other")), 1)
		},
		"a count that no run could have had does not turn over": func(w *world) {
			w.fill(w.keys.Retry(), 1, sample("A", "1", `"retry_count":`+strconv.Itoa(math.MinInt)))
			require.Equal(w, 1, w.act(Retries(), Retry, Selection{All: true}).Moved)
			require.Contains(w, w.list(w.keys.Queue("q"))[0], `"retry_count":`+strconv.Itoa(math.MinInt))
		},
		"refuses what nothing could run and leaves it where it is": func(w *world) {
			w.fill(w.keys.Dead(), 1, "garbage", sample("A", "1"), `{"class":"A","jid":"2","args":[],"queue":"a\nb"}`)
			counts := w.act(Dead(), Retry, Selection{All: true})
			require.Equal(w, 1, counts.Moved)
			require.Equal(w, 2, counts.Refused)
			require.Len(w, counts.Problems, 2)
			require.Len(w, w.set(w.keys.Dead()), 2)
		},
		"a broken queue stops only the jobs that go there": func(w *world) {
			w.do("SET", w.keys.Queue("q"), "no list")
			w.fill(w.keys.Dead(), 1, sample("A", "1"), `{"class":"A","jid":"2","args":[],"queue":"good"}`, sample("A", "3"))
			counts := w.act(Dead(), Retry, Selection{All: true})
			require.Equal(w, 1, counts.Moved)
			require.Equal(w, 2, counts.Refused)
			require.Contains(w, counts.Problems[0], "WRONGTYPE")
			require.Len(w, w.set(w.keys.Dead()), 2)
			require.Len(w, w.list(w.keys.Queue("good")), 1)
		},
		"means what was there when it began, even when each comes back at once": func(w *world) {
			for i := range 600 {
				w.fill(w.keys.Dead(), float64(i), sample("A", strconv.Itoa(i)))
			}
			// All that was retried dies again before the next page is read.
			comeback := func(ActCounts) {
				for _, payload := range w.list(w.keys.Queue("q")) {
					w.do("ZADD", w.keys.Dead(), "2e9", payload)
				}
				w.do("DEL", w.keys.Queue("q"))
			}
			counts, err := w.inspector.Act(w.Context(), Task{Home: Dead(), Action: Retry, Selection: Selection{All: true}}, comeback)
			require.NoError(w, err)
			require.Equal(w, ActCounts{Moved: 600}, counts)
			require.Len(w, w.set(w.keys.Dead()), 600)
		},
	})
}

func TestSelection(t *testing.T) {
	promises(t, map[string]func(w *world){
		"by ID, by class, by what cannot be read, and nothing by nothing": func(w *world) {
			fill := func() {
				w.do("DEL", w.keys.Dead())
				w.fill(w.keys.Dead(), 1, sample("A", "1"), sample("B", "2"), "garbage", sample("A", "3"), sample("W", "4", `"wrapped":"A"`), "{}")
			}
			for _, c := range []struct {
				selection Selection
				left      []string
				missing   []string
			}{
				{Selection{}, []string{"1", "2", "3", "4", unreadableID("garbage"), unreadableID("{}")}, nil},
				{Selection{IDs: []string{"2", "unknown", "3", "2"}}, []string{"1", "4", unreadableID("garbage"), unreadableID("{}")}, []string{"unknown"}},
				{Selection{IDs: []string{unreadableID("garbage")}}, []string{"1", "2", "3", "4", unreadableID("{}")}, nil},
				{Selection{Filter: Filter{Class: "A"}}, []string{"2", unreadableID("garbage"), unreadableID("{}")}, nil},
				{Selection{Filter: Filter{Class: "W"}}, []string{"1", "2", "3", unreadableID("garbage"), unreadableID("{}")}, nil},
				{Selection{Filter: Filter{Unreadable: true}}, []string{"1", "2", "3", "4"}, nil},
				{Selection{All: true}, nil, nil},
			} {
				fill()
				counts := w.act(Dead(), Delete, c.selection)
				require.ElementsMatch(w, c.left, w.ids(Dead(), 0), "%+v", c.selection)
				require.Equal(w, 6-len(c.left), counts.Moved)
				require.Equal(w, c.missing, counts.Missing)
			}
		},
		"jobs that others took meanwhile are counted": func(w *world) {
			w.fill(w.keys.Retry(), 1, sample("A", "1"), sample("A", "2"))
			snatcher := &snatching{Inspector: w.inspector, do: func() { w.do("ZREM", w.keys.Retry(), sample("A", "1")) }}
			counts, err := snatcher.act(w.Context(), Retries(), Delete, Selection{IDs: []string{"1", "2"}})
			require.NoError(w, err)
			require.Equal(w, ActCounts{Moved: 1, Gone: 1, Missing: []string{"1"}}, counts)
		},
		"a queue and its quarantined jobs": func(w *world) {
			for i := range 700 {
				w.do("LPUSH", w.keys.Queue("q"), sample([]string{"A", "B"}[i%2], strconv.Itoa(i)))
			}
			w.do("LPUSH", w.keys.Quarantine("q"), sample("A", "s"))
			require.Equal(w, ActCounts{Moved: 1}, w.act(Quarantined("q"), Kill, Selection{IDs: []string{"s"}}))
			require.Equal(w, []string{sample("A", "s")}, w.set(w.keys.Dead()), "as it was")
			require.Equal(w, ActCounts{Moved: 350}, w.act(Waiting("q"), Delete, Selection{Filter: Filter{Class: "A"}}))
			require.Equal(w, ActCounts{Moved: 2, Missing: []string{"0"}}, w.act(Waiting("q"), Delete, Selection{IDs: []string{"1", "699", "0"}}))
			require.Len(w, w.list(w.keys.Queue("q")), 348)
			require.Equal(w, ActCounts{Moved: 348}, w.act(Waiting("q"), Delete, Selection{All: true}))
			require.Empty(w, w.list(w.keys.Queue("q")))
		},
		"killed, they push the oldest out of a full dead set": func(w *world) {
			now := float64(time.Now().Unix())
			w.fill(w.keys.Dead(), now-3600, "one", "two", "three")
			w.fill(w.keys.Dead(), now-200*24*3600, "ancient")
			w.fill(w.keys.Retry(), now+3600, sample("A", "1"), sample("A", "2"))
			require.Equal(w, ActCounts{Moved: 1}, w.act(Retries(), Kill, Selection{IDs: []string{"1"}}))
			require.Equal(w, []string{"one", "two", "three", sample("A", "1")}, w.set(w.keys.Dead()), "the limits are a server's")
			limited := w.inspector.WithDeadLimits(3, 0)
			_, err := limited.Act(w.Context(), Task{Home: Retries(), Action: Kill, Selection: Selection{All: true}}, nil)
			require.NoError(w, err)
			require.Equal(w, []string{"three", sample("A", "1"), sample("A", "2")}, w.set(w.keys.Dead()))
		},
		"found wherever they have been pushed to since they were read": func(w *world) {
			push := func(first, n int) {
				words := []string{"LPUSH", w.keys.Queue("q")}
				for i := range n {
					words = append(words, sample("A", strconv.Itoa(first+i)))
				}
				w.do(words...)
			}
			push(0, 3)
			pushing := &snatching{Inspector: w.inspector, do: func() { push(3, 3*lua.Around); w.do("RPOP", w.keys.Queue("q")) }}
			counts, err := pushing.act(w.Context(), Waiting("q"), Delete, Selection{IDs: []string{"0", "1"}})
			require.NoError(w, err)
			require.Equal(w, ActCounts{Moved: 1, Gone: 1, Missing: []string{"0"}}, counts, "a job that has left is reported, and nothing else")
		},
		"no more is deleted from a queue than lay in it": func(w *world) {
			push := func(n int) {
				for range n {
					w.do("LPUSH", w.keys.Queue("q"), sample("A", job.NewJID()))
				}
			}
			push(300)
			counts, err := w.inspector.Act(w.Context(), Task{Home: Waiting("q"), Action: Delete, Selection: Selection{All: true}}, func(ActCounts) { push(200) })
			require.NoError(w, err)
			require.Equal(w, 300, counts.Moved)
		},
		"what cannot be meant is refused": func(w *world) {
			for _, c := range []struct {
				home   Home
				action Action
			}{{Dead(), Kill}, {Waiting("q"), Retry}, {Dead(), "shred"}, {Home{}, Delete}} {
				_, err := w.inspector.Act(w.Context(), Task{Home: c.home, Action: c.action, Selection: Selection{All: true}}, nil)
				require.Error(w, err)
			}
		},
		"two ways to choose are refused, and nothing is deleted": func(w *world) {
			w.fill(w.keys.Dead(), 1, sample("A", "1"), sample("B", "2"))
			fleet := NewFleet(Shard{"a", w.inspector}, Shard{"b", w.inspector})
			for _, selection := range []Selection{
				{All: true, Filter: Filter{Class: "B"}},
				{IDs: []string{"1"}, Filter: Filter{Class: "B"}},
				{Refs: []string{"1"}, Filter: Filter{Unreadable: true}},
				{All: true, IDs: []string{"1"}},
			} {
				task := Task{Home: Dead(), Action: Delete, Selection: selection}
				_, err := w.inspector.Act(w.Context(), task, nil)
				require.ErrorContains(w, err, "more than one of All", "%+v", selection)
				_, err = w.inspector.Step(w.Context(), task, "")
				require.ErrorContains(w, err, "more than one of All", "%+v", selection)
				_, err = fleet.Act(w.Context(), task, nil)
				require.ErrorContains(w, err, "more than one of All", "%+v", selection)
			}
			require.Len(w, w.set(w.keys.Dead()), 2)
		},
		"ends with its context": func(w *world) {
			for i := range 600 {
				w.fill(w.keys.Dead(), float64(i), sample("A", strconv.Itoa(i)))
			}
			ctx, cancel := context.WithCancel(w.Context())
			counts, err := w.inspector.Act(ctx, Task{Home: Dead(), Action: Delete, Selection: Selection{All: true}}, func(ActCounts) { cancel() })
			require.ErrorIs(w, err, context.Canceled)
			require.Equal(w, lua.MaxItems, counts.Moved)
			require.Len(w, w.set(w.keys.Dead()), 600-lua.MaxItems)
		},
	})
}

// Redis does nothing else while a script runs, so what one call searches of a long queue is about the same
// whatever its length.
func TestSearchesAreBounded(t *testing.T) {
	t.Parallel()
	a := &act{i: &Inspector{orderly: orderly}, Task: Task{Home: Waiting("q")}}
	for _, index := range []int{0, 100, 5000, 14_000, 20_000, 1_000_000} {
		source := a.sourceOf(index)
		most := a.maxIn(&batch{source: source})
		require.Positive(t, most)
		require.LessOrEqual(t, most, lua.MaxItems)
		if index >= source.Orderly {
			require.LessOrEqual(t, most, maxDeep)
		} else {
			require.LessOrEqual(t, most*(index+lua.MaxItems), maxCompared)
		}
	}
}

// snatching is an act between whose reading and moving something happens.
type snatching struct {
	*Inspector
	do func()
}

func (s *snatching) act(ctx context.Context, home Home, action Action, selection Selection) (ActCounts, error) {
	a, err := s.start(ctx, Task{Home: home, Action: action, Selection: selection}, "", false)
	if err != nil {
		return a.counts, err
	}
	page, err := a.jobs.next(ctx)
	if err != nil {
		return a.counts, err
	}
	s.do()
	err = a.page(ctx, page)
	return a.counts, err
}

func TestEntries(t *testing.T) {
	promises(t, map[string]func(w *world){
		"what runs next comes first, and of the dead those that died last": func(w *world) {
			var ids []string
			for i := range 600 {
				ids = append(ids, strconv.Itoa(i))
				w.do("LPUSH", w.keys.Queue("q"), sample("A", ids[i]))
				w.fill(w.keys.Retry(), float64(i), sample("A", ids[i]))
				w.fill(w.keys.Dead(), float64(i), sample("A", ids[i]))
			}
			require.Equal(w, ids, w.ids(Waiting("q"), 0))
			require.Equal(w, ids[100:], w.ids(Retries(), 100))
			slices.Reverse(ids)
			require.Equal(w, ids, w.ids(Dead(), 0))
			size, err := w.inspector.Size(w.Context(), Dead())
			require.NoError(w, err)
			require.Equal(w, 600, size)
		},
		"each comes once, in its place, while workers take those before it and other jobs die": func(w *world) {
			const jobs = 1200
			var want, waiting []string
			for i := range jobs {
				want, waiting = append(want, strconv.Itoa(i)), append(waiting, sample("A", strconv.Itoa(i)))
				w.do("ZADD", w.keys.Dead(), strconv.Itoa(1700000000-i/500), sample("A", fmt.Sprintf("%04d", jobs-i))) // many died at one time
			}
			for _, skip := range []int{0, 7, 600, jobs - 1} {
				w.do("DEL", w.keys.Queue("q"))
				w.push(w.keys.Queue("q"), waiting...)
				var ids []string
				for entry, err := range w.inspector.Entries(w.Context(), Waiting("q"), skip) {
					require.NoError(w, err)
					if ids = append(ids, entry.ID); len(ids)%100 == 0 && len(ids) < 500 {
						w.do("RPOP", w.keys.Queue("q"), "2")
						w.do("RPUSH", w.keys.Queue("q"), sample("A", "requeued"))
						w.do("LPUSH", w.keys.Queue("q"), sample("A", "new"))
					}
				}
				require.Equal(w, want[skip:], ids, skip)
				ids = nil
				for entry, err := range w.inspector.Entries(w.Context(), Dead(), skip) {
					require.NoError(w, err)
					if ids = append(ids, entry.ID); len(ids)%100 == 1 {
						w.do("ZADD", w.keys.Dead(), strconv.Itoa(1800000000+len(ids)), sample("A", fmt.Sprint("new", len(ids))))
					}
				}
				require.Len(w, ids, jobs-skip)
				for i, id := range ids {
					require.Equal(w, fmt.Sprintf("%04d", jobs-skip-i), id)
				}
				w.do("ZREMRANGEBYSCORE", w.keys.Dead(), "1800000000", "+inf")
			}
		},
		"all that a job says of itself": func(w *world) {
			w.fill(w.keys.Retry(), 1700000000.5, sample("W", "1", `"wrapped":"Mail"`, `"retry_count":2`, `"interrupted_count":1`, `"error_class":"E"`,
				`"error_message":"went\nwrong"`, `"failed_at":1700000000000`, `"created_at":1.5`, `"error_backtrace":"`+job.EncodeBacktrace([]string{"a.go:1"})+`"`))
			for entry, err := range w.inspector.Entries(w.Context(), Retries(), 0) {
				require.NoError(w, err)
				require.Equal(w, []string{"a.go:1"}, entry.Backtrace())
				two := 2
				entry.raw, entry.parsed = lua.Entry{}, nil
				require.Equal(w, Entry{
					ID: "1", In: "retries", Class: "Mail", Queue: "q", At: instant(1700000000.5), Args: []byte(`[1.0,9007199254740993,{"z":[],"a":{}}]`),
					Attempt: 3, MaxAttempts: 26, RetryCount: &two, Interrupted: 1, ErrorClass: "E", ErrorMessage: "went\nwrong", CreatedAt: instant(1.5), FailedAt: instant(1700000000),
					Bytes: entry.Bytes, home: Retries(),
				}, entry)
			}
		},
		"what cannot be read is shown as far as it goes": func(w *world) {
			w.fill(w.keys.Dead(), 1, "\xff"+strings.Repeat("x", 5000))
			for entry, err := range w.inspector.Entries(w.Context(), Dead(), 0) {
				require.NoError(w, err)
				require.Contains(w, entry.Problem, "unreadable")
				require.LessOrEqual(w, len(entry.Payload), maxShownBytes+3)
				require.Regexp(w, `^unreadable-[0-9a-f]{12}$`, entry.ID)
				require.Equal(w, 5001, entry.Bytes)
			}
		},
		"a key of a wrong type is an error": func(w *world) {
			w.do("SET", w.keys.Dead(), "no set")
			for _, err := range w.inspector.Entries(w.Context(), Dead(), 0) {
				require.ErrorContains(w, err, "read dead")
			}
			_, err := w.inspector.Act(w.Context(), Task{Home: Dead(), Action: Delete, Selection: Selection{All: true}}, nil)
			require.ErrorContains(w, err, "WRONGTYPE")
		},
	})
}

func TestSignals(t *testing.T) {
	promises(t, map[string]func(w *world){
		"a living process receives them": func(w *world) {
			_, err := w.keys.Register("h:1:aa", lua.Record{Queues: []string{"q"}, Beat: time.Second, TTL: time.Minute}).Do(w.Context(), w.driver)
			require.NoError(w, err)
			for _, signal := range []Signal{Quiet, Stop, Dump} {
				sent, err := w.inspector.Signal(w.Context(), "h:1:aa", signal)
				require.NoError(w, err)
				require.True(w, sent)
			}
			require.Equal(w, []string{"TTIN", "TERM", "TSTP"}, w.list(w.keys.Signals("h:1:aa")))
			sent, err := w.inspector.Signal(w.Context(), "h:2:bb", Stop)
			require.NoError(w, err)
			require.False(w, sent)
			_, err = w.inspector.Signal(w.Context(), "h:1:aa", "dance")
			require.Error(w, err)
		},
		"queues are paused and resumed": func(w *world) {
			for n, act := range []func(context.Context, string) (bool, error){w.inspector.Pause, w.inspector.Pause, w.inspector.Resume, w.inspector.Resume} {
				changed, err := act(w.Context(), "q")
				require.NoError(w, err)
				require.Equal(w, n%2 == 0, changed)
			}
			exists, err := w.inspector.QueueExists(w.Context(), "q")
			require.NoError(w, err)
			require.False(w, exists)
		},
	})
}
