package inspect

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/lua"
)

// search returns all results of a query, so many at a time.
func (w *world) search(query Query) (all []Found) {
	w.Helper()
	for {
		results, err := w.inspector.Search(w.Context(), query)
		require.NoError(w, err)
		require.Empty(w, results.Unseen)
		all = append(all, results.Found...)
		if results.Next == "" {
			return all
		}
		require.NotEqual(w, query.Cursor, results.Next, "it goes on")
		query.Cursor = results.Next
	}
}

func jids(found []Found) (jids []string) {
	for _, f := range found {
		jids = append(jids, f.JID)
	}
	return jids
}

// everywhere puts one job into each place and returns their jids in the order of a search.
func (w *world) everywhere() []string {
	w.Helper()
	w.fill(w.keys.Schedule(), 2e9, sample("A", "later"))
	w.do("SADD", w.keys.Queues(), "q", "r")
	w.do("LPUSH", w.keys.Queue("q"), sample("A", "waits"), sample("B", "waits too"))
	w.do("LPUSH", w.keys.Quarantine("q"), sample("A", "alone"))
	w.do("LPUSH", w.keys.Queue("r"), sample("A", "in r"))
	_, err := w.keys.Register("h:1:aa", lua.Record{Queues: []string{"q", "r"}, Beat: time.Second, TTL: time.Minute}).Do(w.Context(), w.driver)
	require.NoError(w, err)
	w.do("LPUSH", w.keys.Working("r", "h:1:aa"), sample("A", "runs"), sample("A", "orphan"))
	w.do("HSET", w.keys.Work("h:1:aa"), "t1", fmt.Sprintf(`{"queue":"r","run_at":1700000000,"payload":%q}`, sample("A", "runs")))
	w.do("SADD", w.keys.Processes(), "ruby:1:cc")
	w.do("HSET", w.keys.Process("ruby:1:cc"), "info", `{"hostname":"ruby"}`, "busy", "1")
	w.do("HSET", w.keys.Work("ruby:1:cc"), "t1", fmt.Sprintf(`{"queue":"q","run_at":1700000000,"payload":%q}`, sample("A", "in ruby")))
	w.fill(w.keys.Retry(), 2e9, sample("A", "failed", `"error_class":"Net::ReadTimeout"`, `"error_message":"Connection RESET by peer"`))
	w.fill(w.keys.Dead(), float64(time.Now().Unix()-3600), sample("C", "dead", `"tags":["Billing","caf\u00e9"]`), "unreadable garbage")
	return []string{"later", "waits", "waits too", "alone", "in r", "runs", "orphan", "in ruby", "failed", unreadableID("unreadable garbage"), "dead"}
}

