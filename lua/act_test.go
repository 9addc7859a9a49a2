package lua

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// eachDestination sends a job to queue q, one to the dead and one away.
func eachDestination() []ActGroup {
	return []ActGroup{
		{Destination: DestinationQueue, Queue: "q", Jobs: []Promotion{{Old: "retried", New: "retried"}}},
		{Destination: DestinationDead, Jobs: []Promotion{{Old: "killed"}}},
		{Destination: DestinationNone, Jobs: []Promotion{{Old: "deleted"}}},
	}
}

func TestActDeepInAListTakesOnlyTheJobs(t *testing.T) {
	keep(t, promise{"and_the_youngest_takes_the_place_of_each", func(w *world) {
		w.push("q", "a", "b", "c", "d", "e", "f")
		deep := func(near int, jobs ...string) Acted {
			return ask(w, w.keys.Act(Source{Key: w.keys.Queue("q"), List: true, Orderly: 1, Near: near}, groupTo(DestinationNone, jobs...)))
		}
		require.Equal(w, Acted{Replaced: []int{0}}, deep(1, "b"))
		require.Equal(w, []string{"a", "f", "c", "d", "e"}, w.waiting("q"))
		require.Equal(w, Acted{Gone: []int{0}, Replaced: []int{1}}, deep(4, "b", "c"), "wherever around its place it is")
		require.Equal(w, []string{"a", "f", "e", "d"}, w.waiting("q"))
		require.Equal(w, Acted{}, deep(0, "d"), "the youngest itself")
		require.Equal(w, Acted{Replaced: []int{0}}, deep(1, "f", "e"), "and then the youngest itself")
		require.Equal(w, Acted{Gone: []int{1}}, deep(Around, "a", "f"))
		require.Empty(w, w.waiting("q"))
	}}, promise{"however_large_the_others_are", func(w *world) {
		large := strings.Repeat("x", 1<<20)
		w.push("q", large+"1", large+"2", "a", large+"3", large+"4")
		require.Equal(w, Acted{Replaced: []int{0}},
			ask(w, w.keys.Act(Source{Key: w.keys.Queue("q"), List: true, Orderly: 1, Near: 4}, groupTo(DestinationNone, "a"))))
	}})
}

func TestActLaterKeepsTheJobInItsSet(t *testing.T) {
	keep(t, promise{"with_a_new_score_if_it_is_there", func(w *world) {
		w.dueAt(w.keys.Retry(), -time.Hour, "a", "b")
		later := []ActGroup{{Destination: DestinationTime, Score: "1893553445.678901", Jobs: []Promotion{{Old: "a"}, {Old: "gone"}}}}
		require.Equal(w, []int{1}, ask(w, w.keys.Act(Source{Key: w.keys.Retry()}, later)).Gone)
		require.Equal(w, []string{"b", "a"}, w.sorted(w.keys.Retry()))
		require.InDelta(w, 1893553445.678901, w.score(w.keys.Retry(), "a"), 1e-6)
	}})
}

func TestActHereKeepsTheJobInItsPlace(t *testing.T) {
	keep(t, promise{"with_new_bytes_if_it_is_there", func(w *world) {
		w.dueAt(w.keys.Retry(), -time.Hour, "a", "b", "taken")
		was := w.score(w.keys.Retry(), "a")
		here := []ActGroup{{Destination: DestinationSame, Jobs: []Promotion{{Old: "a", New: "z"}, {Old: "gone", New: "y"}, {Old: "b", New: "taken"}}}}
		require.Equal(w, []int{1, 2}, ask(w, w.keys.Act(Source{Key: w.keys.Retry()}, here)).Gone)
		require.ElementsMatch(w, []string{"b", "taken", "z"}, w.sorted(w.keys.Retry()), "no job replaces another")
		require.InDelta(w, was, w.score(w.keys.Retry(), "z"), 0)
	}})
}

func groupTo(destination Destination, jobs ...string) []ActGroup {
	group := ActGroup{Destination: destination}
	for _, job := range jobs {
		group.Jobs = append(group.Jobs, Promotion{Old: job})
	}
	return []ActGroup{group}
}

