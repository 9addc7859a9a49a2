package lua

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRegister(t *testing.T) {
	keep(t,
		promise{"registers_a_process_with_a_record_that_can_be_read", func(w *world) {
			record := Record{
				Queues: []string{"b", "a", "ü\"\n"}, Beat: 1500 * time.Millisecond, TTL: 6 * time.Second,
				Concurrency: 25, Formerly: "host:1:old",
			}
			before := w.now()
			answer := ask(w, w.keys.Register("host:1:x", record))
			require.True(w, answer.OK)
			w.within(before, float64(answer.Now.UnixMicro())/1e6, w.now())
			w.within((before+6)*1000-1, w.score(w.keys.Alive(), "host:1:x"), (w.now()+6)*1000)

			require.Equal(w, &record, ask(w, w.keys.ReadRecord("host:1:x")))
			require.Equal(w, -1, w.number("TTL", w.keys.Record("host:1:x")), "a record has no expiry")
		}},
		promise{"there_is_no_record_of_one_who_never_registered", func(w *world) {
			require.Nil(w, ask(w, w.keys.ReadRecord("host:1:x")))
		}},
		promise{"a_name_that_a_process_has_is_taken", func(w *world) {
			identity := w.process("q")
			w.unchanged(func() { require.False(w, ask(w, w.keys.Register(identity, Record{TTL: time.Second})).OK) })
		}},
		promise{"a_name_whose_record_was_lost_gets_it_back", func(w *world) {
			identity := w.hold("a")
			w.redis("DEL", w.keys.Record(identity))
			w.redis("HSET", w.keys.Record(identity), "quarantine_queue", "r") // what another script may have noted meanwhile
			require.Equal(w, StateUnrecorded, ask(w, w.keys.Heartbeat(identity, someTTL)).State)
			record := Record{Queues: []string{"q"}, TTL: someTTL, Beat: time.Second, Concurrency: 1}
			require.True(w, ask(w, w.keys.Register(identity, record)).OK)
			record.QuarantineQueue = "r"
			require.Equal(w, &record, ask(w, w.keys.ReadRecord(identity)))
			require.Equal(w, StateAlive, ask(w, w.keys.Heartbeat(identity, someTTL)).State)
			w.lapse(identity)
			require.Equal(w, StateDead, ask(w, w.keys.Recover(identity, []string{"q"}, nil, w.today)).State)
		}},
		promise{"a_name_that_a_process_had_is_taken", func(w *world) {
			identity := w.process("q")
			ask(w, w.keys.Deregister(identity, []string{"q"}))
			w.redis("DEL", w.keys.Record(identity))
			w.unchanged(func() { require.False(w, ask(w, w.keys.Register(identity, Record{TTL: time.Second})).OK) })
		}},
	)
}