func TestSearch(t *testing.T) {
	promises(t, map[string]func(w *world){
		"without a filter lists all jobs, however many at a time": func(w *world) {
			want := w.everywhere()
			require.Equal(w, want, jids(w.search(Query{})))
			for _, limit := range []int{1, 2, 3, 1000} {
				require.Equal(w, want, jids(w.search(Query{Limit: limit})))
			}
			require.Equal(w, want, jids(w.search(Query{Time: time.Nanosecond})))
			var all []Found
			for found, err := range w.inspector.Jobs(w.Context(), Query{Limit: 4}) {
				require.NoError(w, err)
				all = append(all, found)
			}
			require.Equal(w, want, jids(all))
		},
		"shows who holds a job, and which entries no process reports": func(w *world) {
			w.everywhere()
			held := w.search(Query{Places: []Place{PlaceRunning, PlaceQuarantined}})
			require.Equal(w, []string{"alone", "runs", "orphan", "in ruby"}, jids(held))
			require.Equal(w, []string{"", "h:1:aa", "h:1:aa", "ruby:1:cc"}, []string{held[0].Process, held[1].Process, held[2].Process, held[3].Process})
			require.Equal(w, []bool{false, true, false, true}, []bool{held[0].Reported, held[1].Reported, held[2].Reported, held[3].Reported})
			require.Equal(w, StateAlive, held[1].State)
			w.do("ZADD", w.keys.Alive(), "1", "h:1:aa")
			require.Equal(w, StateLapsed, w.search(Query{IDs: []string{"orphan"}})[0].State)
		},
		"finds by jid, class, queue and place": func(w *world) {
			w.everywhere()
			require.Equal(w, []string{"waits"}, jids(w.search(Query{IDs: []string{"waits"}})))
			require.Equal(w, []string{unreadableID("unreadable garbage")}, jids(w.search(Query{IDs: []string{unreadableID("unreadable garbage")}})))
			require.Equal(w, []string{"waits too"}, jids(w.search(Query{Filter: Filter{Class: "B"}})))
			require.Empty(w, w.search(Query{Filter: Filter{Class: "b"}}))
			require.Equal(w, []string{"in r", "runs", "orphan"}, jids(w.search(Query{Filter: Filter{Queue: "r"}})))
			require.Equal(w, []string{"dead"}, jids(w.search(Query{Places: []Place{PlaceDead}, Filter: Filter{Class: "C"}})))
			require.Empty(w, w.search(Query{IDs: []string{"waits"}, Filter: Filter{Class: "B"}}))
		},
		"finds several IDs at once, and unreadable entries": func(w *world) {
			w.everywhere()
			garbage := unreadableID("unreadable garbage")
			require.Equal(w, []string{"later", "in ruby", "dead"}, jids(w.search(Query{IDs: []string{"dead", "later", "nowhere", "in ruby"}})))
			require.Equal(w, []string{"later", garbage}, jids(w.search(Query{IDs: []string{garbage, "later"}, Limit: 1})))
			require.Equal(w, []string{garbage}, jids(w.search(Query{Filter: Filter{Unreadable: true}})))
			require.Empty(w, w.search(Query{Filter: Filter{Unreadable: true, Class: "A"}}))
			many := []string{"dead"}
			for n := range lua.MaxSought {
				many = append(many, strconv.Itoa(n))
			}
			require.Equal(w, []string{"dead"}, jids(w.search(Query{IDs: many, Places: []Place{PlaceDead, PlaceQueue}})))
		},
		"finds a text in args, error and tags, whatever its case, and no pattern": func(w *world) {
			w.everywhere()
			w.fill(w.keys.Dead(), 2e9, `{"class":"A","jid":"x","args":["sch\u00f6n <b>",{"Name":"a.b*c"}]}`)
			for text, want := range map[string]string{
				"readtimeout": "failed", "connection reset": "failed", "BILLING": "dead", "CAFÉ": "dead", "Schön <B>": "x", "name": "x",
				"b*c": "x", "garbage": unreadableID("unreadable garbage"),
			} {
				require.Equal(w, []string{want}, jids(w.search(Query{Filter: Filter{Text: text}})), text)
			}
			require.Empty(w, w.search(Query{Filter: Filter{Text: "a.*c"}}))
			require.Empty(w, w.search(Query{Filter: Filter{Text: "jid"}}), "only what people wrote")
		},
		"continues in a long list and among equal scores while jobs leave": func(w *world) {
			want := map[string]bool{}
			w.do("SADD", w.keys.Queues(), "q")
			for n := range 700 {
				payload := sample("A", fmt.Sprintf("w%d", n))
				w.do("LPUSH", w.keys.Queue("q"), payload)
				w.do("ZADD", w.keys.Dead(), "7", sample("A", fmt.Sprintf("d%03d", n)))
				want[fmt.Sprintf("w%d", n)], want[fmt.Sprintf("d%03d", n)] = true, true
			}
			query := Query{Limit: 100}
			for at := 0; ; at++ {
				results, err := w.inspector.Search(w.Context(), query)
				require.NoError(w, err)
				for _, found := range results.Found {
					delete(want, found.JID)
				}
				if query.Cursor = results.Next; query.Cursor == "" {
					break
				}
				if at < 6 {
					w.do("RPOP", w.keys.Queue("q"), "30") // a worker takes what was passed
				}
			}
			require.Empty(w, want)
		},
		"looks into all queues and processes, however many": func(w *world) {
			const queues = 2_300
			names, want := []string{"SADD", w.keys.Queues()}, []string{}
			for n := range queues {
				queue := fmt.Sprintf("queue%04d", n)
				names = append(names, queue)
				if n%7 == 0 {
					want = append(want, queue)
					w.do("LPUSH", w.keys.Queue(queue), sample("A", queue))
				}
			}
			w.do(names...)
			for n := range 1_200 {
				w.do("SADD", w.keys.Processes(), fmt.Sprintf("ruby:%d:cc", n))
			}
			require.Equal(w, want, jids(w.search(Query{})))
			found, err := w.inspector.Find(w.Context(), "nowhere", nil)
			require.NoError(w, err)
			require.Equal(w, Found{JID: "nowhere", Place: PlaceNotFound, Looked: 2 * len(want)}, found)
			chosen := append([]string{"nowhere"}, want[:200]...)
			for jid, result := range w.cancel(chosen...) {
				require.Equal(w, jid != "nowhere", result.Result == CancelRemoved, "%+v", result)
			}
		},
		"dead jobs come as they are listed, the last death first": func(w *world) {
			const jobs = 700
			for n := range jobs {
				w.do("ZADD", w.keys.Dead(), strconv.Itoa(1700000000+n/3), sample("A", strconv.Itoa(n)))
			}
			var found []string
			query := Query{Filter: Filter{Class: "A"}, Places: []Place{PlaceDead}, Limit: 100}
			for more := true; more; more = query.Cursor != "" {
				results, err := w.inspector.Search(w.Context(), query)
				require.NoError(w, err)
				for _, job := range results.Found {
					found = append(found, job.JID)
				}
				query.Cursor = results.Next
				// The set changes between two pages: a new death, one of those that were found, and one still
				// to find.
				w.do("ZADD", w.keys.Dead(), strconv.Itoa(1800000000+len(found)), sample("A", fmt.Sprint("new ", len(found))))
				w.do("ZREM", w.keys.Dead(), sample("A", found[0]), sample("A", strconv.Itoa(3)))
			}
			require.Equal(w, []string{"699", "698", "697"}, found[:3])
			require.Len(w, found, jobs-1, "each once, without those that died or left meanwhile")
			require.True(w, slices.IsSortedFunc(found, func(a, b string) int {
				first, _ := strconv.Atoi(a)
				second, _ := strconv.Atoi(b)
				return cmp.Compare(second/3, first/3)
			}))
		},
		"finds a class by each of its names": func(w *world) {
			mailer := sample("Wrapper", "1", `"wrapped":"Mail::Delivery"`, `"display_class":"Welcome#hello"`)
			w.fill(w.keys.Dead(), 1700000000, mailer, sample("Other", "2"))
			for _, class := range []string{"Wrapper", "Mail::Delivery", "Welcome#hello"} {
				found := w.search(Query{Filter: Filter{Class: class}})
				require.Len(w, found, 1, class)
				require.Equal(w, "1", found[0].JID)
			}
		},
		"continues at the cursors that addresses of older dashboards have": func(w *world) {
			w.do("SADD", w.keys.Queues(), "q")
			w.push(w.keys.Queue("q"), sample("A", "1"), sample("A", "2"), sample("A", "3"))
			w.fill(w.keys.Dead(), 7, sample("A", "d7"), sample("A", "d8"), sample("A", "d9"))
			for cursor, want := range map[string][]string{
				fmt.Sprintf(`{"stage":2,"name":"q","way":{"most":3,"seen":2,"left":2,"mark":%q}}`, unreadableID(sample("A", "2"))): {"3", "d9", "d8", "d7"},
				`{"stage":5,"way":{"from":"8","to":"9","left":1}}`:                                                                 {"d7"},
				`{"stage":3}`: {"d9", "d8", "d7"},
			} {
				query := Query{Filter: Filter{Class: "A"}, Cursor: base64.RawURLEncoding.EncodeToString([]byte(cursor))}
				require.Equal(w, want, jids(w.search(query)), cursor)
			}
			at := base64.RawURLEncoding.EncodeToString([]byte(`{"from":"8","to":"9","left":1}`))
			step, err := w.inspector.Step(w.Context(), Task{Home: Dead(), Action: Delete, Selection: Selection{All: true}}, at)
			require.NoError(w, err)
			require.Equal(w, []int{1, 2}, []int{step.Moved, len(w.set(w.keys.Dead()))})
		},
		"refuses another text as a cursor": func(w *world) {
			w.everywhere()
			cursors := []string{"?", "bm8"}
			for _, text := range []string{
				`[]`, `1`, `{"stage":1}x`, `{"stage":"1"}`, `{"from":"-inf","to":"1"}`, `{"stage":-1}`, `{"stage":5,"way":{"from":"x","to":"y"}}`,
				`{"stage":5,"way":{"from":"nan","to":"1"}}`, `{"stage":5,"way":{"from":"1","to":"2","left":-1}}`,
				`{"stage":2,"name":"mail","way":{"most":3,"seen":-3}}`, `{"stage":2,"name":"mail","way":{"most":-1}}`,
			} {
				cursors = append(cursors, base64.RawURLEncoding.EncodeToString([]byte(text)))
			}
			for _, cursor := range cursors {
				_, err := w.inspector.Search(w.Context(), Query{Cursor: cursor})
				require.ErrorIs(w, err, ErrCursor, cursor)
				_, err = w.inspector.Step(w.Context(), Task{Home: Dead(), Action: Delete, Selection: Selection{Filter: Filter{Class: "none"}}}, cursor)
				if cursor != cursorOf(position{From: "-inf", To: "1"}) { // of a Step
					require.ErrorIs(w, err, ErrCursor, cursor)
				}
			}
		},
	})
}