func TestAct(t *testing.T) {
	keep(t,
		promise{"each_job_of_a_set_goes_where_it_is_sent", func(w *world) {
			w.dueAt(w.keys.Retry(), -time.Hour, "a", "b", "c", "d", "stays")
			w.push("q", "older")
			gone := ask(w, w.keys.Act(Source{Key: w.keys.Retry()}, []ActGroup{
				{Destination: DestinationQueue, Queue: "q", Jobs: []Promotion{{Old: "a", New: "a'"}, {Old: "b", New: "b'"}}},
				{Destination: DestinationDead, Jobs: []Promotion{{Old: "c"}}},
				{Destination: DestinationNone, Jobs: []Promotion{{Old: "d"}}},
			}))
			require.Empty(w, gone)
			require.Equal(w, []string{"older", "a'", "b'"}, w.waiting("q"), "at the back, in the order given")
			require.Equal(w, []string{"c"}, w.sorted(w.keys.Dead()))
			require.InDelta(w, w.now(), w.score(w.keys.Dead(), "c"), 60)
			require.Equal(w, []string{"stays"}, w.sorted(w.keys.Retry()))
			require.Equal(w, []string{"q"}, w.texts("SMEMBERS", w.keys.Queues()))
		}},
		promise{"of_a_list_the_oldest_copy_leaves", func(w *world) {
			w.push("q", "a", "b", "a", "c", "d", "a")
			from := Source{Key: w.keys.Queue("q"), List: true, Orderly: 10_000}
			require.Empty(w, ask(w, w.keys.Act(from, groupTo(DestinationNone, "a", "d"))))
			require.Equal(w, []string{"b", "a", "c", "a"}, w.waiting("q"))
			require.Empty(w, ask(w, w.keys.Act(from, groupTo(DestinationDead, "a"))))
			require.Equal(w, []string{"b", "c", "a"}, w.waiting("q"))
			require.Equal(w, []string{"a"}, w.sorted(w.keys.Dead()))
		}},
		promise{"no_job_of_a_list_is_searched_for_farther_than_it_may_have_moved", func(w *world) {
			var jobs []string
			for n := range 2 * Around {
				jobs = append(jobs, strconv.Itoa(n))
			}
			w.push("q", jobs...)
			for n, orderly := range []int{10_000, 1} {
				from := Source{Key: w.keys.Queue("q"), List: true, Orderly: orderly}
				require.Equal(w, Acted{Gone: []int{0}}, ask(w, w.keys.Act(from, groupTo(DestinationNone, jobs[Around+n]))))
				require.Empty(w, ask(w, w.keys.Act(from, groupTo(DestinationNone, jobs[Around-1+n]))).Gone)
			}
		}},
		promise{"what_is_not_there_any_more_is_returned_and_nothing_is_written_for_it", func(w *world) {
			w.dueAt(w.keys.Dead(), time.Hour, "there")
			groups := []ActGroup{
				{Destination: DestinationQueue, Queue: "q", Jobs: []Promotion{{Old: "gone", New: "gone'"}, {Old: "there", New: "there'"}}},
				{Destination: DestinationNone, Jobs: []Promotion{{Old: "never"}}},
			}
			require.Equal(w, Acted{Gone: []int{0, 2}}, ask(w, w.keys.Act(Source{Key: w.keys.Dead()}, groups)))
			require.Equal(w, []string{"there'"}, w.waiting("q"))
			w.unchanged(func() {
				require.Equal(w, Acted{Gone: []int{0, 1, 2}}, ask(w, w.keys.Act(Source{Key: w.keys.Dead()}, groups)), "the second of two comes late")
			})
		}},
		promise{"a_key_of_a_wrong_type_stops_all_before_anything_is_written", func(w *world) {
			w.dueAt(w.keys.Retry(), time.Hour, "retried", "killed", "deleted")
			for _, key := range []string{w.keys.Queue("q"), w.keys.Dead()} {
				w.redis("SET", key, "neither list nor set")
				w.unchanged(func() {
					refused(w, "WRONGTYPE", w.keys.Act(Source{Key: w.keys.Retry()}, eachDestination()))
				})
				w.redis("DEL", key)
			}
			w.unchanged(func() {
				refused(w, "WRONGTYPE", w.keys.Act(Source{Key: w.keys.Retry(), List: true, Orderly: 10_000}, groupTo(DestinationNone, "retried")))
			})
			require.Empty(w, ask(w, w.keys.Act(Source{Key: w.keys.Retry()}, eachDestination())))
		}},
		promise{"the_dead_are_a_microsecond_apart", func(w *world) {
			var jobs []string
			for i := range 50 {
				jobs = append(jobs, fmt.Sprint("job", i))
			}
			w.dueAt(w.keys.Retry(), time.Hour, jobs...)
			require.Empty(w, ask(w, w.keys.Act(Source{Key: w.keys.Retry()}, groupTo(DestinationDead, jobs...))))
			scores := map[float64]bool{}
			for _, job := range jobs {
				scores[w.score(w.keys.Dead(), job)] = true
			}
			require.Len(w, scores, len(jobs))
			require.Equal(w, jobs, w.sorted(w.keys.Dead()), "in the order given")
		}},
	)
}