func TestBeat(t *testing.T) {
	keep(t,
		promise{"prolongs_a_session_by_a_ttl_from_now", func(w *world) {
			identity := w.process("q")
			before := w.now()
			reply := ask(w, w.keys.Heartbeat(identity, 6*time.Second))
			require.Equal(w, StateAlive, reply.State)
			w.within(before, float64(reply.Now.UnixMicro())/1e6, w.now())
			w.within((before+6)*1000-1, w.score(w.keys.Alive(), identity), (w.now()+6)*1000)
		}},
		promise{"revives_one_that_had_only_lapsed", func(w *world) {
			identity := w.process("q")
			w.push("q", "a")
			w.lapse(identity)
			reply := ask(w, w.keys.Heartbeat(identity, someTTL))
			require.Equal(w, StateAlive, reply.State)
			require.Empty(w, reply.Lapsed)
			require.Equal(w, WhyEnough, w.take(identity, 1, "q").Why)
		}},
		promise{"lists_lapsed_processes_and_no_others", func(w *world) {
			me, alive, gone := w.process("q"), w.process("q"), w.process("q")
			w.lapse(gone)
			reply := ask(w, w.keys.Heartbeat(me, someTTL))
			require.Equal(w, []string{gone}, reply.Lapsed)
			require.NotContains(w, reply.Lapsed, alive)
		}},
		promise{"counts_those_keys_that_are_there_whatever_they_are", func(w *world) {
			identity := w.process("q")
			var hands []Watched
			for _, key := range append(w.keys.ListsOf([]string{"q"}, identity), w.keys.Paused()) {
				hands = append(hands, Watched{Key: key})
			}
			require.Zero(w, ask(w, w.keys.Heartbeat(identity, someTTL)).There)
			require.Zero(w, ask(w, w.keys.Heartbeat(identity, someTTL, hands...)).There)
			w.push("q", "a")
			require.Zero(w, ask(w, w.keys.Heartbeat(identity, someTTL, hands...)).There, "a job that waits is held by no process")
			w.take(identity, 1, "q")
			w.redis("SET", w.keys.Paused(), "no set")
			require.Equal(w, 2, ask(w, w.keys.Heartbeat(identity, someTTL, hands...)).There)
			most := slices.Repeat([]Watched{{Key: w.keys.Paused()}}, 2*MaxQueues+2)
			require.Equal(w, len(most), ask(w, w.keys.Heartbeat(identity, someTTL, most...)).There)
		}},
		promise{"names_the_leases_that_no_process_holds", func(w *world) {
			identity := w.process("q")
			const hold = time.Minute
			watched := []Watched{{Key: w.keys.Paused()}, {w.keys.Poller(), hold}, {w.keys.Sweeper(), hold}}
			free := func() []string {
				reply := ask(w, w.keys.Heartbeat(identity, someTTL, watched...))
				require.Equal(w, w.number("EXISTS", w.keys.Paused()), reply.There, "leases are not counted")
				return reply.Free
			}
			require.Equal(w, []string{w.keys.Poller(), w.keys.Sweeper()}, free())
			require.True(w, ask(w, Lease(w.keys.Poller(), "another", hold)))
			require.Equal(w, []string{w.keys.Sweeper()}, free())
			require.True(w, ask(w, Lease(w.keys.Sweeper(), identity, hold)))
			require.Empty(w, free())
			w.redis("SADD", w.keys.Paused(), "q")
			w.redis("PEXPIRE", w.keys.Poller(), "3660000") // what an hour back makes of a minute
			require.Equal(w, []string{w.keys.Poller()}, free())
			w.redis("SET", w.keys.Sweeper(), "without an end")
			require.Equal(w, []string{w.keys.Poller(), w.keys.Sweeper()}, free())
		}},
		promise{"an_expiry_further_off_than_two_ttls_counts_as_lapsed", func(w *world) {
			me, other := w.process("q"), w.process("q")
			expiry := w.now()*1000 + 2*someTTL.Seconds()*1000
			for _, c := range []struct {
				by     float64
				lapsed []string
			}{{-60_000, []string{}}, {60_000, []string{other}}} {
				w.redis("ZADD", w.keys.Alive(), strconv.FormatFloat(expiry+c.by, 'f', 0, 64), other)
				require.Equal(w, c.lapsed, ask(w, w.keys.Heartbeat(me, someTTL)).Lapsed)
			}
		}},
		promise{"names_a_bounded_number", func(w *world) {
			me := w.process("q")
			words := []string{"ZADD", w.keys.Alive()}
			for i := range 300 {
				words = append(words, "1", "old"+string(rune('a'+i)), "99999999999999", "far"+string(rune('a'+i)))
			}
			w.redis(words...)
			lately := w.process("q")
			w.redis("ZADD", w.keys.Alive(), "1000", lately)
			lapsed := ask(w, w.keys.Heartbeat(me, someTTL)).Lapsed
			require.Len(w, lapsed, MaxItems)
			require.Equal(w, lately, lapsed[0], "who lapsed last is not hidden by those that stay")
		}},
		promise{"pages_name_all_that_have_lapsed_and_no_other", func(w *world) {
			me := w.process("q")
			require.False(w, ask(w, w.keys.Heartbeat(me, someTTL)).More)
			words := []string{"ZADD", w.keys.Alive()}
			var all []string
			for i := range 2*MaxItems + 9 {
				all = append(all, fmt.Sprintf("old%04d", i))
				words = append(words, "1", all[i])
			}
			w.redis(words...)
			require.True(w, ask(w, w.keys.Heartbeat(me, someTTL)).More)
			var named []string
			for first := 0; first <= 2*MaxItems; first += MaxItems {
				w.unchanged(func() { named = append(named, ask(w, w.keys.Lapsed(first))...) })
			}
			require.Equal(w, all, named)
		}},
		promise{"brings_signals_oldest_first_and_once", func(w *world) {
			identity := w.process("q")
			w.redis("LPUSH", w.keys.Signals(identity), "TSTP")
			w.redis("LPUSH", w.keys.Signals(identity), "TERM")
			require.Equal(w, []string{"TSTP", "TERM"}, ask(w, w.keys.Heartbeat(identity, someTTL)).Signals)
			require.Empty(w, ask(w, w.keys.Heartbeat(identity, someTTL)).Signals)
		}},
		promise{"is_not_stopped_by_signals_of_a_wrong_type", func(w *world) {
			identity := w.process("q")
			w.redis("SET", w.keys.Signals(identity), "TERM")
			reply := ask(w, w.keys.Heartbeat(identity, someTTL))
			require.Equal(w, StateAlive, reply.State)
			require.Empty(w, reply.Signals)
		}},
		promise{"is_refused_for_ever_after_a_tombstone", func(w *world) {
			identity := w.hold("a")
			w.redis("LPUSH", w.keys.Signals(identity), "TERM")
			w.lapse(identity)
			require.Equal(w, StateDead, ask(w, w.keys.Recover(identity, []string{"q"}, nil, w.today)).State)
			w.unchanged(func() {
				for range 2 {
					reply := ask(w, w.keys.Heartbeat(identity, someTTL))
					require.Equal(w, StateDead, reply.State)
					require.Equal(w, []string{identity}, reply.Lapsed, "its job is still to be followed")
					require.Empty(w, reply.Signals)
				}
			})
		}},
		promise{"revives_no_process_that_Redis_has_forgotten", func(w *world) {
			identity := w.process("q")
			w.redis("DEL", w.keys.Record(identity), w.keys.Alive())
			w.unchanged(func() { require.Equal(w, StateUnknown, ask(w, w.keys.Heartbeat(identity, someTTL)).State) })
		}},
	)
}