func TestRefs(t *testing.T) {
	promises(t, map[string]func(w *world){
		"name an entry in a set and in a list, also when it has moved up": func(w *world) {
			for n := range 1000 {
				w.do("LPUSH", w.keys.Queue("q"), sample("A", strconv.Itoa(n)))
			}
			w.fill(w.keys.Dead(), 1700000000.123456, sample("A", "1"), sample("A", "2"))
			refs := func(home Home) (refs []string) {
				for entry, err := range w.inspector.Entries(w.Context(), home, 0) {
					require.NoError(w, err)
					refs = append(refs, entry.Ref())
				}
				return refs
			}
			dead, waiting := refs(Dead()), refs(Waiting("q"))
			require.Regexp(w, `^999~[0-9a-f]{12}:999$`, waiting[999])
			entry, ok, err := w.inspector.Get(w.Context(), Dead(), dead[0])
			require.NoError(w, err)
			require.True(w, ok)
			require.Equal(w, "2", entry.ID)
			w.do("RPOP", w.keys.Queue("q"), "300")
			entry, ok, err = w.inspector.Get(w.Context(), Waiting("q"), waiting[900])
			require.NoError(w, err)
			require.True(w, ok)
			require.Equal(w, []string{"900", "600" + strings.TrimPrefix(waiting[900], "900")}, []string{entry.ID, entry.Ref()})
			for _, ref := range []string{waiting[10], "", "x:1", "7:1", "NaN:1", "-5:1", "1e300:1"} {
				_, ok, err = w.inspector.Get(w.Context(), Waiting("q"), ref)
				require.NoError(w, err, ref)
				require.False(w, ok, ref)
			}
			counts := w.act(Waiting("q"), Delete, Selection{Refs: []string{waiting[900], waiting[10], waiting[900]}})
			require.Equal(w, ActCounts{Moved: 1, Missing: []string{waiting[10]}}, counts)
			require.Len(w, w.list(w.keys.Queue("q")), 699)
			require.Equal(w, ActCounts{Moved: 1}, w.act(Dead(), Retry, Selection{Refs: dead[:1]}))
			require.Equal(w, ActCounts{Missing: dead[:1]}, w.act(Dead(), Retry, Selection{Refs: dead[:1]}), "a second press")
			require.Len(w, w.set(w.keys.Dead()), 1)
		},
		"name one of several entries with one jid": func(w *world) {
			classes := []string{"A", "B", "C"}
			for _, home := range []Home{Dead(), Waiting("q")} {
				for _, chosen := range classes {
					w.do("DEL", home.key(w.keys))
					for _, class := range classes {
						if home.sorted() {
							w.fill(home.key(w.keys), 1700000000, sample(class, "same"))
						} else {
							w.do("LPUSH", home.key(w.keys), sample(class, "same"))
						}
					}
					ref := ""
					for entry, err := range w.inspector.Entries(w.Context(), home, 0) {
						require.NoError(w, err)
						if entry.Class == chosen {
							ref = entry.Ref()
						}
					}
					require.Equal(w, ActCounts{Moved: 1}, w.act(home, Delete, Selection{Refs: []string{ref}}))
					require.Equal(w, ActCounts{Missing: []string{ref}}, w.act(home, Delete, Selection{Refs: []string{ref}}), "a second press")
					var left []string
					for entry, err := range w.inspector.Entries(w.Context(), home, 0) {
						require.NoError(w, err)
						left = append(left, entry.Class)
					}
					require.ElementsMatch(w, slices.DeleteFunc(slices.Clone(classes), func(class string) bool { return class == chosen }), left)
				}
			}
		},
		"are never taken for an ID": func(w *world) {
			w.fill(w.keys.Dead(), 1700000000, sample("A", "1"))
			for entry, err := range w.inspector.Entries(w.Context(), Dead(), 0) {
				require.NoError(w, err)
				w.do("DEL", w.keys.Dead())
				w.fill(w.keys.Dead(), 1700000000, sample("A", entry.Ref()))
				require.Equal(w, ActCounts{Missing: []string{entry.Ref()}}, w.act(Dead(), Delete, Selection{Refs: []string{entry.Ref()}}))
			}
			require.Len(w, w.set(w.keys.Dead()), 1)
		},
		"come with what a search finds": func(w *world) {
			w.everywhere()
			for _, found := range w.search(Query{Places: []Place{PlaceQueue, PlaceDead, PlaceRetry}}) {
				home := map[Place]Home{PlaceQueue: Waiting(found.Queue), PlaceDead: Dead(), PlaceRetry: Retries()}[found.Place]
				entry, ok, err := w.inspector.Get(w.Context(), home, found.Entry.Ref())
				require.NoError(w, err)
				require.True(w, ok)
				require.Equal(w, found.JID, entry.ID)
			}
		},
	})
}