// ofLock is a group of job a, which has lock d, and of one that has none.
func ofLock(destination Destination, need bool, again *Next) []ActGroup {
	lock := lockOf("a")
	lock.Next = again
	return []ActGroup{{Destination: destination, Queue: "q", Need: need, Jobs: []Promotion{
		{Old: "plain", New: "plain"}, {Old: "a", New: "a", Owned: Owned{Lock: lock}}, {Old: "last", New: "last"},
	}}}
}

func TestActEndsLocks(t *testing.T) {
	for name, destination := range map[string]Destination{"killed": DestinationDead, "deleted": DestinationNone} {
		t.Run(name, func(t *testing.T) {
			// waiting has the job wait for a retry, with its lock.
			waiting := func(w *world) Source {
				w.unique("a")
				w.settle(w.begin(false), 1, locked(job.Retried("a", time.Hour), nil))
				w.dueAt(w.keys.Retry(), -time.Hour, "plain", "last")
				return Source{Key: w.keys.Retry()}
			}
			keep(t,
				promise{"with_the_job_in_the_same_step", func(w *world) {
					from := waiting(w)
					require.Empty(w, ask(w, w.keys.Act(from, ofLock(destination, false, onceMore))))
					w.free()
					require.Empty(w, w.waiting("q"))
					require.Empty(w, w.sorted(w.keys.Retry()))
				}},
				promise{"in_a_queue_too", func(w *world) {
					w.push("q", "plain", "last")
					w.unique("a")
					require.Empty(w, ask(w, w.keys.Act(Source{Key: w.keys.Queue("q"), List: true, Orderly: 10_000}, ofLock(destination, false, nil))))
					w.free()
				}},
				promise{"but_no_other_and_none_of_a_job_that_has_left", func(w *world) {
					from := waiting(w)
					w.redis("DEL", w.keys.Lock("d"), w.keys.Unique())
					w.unique("b")
					w.redis("DEL", w.keys.Queue("q"))
					require.Empty(w, ask(w, w.keys.Act(from, ofLock(destination, false, onceMore))))
					w.held("-", "b")
					w.redis("DEL", w.keys.Lock("d"), w.keys.Unique())
					w.unique("a")
					require.Equal(w, Acted{Gone: []int{0, 1, 2}}, ask(w, w.keys.Act(from, ofLock(destination, false, nil))))
					w.held("-", "a")
				}},
				promise{"and_hands_them_to_the_run_that_a_duplicate_was_promised", func(w *world) {
					from := waiting(w)
					require.Equal(w, "a", w.unique("b"))
					require.Empty(w, ask(w, w.keys.Act(from, ofLock(destination, false, onceMore))))
					w.held("-", "a2")
					require.Equal(w, []string{"a2"}, w.waiting("q"))
				}},
				promise{"or_stops_before_anything_is_written", func(w *world) {
					from := waiting(w)
					w.unique("b")
					w.redis("SET", w.keys.Queue("q"), "no queue")
					w.unchanged(func() { refused(w, "WRONGTYPE", w.keys.Act(from, ofLock(destination, false, onceMore))) })
				}},
				promise{"also_when_they_cannot_be_listed", func(w *world) {
					from := waiting(w)
					w.redis("DEL", w.keys.Unique())
					w.redis("RPUSH", w.keys.Unique(), "no index")
					require.Empty(w, ask(w, w.keys.Act(from, ofLock(destination, false, onceMore))))
					require.Zero(w, w.number("EXISTS", w.keys.Lock("d")))
				}},
				promise{"but_for_a_key_that_is_no_lock", func(w *world) {
					from := waiting(w)
					w.redis("DEL", w.keys.Lock("d"))
					w.redis("RPUSH", w.keys.Lock("d"), "no lock")
					require.Empty(w, ask(w, w.keys.Act(from, ofLock(destination, false, onceMore))))
					require.Equal(w, []string{"no lock"}, w.list(w.keys.Lock("d")))
				}},
			)
		})
	}
}