func TestDeregister(t *testing.T) {
	keep(t,
		promise{"leaves_a_tombstone_and_nothing_that_people_read", func(w *world) {
			identity := w.process("q", "r")
			require.True(w, ask(w, w.keys.Announce(identity, []string{"info", "{}"}, []string{"t1", "{}"})))
			before := w.now()
			require.Equal(w, 0, ask(w, w.keys.Deregister(identity, []string{"q", "r"})))
			w.within(before*1000-1, w.score(w.keys.Tombstones(), identity), w.now()*1000)
			require.Empty(w, w.sorted(w.keys.Alive()), "no process needs recovery")
			require.Equal(w, "1", w.hash(w.keys.Record(identity))["emptied"])
			for _, key := range []string{w.keys.Processes(), w.keys.Process(identity), w.keys.Work(identity), w.keys.Workers(identity)} {
				require.Equal(w, 0, w.number("EXISTS", key), key)
			}
		}},
		promise{"what_is_left_in_hand_is_followed_at_once", func(w *world) {
			me, identity := w.process("q"), w.hold("a", "b")
			require.Equal(w, 2, ask(w, w.keys.Deregister(identity, []string{"q"})))
			require.Equal(w, []string{identity}, ask(w, w.keys.Heartbeat(me, someTTL)).Lapsed)
			require.Equal(w, []string{"b", "a"}, w.list(w.keys.Working("q", identity)))
			require.NotContains(w, w.hash(w.keys.Record(identity)), "emptied")
		}},
		promise{"again_changes_nothing", func(w *world) {
			identity := w.hold("a")
			ask(w, w.keys.Deregister(identity, []string{"q"}))
			w.unchanged(func() { require.Equal(w, 1, ask(w, w.keys.Deregister(identity, []string{"q"}))) })
		}},
		promise{"one_whom_Redis_has_forgotten_leaves_no_tombstone", func(w *world) {
			w.redis("SADD", w.keys.Processes(), "host:1:x")
			require.Equal(w, 0, ask(w, w.keys.Deregister("host:1:x", []string{"q"})))
			require.Empty(w, w.everything())
		}},
		promise{"a_list_that_is_no_list_keeps_no_process_from_leaving", func(w *world) {
			identity := w.process("q", "r")
			w.holdMore(identity, "r", "a")
			w.redis("SET", w.keys.Working("q", identity), "no list")
			require.Equal(w, 1, ask(w, w.keys.Deregister(identity, []string{"q", "r"})))
			require.Equal(w, []string{identity}, w.sorted(w.keys.Tombstones()))
		}},
	)
}