func TestStep(t *testing.T) {
	promises(t, map[string]func(w *world){
		"all steps are one act, and count each job once": func(w *world) {
			const jobs = 6000
			for n := range jobs {
				w.do("ZADD", w.keys.Dead(), strconv.Itoa(n/3000), sample([]string{"A", "B"}[n%2], strconv.Itoa(n)))
			}
			task := Task{Home: Dead(), Action: Retry, Selection: Selection{Filter: Filter{Class: "A"}}}
			moved, looked, steps := 0, 0, 0
			for cursor := ""; ; steps++ {
				step, err := w.inspector.Step(w.Context(), task, cursor)
				require.NoError(w, err)
				require.LessOrEqual(w, step.Looked, 2048)
				moved, looked = moved+step.Moved, looked+step.Looked
				w.do("ZADD", w.keys.Dead(), "9", sample("A", fmt.Sprintf("again%d", steps))) // one of them died again
				if cursor = step.Next; cursor == "" {
					break
				}
			}
			require.Equal(w, []int{jobs / 2, jobs}, []int{moved, looked})
			require.Equal(w, 3, steps, "and the last finds that it was the end")
			require.Len(w, w.list(w.keys.Queue("q")), jobs/2)
			require.Len(w, w.set(w.keys.Dead()), jobs/2+4)
		},
		"two operators who press at once move each job once": func(w *world) {
			const jobs = 3000
			for n := range jobs {
				w.do("LPUSH", w.keys.Queue("mial"), sample("A", strconv.Itoa(n)))
			}
			task := Task{Home: Waiting("mial"), Action: Move, Selection: Selection{All: true}, To: "mail"}
			cursors, moved := []string{"", ""}, 0
			for left := []int{0, 1}; len(left) > 0; {
				for _, n := range slices.Clone(left) {
					step, err := w.inspector.Step(w.Context(), task, cursors[n])
					require.NoError(w, err)
					moved += step.Moved
					if cursors[n] = step.Next; step.Next == "" {
						left = slices.DeleteFunc(left, func(m int) bool { return m == n })
					}
				}
			}
			require.Equal(w, jobs, moved)
			require.Empty(w, w.list(w.keys.Queue("mial")))
			require.Len(w, w.list(w.keys.Queue("mail")), jobs)
		},
		"names are looked for until they are found": func(w *world) {
			for n := range 5000 {
				w.do("ZADD", w.keys.Retry(), strconv.Itoa(n), sample("A", strconv.Itoa(n)))
			}
			task := Task{Home: Retries(), Action: Delete, Selection: Selection{IDs: []string{"4999", "3", "nowhere"}}}
			step, err := w.inspector.Step(w.Context(), task, "")
			require.NoError(w, err)
			require.Equal(w, []string{"4999", "nowhere"}, step.Missing)
			require.Equal(w, 1, step.Moved)
			for step.Next != "" {
				task.Selection.IDs = step.Missing
				step, err = w.inspector.Step(w.Context(), task, step.Next)
				require.NoError(w, err)
			}
			require.Equal(w, []string{"nowhere"}, step.Missing)
			require.Len(w, w.set(w.keys.Retry()), 4998)
		},
		"a filter is the same as a search's": func(w *world) {
			w.everywhere()
			require.Equal(w, ActCounts{Moved: 1}, w.act(Retries(), Kill, Selection{Filter: Filter{Text: "readTIMEOUT"}}))
			require.Equal(w, ActCounts{}, w.act(Dead(), Delete, Selection{Filter: Filter{Text: "readtimeout", Class: "C"}}))
			require.Equal(w, ActCounts{Moved: 1}, w.act(Dead(), Delete, Selection{Filter: Filter{Text: "café", Class: "C"}}))
		},
	})
}