func TestActTakesLocks(t *testing.T) {
	keep(t,
		promise{"of_the_scheduled_if_they_are_free", func(w *world) {
			w.dueAt(w.keys.Schedule(), -time.Hour, "plain", "a", "last")
			require.Empty(w, ask(w, w.keys.Act(Source{Key: w.keys.Schedule()}, ofLock(DestinationQueue, false, nil))))
			w.held("-", "a")
			require.Equal(w, []string{"plain", "a", "last"}, w.waiting("q"))
		}},
		promise{"though_something_else_stands_in_their_place", func(w *world) {
			for _, set := range []string{w.keys.Schedule(), w.keys.Dead()} {
				w.redis("DEL", w.keys.Lock("d"), w.keys.Unique(), w.keys.Queue("q"))
				w.redis("LPUSH", w.keys.Lock("d"), "x")
				w.redis("SET", w.keys.Unique(), "junk")
				w.dueAt(set, -time.Hour, "plain", "a", "last")
				require.Empty(w, ask(w, w.keys.Act(Source{Key: set}, ofLock(DestinationQueue, set == w.keys.Dead(), nil))))
				require.Equal(w, []string{"plain", "a", "last"}, w.waiting("q"))
				require.Regexp(w, "^-a\nMail\n", w.redis("GET", w.keys.Lock("d")))
			}
		}},
		promise{"and_moves_those_whose_lock_another_has", func(w *world) {
			w.unique("b")
			w.dueAt(w.keys.Schedule(), -time.Hour, "plain", "a", "last")
			require.Empty(w, ask(w, w.keys.Act(Source{Key: w.keys.Schedule()}, ofLock(DestinationQueue, false, nil))))
			w.held("-", "b")
			require.Equal(w, []string{"b", "plain", "a", "last"}, w.waiting("q"))
		}},
		promise{"of_the_dead_or_leaves_them_and_says_who_has_it", func(w *world) {
			w.unique("b")
			w.dueAt(w.keys.Dead(), time.Hour, "plain", "a", "last")
			from := Source{Key: w.keys.Dead()}
			require.Equal(w, Acted{Held: []Blocked{{1, "b"}}}, ask(w, w.keys.Act(from, ofLock(DestinationQueue, true, nil))))
			w.held("-", "b")
			require.Equal(w, []string{"a"}, w.sorted(w.keys.Dead()))
			require.Equal(w, []string{"b", "plain", "last"}, w.waiting("q"))
			w.unchanged(func() {
				require.Equal(w, Acted{Gone: []int{0, 2}, Held: []Blocked{{1, "b"}}}, ask(w, w.keys.Act(from, ofLock(DestinationQueue, true, nil))))
			})
			w.redis("DEL", w.keys.Lock("d"), w.keys.Unique())
			require.Equal(w, Acted{Gone: []int{0, 2}}, ask(w, w.keys.Act(from, ofLock(DestinationQueue, true, nil))))
			w.held("-", "a")
			w.unchanged(func() {
				require.Equal(w, Acted{Gone: []int{0, 1, 2}}, ask(w, w.keys.Act(from, ofLock(DestinationQueue, true, nil))), "it has its own lock, and has left")
			})
			w.redis("DEL", w.keys.Lock("d"), w.keys.Unique())
			w.unique("b")
			w.unchanged(func() {
				require.Equal(w, Acted{Gone: []int{0, 1, 2}}, ask(w, w.keys.Act(from, ofLock(DestinationQueue, true, nil))), "who has left needs no lock")
			})
		}},
		promise{"of_two_that_are_the_same_one_gets_it", func(w *world) {
			w.dueAt(w.keys.Dead(), time.Hour, "a", "b")
			groups := []ActGroup{{Destination: DestinationQueue, Queue: "q", Need: true, Jobs: []Promotion{
				{Old: "a", New: "a", Owned: Owned{Lock: lockOf("a")}}, {Old: "b", New: "b", Owned: Owned{Lock: lockOf("b")}},
			}}}
			require.Equal(w, Acted{Held: []Blocked{{1, "a"}}}, ask(w, w.keys.Act(Source{Key: w.keys.Dead()}, groups)))
			require.Equal(w, []string{"a"}, w.waiting("q"))
		}},
	)
}

