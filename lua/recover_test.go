package lua

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func TestRecover(t *testing.T) {
	keep(t,
		promise{"writes_nothing_while_the_process_is_alive", func(w *world) {
			identity := w.hold("a")
			w.unchanged(func() { require.Equal(w, Recovered{State: StateAlive}, w.rescue(identity, "a")) })
		}},
		promise{"writes_nothing_for_one_whom_Redis_does_not_know", func(w *world) {
			w.redis("LPUSH", w.keys.Working("q", "host:1:x"), "a")
			w.unchanged(func() { require.Equal(w, Recovered{State: StateUnknown}, w.rescue("host:1:x", "a")) })
		}},
		promise{"a_record_that_names_more_queues_than_the_caller_has_read_is_read_again", func(w *world) {
			identity := w.hold("a")
			w.lapse(identity)
			w.redis("HSET", w.keys.Record(identity), "queues", `["q","late"]`)
			require.Equal(w, Recovered{State: StateDead, Moved: 1}, w.rescue(identity, "a"))
			require.Equal(w, int64(0), w.redis("HEXISTS", w.keys.Record(identity), "emptied"))
			require.Zero(w, w.score(w.keys.Alive(), identity), "it counts as lapsed")
			require.Equal(w, Recovered{State: StateDead}, ask(w, w.keys.Recover(identity, []string{"q", "late"}, nil, w.today)))
			require.Equal(w, int64(1), w.redis("HEXISTS", w.keys.Record(identity), "emptied"))
		}},
		promise{"jobs_come_to_the_head_of_their_queue_in_their_order", func(w *world) {
			identity, successor := w.hold("a", "b", "c"), w.process("q")
			w.push("q", "d")
			w.lapse(identity)
			before := w.now()
			page := ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, MaxBytes, noLimit)).Entries
			require.Equal(w, []string{"c", "b", "a"}, page)
			require.Equal(w, Recovered{State: StateDead, Left: 0, Moved: 3}, w.rescue(identity, page...))
			require.Equal(w, []string{"a", "b", "c", "d"}, w.waiting("q"))
			w.within(before*1000-1, w.score(w.keys.Tombstones(), identity), w.now()*1000)
			require.Equal(w, []TakenJobs{{Bytes: []string{"a"}}}, w.take(successor, 1, "q").Jobs)
		}},
		promise{"new_bytes_take_the_place_of_the_old", func(w *world) {
			identity := w.hold("a", "b")
			w.lapse(identity)
			answer := ask(w, w.keys.Recover(identity, []string{"q"}, []Orphans{{Queue: "q", Entries: []Orphan{
				{Old: "b", New: "b interrupted"}, {Old: "a", New: "a interrupted"},
			}}}, w.today))
			require.Equal(w, Recovered{State: StateDead, Moved: 2}, answer)
			require.Equal(w, []string{"a interrupted", "b interrupted"}, w.waiting("q"))
		}},
		promise{"what_cannot_be_read_goes_to_the_dead", func(w *world) {
			identity := w.hold("a", "b", "c", "d")
			w.lapse(identity)
			answer := ask(w, w.keys.Recover(identity, []string{"q"}, []Orphans{{Queue: "q", Entries: []Orphan{
				{Old: "d", New: "d"}, {Old: "c", New: "c", Home: HomeDead}, {Old: "b", New: "b", Home: HomeDead}, {Old: "a", New: "a"},
			}}}, w.today))
			require.Equal(w, Recovered{State: StateDead, Moved: 4}, answer)
			require.Equal(w, []string{"a", "d"}, w.waiting("q"))
			require.ElementsMatch(w, []string{"b", "c"}, w.sorted(w.keys.Dead()))
			require.NotEqual(w, w.score(w.keys.Dead(), "b"), w.score(w.keys.Dead(), "c"))
		}},
		promise{"what_goes_to_the_dead_set_counts_as_failed_once_and_nothing_else_counts", func(w *world) {
			identity := w.hold("a", "b", "c", "d")
			w.lapse(identity)
			orphans := []Orphans{{Queue: "q", Entries: []Orphan{
				{Old: "d", New: "d", Home: HomeDead}, {Old: "c", New: "c", Home: HomeQuarantine}, {Old: "b", New: "b", Home: HomeDead}, {Old: "a", New: "a"},
			}}}
			require.Equal(w, 4, ask(w, w.keys.Recover(identity, []string{"q"}, orphans, w.today)).Moved)
			w.counted(2, 2)
			for _, day := range []string{w.keys.ProcessedOn(w.today), w.keys.FailedOn(w.today)} {
				require.Positive(w, w.number("TTL", day), "a day's counter expires")
			}
			require.Zero(w, ask(w, w.keys.Recover(identity, []string{"q"}, orphans, w.today)).Moved)
			w.counted(2, 2)
		}},
		promise{"a_broken_counter_keeps_no_job_from_dying", func(w *world) {
			identity := w.hold("a")
			w.lapse(identity)
			w.redis("LPUSH", w.keys.Failed(), "no counter")
			answer := ask(w, w.keys.Recover(identity, []string{"q"}, []Orphans{{Queue: "q", Entries: []Orphan{{Old: "a", New: "a", Home: HomeDead}}}}, w.today))
			require.Equal(w, Recovered{State: StateDead, Moved: 1}, answer)
			require.Equal(w, []string{"a"}, w.sorted(w.keys.Dead()))
			require.Equal(w, 1, w.counter(w.keys.Processed()))
			require.Equal(w, 1, w.counter(w.keys.FailedOn(w.today)))
		}},
		promise{"several_lists_in_one_call", func(w *world) {
			identity := w.process("q", "r", "s")
			w.holdMore(identity, "q", "a")
			w.holdMore(identity, "s", "b", "c")
			w.lapse(identity)
			answer := ask(w, w.keys.Recover(identity, []string{"q", "r", "s"}, []Orphans{
				{Queue: "s", Entries: []Orphan{{Old: "c", New: "c"}}}, {Queue: "q", Entries: []Orphan{{Old: "a", New: "a"}}},
			}, w.today))
			require.Equal(w, Recovered{State: StateDead, Left: 1, Moved: 2}, answer)
			require.Equal(w, []string{"a"}, w.waiting("q"))
			require.Equal(w, []string{"c"}, w.waiting("s"))
		}},
		promise{"stays_followed_until_its_lists_are_empty", func(w *world) {
			me, identity := w.process("q"), w.hold("a", "b")
			require.True(w, ask(w, w.keys.Announce(identity, []string{"info", "{}"}, []string{"t1", "{}"})))
			w.lapse(identity)
			require.Equal(w, Recovered{State: StateDead, Left: 1, Moved: 1}, w.rescue(identity, "b"))
			require.Equal(w, []string{identity}, ask(w, w.keys.Heartbeat(me, someTTL)).Lapsed)
			require.NotContains(w, w.hash(w.keys.Record(identity)), "emptied")

			require.Equal(w, Recovered{State: StateDead, Left: 0, Moved: 1}, w.rescue(identity, "a"))
			require.Empty(w, ask(w, w.keys.Heartbeat(me, someTTL)).Lapsed)
			require.Equal(w, "1", w.hash(w.keys.Record(identity))["emptied"])
			require.Equal(w, []string{identity}, w.sorted(w.keys.Tombstones()), "the tombstone stays")
			for _, key := range []string{w.keys.Processes(), w.keys.Process(identity), w.keys.Work(identity), w.keys.Workers(identity)} {
				require.Equal(w, 0, w.number("EXISTS", key), key)
			}
		}},
		promise{"the_verdict_that_nothing_is_there_is_a_death_too", func(w *world) {
			identity := w.process("q")
			w.lapse(identity)
			require.Equal(w, Recovered{State: StateDead}, w.rescue(identity))
			require.Equal(w, StateDead, ask(w, w.keys.Heartbeat(identity, someTTL)).State)
		}},
		promise{"two_janitors_with_the_same_page_move_each_job_once", func(w *world) {
			identity := w.hold("a", "b", "c")
			w.lapse(identity)
			require.Equal(w, 3, w.rescue(identity, "c", "b", "a").Moved)
			w.unchanged(func() {
				require.Equal(w, Recovered{State: StateDead}, w.rescue(identity, "c", "b", "a"))
			})
			require.Equal(w, []string{"a", "b", "c"}, w.waiting("q"))
		}},
		promise{"passes_over_what_its_process_has_settled_meanwhile", func(w *world) {
			identity := w.hold("a", "b")
			w.lapse(identity)
			page := ask(w, w.keys.Entries(w.keys.Working("q", identity), 0, MaxBytes, noLimit)).Entries
			w.settle(identity, 1, end("q", "a", job.Done()))
			require.Equal(w, 1, w.rescue(identity, page...).Moved)
			require.Equal(w, []string{"b"}, w.waiting("q"))
		}},
		promise{"finds_latecomers_after_the_verdict", func(w *world) {
			identity := w.process("q")
			ask(w, w.keys.Deregister(identity, []string{"q"}))
			w.redis("LPUSH", w.keys.Working("q", identity), "late")
			require.Equal(w, Recovered{State: StateDead, Moved: 1}, w.rescue(identity, "late"))
			require.Equal(w, []string{"late"}, w.waiting("q"))
		}},
		promise{"a_home_of_a_wrong_type_is_refused_before_anything_is_written", func(w *world) {
			identity := w.process("q", "r")
			w.holdMore(identity, "q", "a")
			w.holdMore(identity, "r", "b")
			w.lapse(identity)
			w.redis("SET", w.keys.Dead(), "no set")
			orphans := []Orphans{
				{Queue: "q", Entries: []Orphan{{Old: "a", New: "a"}}}, {Queue: "r", Entries: []Orphan{{Old: "b", New: "b", Home: HomeDead}}},
			}
			w.unchanged(func() { refused(w, "WRONGTYPE", w.keys.Recover(identity, []string{"q", "r"}, orphans, w.today)) })
			orphans[1].Entries[0].Home = HomeQueue
			w.redis("SET", w.keys.Queue("r"), "no list")
			w.unchanged(func() { refused(w, "WRONGTYPE", w.keys.Recover(identity, []string{"q", "r"}, orphans, w.today)) })
			require.Empty(w, w.sorted(w.keys.Tombstones()))
		}},
		promise{"a_list_that_is_no_list_is_refused_before_anything_is_written", func(w *world) {
			identity := w.process("q", "r")
			w.holdMore(identity, "q", "a")
			w.lapse(identity)
			w.redis("SET", w.keys.Working("r", identity), "no list")
			orphans := []Orphans{
				{Queue: "q", Entries: []Orphan{{Old: "a", New: "a"}}}, {Queue: "r", Entries: []Orphan{{Old: "b", New: "b"}}},
			}
			w.unchanged(func() { refused(w, "WRONGTYPE", w.keys.Recover(identity, []string{"q", "r"}, orphans, w.today)) })
		}},
		promise{"a_list_that_is_no_list_does_not_hold_up_the_others", func(w *world) {
			identity := w.process("q", "r")
			w.holdMore(identity, "q", "a")
			w.lapse(identity)
			w.redis("SET", w.keys.Working("r", identity), "no list")
			answer := ask(w, w.keys.Recover(identity, []string{"q", "r"}, []Orphans{{Queue: "q", Entries: []Orphan{{Old: "a", New: "a"}}}}, w.today))
			require.Equal(w, Recovered{State: StateDead, Moved: 1}, answer)
		}},
		promise{"an_expiry_further_off_than_twice_its_own_ttl_counts_as_lapsed", func(w *world) {
			identity := w.hold("a")
			expiry := w.now()*1000 + 2*someTTL.Seconds()*1000 // a heartbeat that comes late adds less than the second
			w.redis("ZADD", w.keys.Alive(), strconv.FormatFloat(expiry-60_000, 'f', 0, 64), identity)
			require.Equal(w, StateAlive, w.rescue(identity, "a").State)
			w.redis("ZADD", w.keys.Alive(), strconv.FormatFloat(expiry+60_000, 'f', 0, 64), identity)
			require.Equal(w, Recovered{State: StateDead, Moved: 1}, w.rescue(identity, "a"))
		}},
		promise{"one_that_is_not_listed_as_alive_at_all_has_lapsed", func(w *world) {
			identity := w.hold("a")
			w.redis("ZREM", w.keys.Alive(), identity)
			require.Equal(w, Recovered{State: StateDead, Moved: 1}, w.rescue(identity, "a"))
		}},
	)
}

// rescue recovers these entries of a process' list of q as they are.
func (w *world) rescue(identity string, entries ...string) Recovered {
	w.Helper()
	orphans := Orphans{Queue: "q"}
	for _, entry := range entries {
		orphans.Entries = append(orphans.Entries, Orphan{Old: entry, New: entry})
	}
	return ask(w, w.keys.Recover(identity, []string{"q"}, []Orphans{orphans}, w.today))
}