func TestReschedule(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
	const score = "1893553445.678901"
	promises(t, map[string]func(w *world){
		"lets jobs wait for another time and changes no byte": func(w *world) {
			payload := sample("A", "1", `"x":1E2`)
			for _, c := range []struct {
				home Home
				key  string
			}{{Scheduled(), w.keys.Schedule()}, {Retries(), w.keys.Retry()}} {
				w.fill(c.key, 2e9, payload, sample("B", "2"))
				task := Task{Home: c.home, Action: Reschedule, Selection: Selection{IDs: []string{"1"}}, At: at}
				for range 2 { // a second press has the same answer
					counts, err := w.inspector.Act(w.Context(), task, nil)
					require.NoError(w, err)
					require.Equal(w, ActCounts{Moved: 1}, counts)
					require.Equal(w, score, w.do("ZSCORE", c.key, payload))
				}
				require.Equal(w, "2000000001", w.do("ZSCORE", c.key, sample("B", "2")))
				task.Selection.IDs = []string{"3"}
				counts, err := w.inspector.Act(w.Context(), task, nil)
				require.NoError(w, err)
				require.Equal(w, ActCounts{Missing: []string{"3"}}, counts)
			}
		},
		"counts each of many jobs once, earlier or later": func(w *world) {
			for n := range 600 {
				w.do("ZADD", w.keys.Schedule(), strconv.Itoa(1_893_553_000+n), sample("A", strconv.Itoa(n)))
			}
			task := Task{Home: Scheduled(), Action: Reschedule, Selection: Selection{All: true}, At: at}
			var counts ActCounts
			for more, cursor := true, ""; more; {
				step, err := w.inspector.Step(w.Context(), task, cursor)
				require.NoError(w, err)
				counts.Add(step.ActCounts)
				cursor, more = step.Next, step.Next != ""
			}
			require.Equal(w, ActCounts{Moved: 600}, counts)
			counts, err := w.inspector.Act(w.Context(), task, nil)
			require.NoError(w, err)
			require.Equal(w, ActCounts{}, counts)
			times := make(map[string]bool)
			all := texts(w.do("ZRANGE", w.keys.Schedule(), "0", "-1", "WITHSCORES"))
			for n := 0; n < len(all); n += 2 {
				times[all[n+1]] = true
				require.Equal(w, sample("A", strconv.Itoa(n/2)), all[n], "in their order")
			}
			require.Len(w, times, 600, "or Ruby's pages would take them all out to act on one")
			require.Equal(w, score, all[1])
			require.Equal(w, int64(600), w.do("ZCOUNT", w.keys.Schedule(), score, "1893553445.679501"))
		},
		"prolongs the job's own lock and no other's": func(w *world) {
			own, other := strings.Repeat("a", 32), strings.Repeat("b", 32)
			for _, digest := range []string{own, other} {
				lock := dedup.Lock{Digest: digest, Until: dedup.UntilExecuted, TTL: time.Hour, Scheduled: true}
				w.fill(w.keys.Schedule(), 1.8e9, sample("A", "1", `"belay_unique":`+lock.Edit().JSON))
			}
			w.do("SET", w.keys.Lock(own), "-1\nA\n1", "PX", "60000")
			w.do("SET", w.keys.Lock(other), "-2\nA\n1", "PX", "60000")
			now, err := w.inspector.Now(w.Context())
			require.NoError(w, err)
			task := Task{Home: Scheduled(), Action: Reschedule, Selection: Selection{All: true}, At: now.Add(24 * time.Hour)}
			counts, err := w.inspector.Act(w.Context(), task, nil)
			require.NoError(w, err)
			require.Equal(w, 2, counts.Moved)
			require.InDelta(w, (25 * time.Hour).Milliseconds(), w.do("PTTL", w.keys.Lock(own)), 60_000)
			require.InDelta(w, 60_000, w.do("PTTL", w.keys.Lock(other)), 60_000)
		},
		"refuses other homes and no time": func(w *world) {
			for _, task := range []Task{
				{Home: Dead(), At: at}, {Home: Waiting("q"), At: at}, {Home: Scheduled()}, {Home: Retries(), At: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
			} {
				task.Action, task.Selection.All = Reschedule, true
				_, err := w.inspector.Act(context.Background(), task, nil)
				require.Error(w, err)
			}
		},
	})
}