func TestPage(t *testing.T) {
	bytesOf := func(page Page) (all string) {
		for _, entry := range page.Entries {
			all += entry.Bytes
		}
		return all
	}
	keep(t,
		promise{"lists_and_sets_from_either_end", func(w *world) {
			w.push("q", "a", "b", "c", "d", "e")
			w.dueAt(w.keys.Dead(), time.Hour, "a", "b", "c", "d", "e")
			for _, c := range []struct {
				key        string
				order      Order
				skip, most int
				want       string
			}{
				{w.keys.Queue("q"), OrderOldest, 0, 2, "ab"}, {w.keys.Queue("q"), OrderOldest, 1, 9, "bcde"},
				{w.keys.Queue("q"), OrderYoungest, 0, 2, "ed"}, {w.keys.Queue("q"), OrderYoungest, 3, 9, "ba"},
				{w.keys.Dead(), OrderLowest, 1, 3, "bcd"}, {w.keys.Dead(), OrderHighest, 1, 3, "dcb"},
				{w.keys.Dead(), OrderHighest, 5, 3, ""}, {w.keys.Queue("q"), OrderOldest, 7, 3, ""},
			} {
				page := ask(w, w.keys.Page(c.key, c.order, c.skip, c.most, MaxBytes))
				require.Equal(w, c.want, bytesOf(page), "%+v", c)
				require.Equal(w, 5, page.Total)
			}
			require.Equal(w, Page{Entries: []Entry{}}, ask(w, w.keys.Page(w.keys.Queue("none"), OrderOldest, 0, 9, MaxBytes)))
			scored := ask(w, w.keys.Page(w.keys.Dead(), OrderLowest, 0, 1, MaxBytes)).Entries[0]
			require.Equal(w, w.redis("ZSCORE", w.keys.Dead(), "a"), scored.Score)
		}},
		promise{"no_more_items_than_a_page_whatever_is_asked_for", func(w *world) {
			var want string
			var jobs []string
			for i := range MaxItems + 44 {
				jobs = append(jobs, fmt.Sprintf("%04d", i))
			}
			want = strings.Join(jobs, "")
			w.push("q", jobs...)
			first := ask(w, w.keys.Page(w.keys.Queue("q"), OrderOldest, 0, 1000, MaxBytes))
			require.Len(w, first.Entries, MaxItems)
			rest := ask(w, w.keys.Page(w.keys.Queue("q"), OrderOldest, MaxItems, 1000, MaxBytes))
			require.Equal(w, want, bytesOf(first)+bytesOf(rest))
		}},
		promise{"no_more_bytes_than_a_page_but_for_the_last_entry", func(w *world) {
			for i := range 8 {
				w.push("q", fmt.Sprint(i)+strings.Repeat("x", 1<<20))
				w.redis("ZADD", w.keys.Dead(), fmt.Sprint(i), fmt.Sprint(i)+strings.Repeat("x", 1<<20))
			}
			require.Len(w, ask(w, w.keys.Page(w.keys.Queue("q"), OrderOldest, 0, 100, MaxBytes)).Entries, 4)
			require.Len(w, ask(w, w.keys.Page(w.keys.Dead(), OrderHighest, 0, 100, MaxBytes)).Entries, 4)
			require.Len(w, ask(w, w.keys.PageAfter(w.keys.Dead(), Cursor{From: "-inf", To: "+inf"})), 4)
		}},
		promise{"a_key_of_a_wrong_type_is_an_error", func(w *world) {
			w.redis("SET", w.keys.Dead(), "no set")
			refused(w, "WRONGTYPE", w.keys.Page(w.keys.Dead(), OrderLowest, 0, 1, MaxBytes))
			refused(w, "WRONGTYPE", w.keys.PageAfter(w.keys.Dead(), Cursor{From: "-inf", To: "+inf"}))
		}},
	)
}

