package lua

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
)

// prolong prolongs a session by a second.
func (w *world) prolong(identity string, watched ...Watched) Prolonged {
	w.Helper()
	return w.prolongMarked("", identity, watched...)
}

// prolongMarked prolongs a session by a second, after a heartbeat that has reported this mark.
func (w *world) prolongMarked(marked, identity string, watched ...Watched) Prolonged {
	w.Helper()
	calls, read := w.keys.Prolong(identity, time.Second, time.UnixMilli(int64(w.now()*1000)), marked, watched...)
	reply, err := read(w.client.Do(w.Context(), calls...))
	require.NoError(w, err)
	return reply
}

// leased takes these leases for another process, and returns them for a heartbeat to watch.
func (w *world) leased(leases ...string) (watched []Watched) {
	w.Helper()
	for _, lease := range leases {
		require.True(w, ask(w, Lease(lease, "another", time.Minute)))
		watched = append(watched, Watched{lease, time.Minute})
	}
	return watched
}

func TestProlong(t *testing.T) {
	keep(t,
		promise{"adds_to_the_expiry_of_a_session", func(w *world) {
			identity := w.process("q")
			expiry := w.score(w.keys.Alive(), identity)
			before := w.now()
			reply := w.prolong(identity)
			w.within(before, float64(reply.Now.UnixMicro())/1e6, w.now())
			require.True(w, reply.Calm)
			require.Equal(w, int64(expiry)+1000, int64(w.score(w.keys.Alive(), identity)))
			require.Equal(w, int64(expiry)+1000, reply.Expiry.UnixMilli())
			require.Zero(w, reply.Subscribed)
			w.subscribe(identity)
			require.Equal(w, 1, w.prolong(identity).Subscribed)
		}},
		promise{"revives_none_that_was_declared_dead", func(w *world) {
			identity := w.hold("a")
			w.lapse(identity)
			require.Equal(w, StateDead, ask(w, w.keys.Recover(identity, []string{"q"}, nil, w.today)).State)
			for range 9 {
				reply := w.prolong(identity)
				require.False(w, reply.Expiry.After(reply.Now))
				require.False(w, reply.Calm, "it has lapsed")
			}
			w.push("q", "b")
			require.Equal(w, WhyFenced, w.take(identity, 1, "q").Why)
			require.Equal(w, StateDead, ask(w, w.keys.Heartbeat(identity, someTTL)).State)
			require.Equal(w, Recovered{State: StateDead, Moved: 1}, w.rescue(identity, "a"))
			w.unchanged(func() { require.Zero(w, w.prolong(identity).Expiry) })
		}},
		promise{"begins_no_session_that_Redis_has_forgotten", func(w *world) {
			identity := w.process("q")
			w.redis("DEL", w.keys.Record(identity), w.keys.Alive())
			w.unchanged(func() {
				reply := w.prolong(identity)
				require.Zero(w, reply.Expiry)
				require.False(w, reply.Calm)
			})
		}},
		promise{"is_calm_only_if_a_heartbeat_has_nothing_to_report", func(w *world) {
			identity, other := w.process("q"), w.process("q")
			watched := append(w.leased(w.keys.Poller(), w.keys.Sweeper()),
				Watched{Key: w.keys.Working("q", identity)}, Watched{Key: w.keys.Paused()})
			record := w.hash(w.keys.Record(identity))
			for what, words := range map[string][2][]string{
				"a signal":         {{"LPUSH", w.keys.Signals(identity), "TSTP"}, {"DEL", w.keys.Signals(identity)}},
				"a job in hand":    {{"LPUSH", w.keys.Working("q", identity), "a"}, {"DEL", w.keys.Working("q", identity)}},
				"paused queues":    {{"SADD", w.keys.Paused(), "r"}, {"DEL", w.keys.Paused()}},
				"a free lease":     {{"DEL", w.keys.Sweeper()}, {"SET", w.keys.Sweeper(), "another", "PX", "60000"}},
				"a lost record":    {{"DEL", w.keys.Record(identity)}, {"HSET", w.keys.Record(identity), "ttl_ms", record["ttl_ms"]}},
				"a lapsed process": {{"ZADD", w.keys.Alive(), "1000", other}, {"ZREM", w.keys.Alive(), other}},
			} {
				require.True(w, w.prolong(identity, watched...).Calm, "before %s", what)
				w.redis(words[0]...)
				require.False(w, w.prolong(identity, watched...).Calm, what)
				w.redis(words[1]...)
			}
			ask(w, w.keys.Mark([]Mark{{JID: "a"}}))
			require.False(w, w.prolong(identity, watched...).Calm)
			marked := ask(w, w.keys.Heartbeat(identity, someTTL, watched...)).Marked
			require.True(w, w.prolongMarked(marked, identity, watched...).Calm)
			ask(w, w.keys.Mark([]Mark{{JID: "b"}}))
			require.False(w, w.prolongMarked(marked, identity, watched...).Calm)
			w.redis("DEL", w.keys.Cancelled())
			require.False(w, w.prolongMarked(marked, identity, watched...).Calm, "they were read before they were lost")
		}},
		promise{"fails_where_a_reply_is_an_error", func(w *world) {
			identity := w.process("q")
			w.redis("SET", w.keys.Cancelled(), "no marks")
			calls, read := w.keys.Prolong(identity, time.Second, time.Now(), "7")
			_, err := read(w.client.Do(w.Context(), calls...))
			require.ErrorContains(w, err, "WRONGTYPE")
			require.False(w, driver.Outage(err), "a heartbeat must follow")
		}},
	)
}

// What an idle fleet costs is what its heartbeats cost.
func TestAnIdleHeartbeatRunsFewCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openGoredis, drivertest.Start(t).URL())
	identity := w.process("q")
	w.subscribe(identity)
	watched := w.leased(w.keys.Poller(), w.keys.Sweeper(), w.keys.Watcher(), w.keys.Deputy())
	for _, key := range append(w.keys.ListsOf([]string{"q"}, identity), w.keys.Paused()) {
		watched = append(watched, Watched{Key: key})
	}
	commands := func() int {
		info, _ := w.redis("INFO", "stats").(string)
		_, rest, _ := strings.Cut(info, "total_commands_processed:")
		digits, _, _ := strings.Cut(rest, "\r")
		count, err := strconv.Atoi(digits)
		require.NoError(t, err)
		return count
	}
	ask(w, w.keys.Heartbeat(identity, someTTL, watched...)) // loads the script
	before := commands()
	require.True(t, ask(w, w.keys.Heartbeat(identity, someTTL, watched...)).Calm())
	require.LessOrEqual(t, commands()-before-2, 12, "within the script: without the call itself and INFO")
	before = commands()
	require.True(t, w.prolong(identity, watched...).Calm)
	require.LessOrEqual(t, commands()-before-2, 6, "without TIME and INFO of this test")
}