func TestWalk(t *testing.T) {
	// through walks to the end. left says which entries stay; those that do not are taken out at once.
	through := func(w *world, cursor Cursor, left func(job string) bool, between func(page int)) []string {
		var seen []string
		for page := 0; ; page++ {
			entries := ask(w, w.keys.PageAfter(w.keys.Dead(), cursor))
			if len(entries) == 0 {
				return seen
			}
			for _, entry := range entries {
				seen = append(seen, entry.Bytes)
				stays := left(entry.Bytes)
				if !stays {
					w.redis("ZREM", w.keys.Dead(), entry.Bytes)
				}
				cursor.Passed(entry, stays)
			}
			between(page)
		}
	}
	all := Cursor{From: "-inf", To: "+inf"}
	nothing := func(int) {}
	fill := func(w *world, score func(i int) string) (jobs []string) {
		for i := range 3*MaxItems + 7 {
			jobs = append(jobs, fmt.Sprintf("%04d", i))
			w.redis("ZADD", w.keys.Dead(), score(i), jobs[i])
		}
		return jobs
	}
	alike := func(int) string { return "1700000000.123456" }
	stays := func(job string) bool { return job[3]%3 == 0 }
	keep(t,
		promise{"sees_each_entry_once_however_many_have_one_score", func(w *world) {
			jobs := fill(w, alike)
			require.Equal(w, jobs, through(w, all, func(string) bool { return true }, nothing))
			require.Equal(w, jobs, through(w, all, stays, nothing), "whatever is taken out on the way")
		}},
		promise{"passes_over_nothing_when_those_before_it_leave", func(w *world) {
			jobs := fill(w, func(i int) string { return fmt.Sprint(i) })
			seen := through(w, all, func(string) bool { return true }, func(int) {
				for _, early := range jobs[:100] {
					w.redis("ZREM", w.keys.Dead(), early)
				}
			})
			require.Equal(w, jobs, seen)
		}},
		promise{"goes_on_from_the_score_when_its_mark_has_left_or_was_put_off", func(w *world) {
			for name, disturb := range map[string]func(mark string){
				"left":    func(mark string) { w.redis("ZREM", w.keys.Dead(), mark) },
				"put off": func(mark string) { w.redis("ZADD", w.keys.Dead(), "12345", mark) },
			} {
				jobs := fill(w, func(i int) string { return fmt.Sprint(i / 2) })
				seen := through(w, all, func(string) bool { return true }, func(page int) {
					if page == 1 {
						disturb(jobs[2*MaxItems-1])
					}
				})
				for _, job := range jobs {
					require.Contains(w, seen, job, name)
				}
				w.redis("DEL", w.keys.Dead())
			}
		}},
		promise{"ends_where_it_is_sent", func(w *world) {
			jobs := fill(w, func(i int) string { return fmt.Sprint(i) })
			require.Equal(w, jobs[5:301], through(w, Cursor{From: "5", To: "300"}, stays, nothing))
		}},
	)
}

func TestSignal(t *testing.T) {
	keep(t,
		promise{"a_process_hears_it_at_its_next_beat", func(w *world) {
			identity := w.process("q")
			require.True(w, ask(w, w.keys.Signal(identity, "TSTP")))
			require.True(w, ask(w, w.keys.Signal(identity, "TERM")))
			ttl := w.number("TTL", w.keys.Signals(identity))
			require.Positive(w, ttl)
			require.LessOrEqual(w, ttl, 60)
			require.Equal(w, []string{"TSTP", "TERM"}, ask(w, w.keys.Heartbeat(identity, someTTL)).Signals)
		}},
		promise{"nothing_is_sent_to_unknown_processes", func(w *world) {
			w.unchanged(func() { require.False(w, ask(w, w.keys.Signal("host:1:gone", "TERM"))) })
			w.redis("SADD", w.keys.Processes(), "ruby:1:aa")
			require.True(w, ask(w, w.keys.Signal("ruby:1:aa", "TERM")), "Ruby's are in one set only")
		}},
	)
}

func TestPause(t *testing.T) {
	keep(t, promise{"workers_take_nothing_until_it_is_resumed", func(w *world) {
		identity := w.process("q")
		w.push("q", "a")
		for want := range 2 {
			require.Equal(w, int64(1-want), w.client.Do(w.Context(), w.keys.Pause("q"))[0].Value)
		}
		require.Empty(w, w.take(identity, 1, "q").Jobs)
		for want := range 2 {
			require.Equal(w, int64(1-want), w.client.Do(w.Context(), w.keys.Resume("q"))[0].Value)
		}
		require.NotEmpty(w, w.take(identity, 1, "q").Jobs)
	}})
}
