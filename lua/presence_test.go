package lua

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
)

// subscribe subscribes to the channel of a session, until end is called, which waits until Redis has dropped
// the subscription.
func (w *world) subscribe(identity string) (end func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	subscribed, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.client.Listen(ctx, []string{w.keys.Presence(identity)}, 0, func() { close(subscribed) }, func(string) {})
	}()
	<-subscribed
	end = func() {
		cancel()
		<-ended
		drivertest.Eventually(w, func() bool { return w.subscriptions(identity) == 0 }, 20*time.Second, time.Millisecond)
	}
	w.Cleanup(end)
	return end
}

func (w *world) subscriptions(identity string) int64 {
	w.Helper()
	answer, _ := w.client.Do(context.Background(), driver.Command("PUBSUB", "NUMSUB", w.keys.Presence(identity)))[0].Value.([]any)
	return answer[1].(int64)
}

func TestPresence(t *testing.T) {
	keep(t,
		promise{"names_the_sessions_that_have_not_lapsed_and_the_expiry_of_those_without_a_subscription", func(w *world) {
			me, present, absent, lapsed := w.process("q"), w.process("q"), w.process("q"), w.process("q")
			w.lapse(lapsed)
			w.subscribe(present)
			before := w.now()
			seen := ask(w, w.keys.LookAtPresence(me, 0))
			w.within(before, float64(seen.Now.UnixMicro())/1e6, w.now())
			require.False(w, seen.Self)
			require.Len(w, seen.Sessions, 3)
			for _, session := range seen.Sessions {
				require.Equal(w, session.Identity == present, session.Subscribed, session.Identity)
				if session.Subscribed {
					require.Zero(w, session.Expiry)
				} else {
					require.Equal(w, int64(w.score(w.keys.Alive(), session.Identity)), session.Expiry.UnixMilli())
				}
				require.Contains(w, []string{me, present, absent}, session.Identity)
			}
			w.subscribe(me)
			require.True(w, ask(w, w.keys.LookAtPresence(me, 0)).Self)
		}},
		promise{"reads_page_by_page", func(w *world) {
			expiry := strconv.FormatFloat(w.now()*1000+someTTL.Seconds()*1000, 'f', 0, 64)
			for n := range MaxItems + 1 {
				w.redis("ZADD", w.keys.Alive(), expiry, "host:1:"+strconv.Itoa(n))
			}
			require.Len(w, ask(w, w.keys.LookAtPresence("me", 0)).Sessions, MaxItems)
			require.Len(w, ask(w, w.keys.LookAtPresence("me", MaxItems)).Sessions, 1)
			require.Empty(w, ask(w, w.keys.LookAtPresence("me", 2*MaxItems)).Sessions)
		}},
		promise{"a_heartbeat_learns_whether_its_session_has_its_subscription", func(w *world) {
			identity := w.process("q")
			require.Zero(w, ask(w, w.keys.Heartbeat(identity, someTTL)).Subscribed)
			end := w.subscribe(identity)
			require.Equal(w, 1, ask(w, w.keys.Heartbeat(identity, someTTL)).Subscribed)
			end()
			require.Zero(w, ask(w, w.keys.Heartbeat(identity, someTTL)).Subscribed)
		}},
	)
}

// A user who may not ask for subscriptions sends heartbeats all the same.
func TestAHeartbeatWithoutPermissionToAskForSubscriptions(t *testing.T) {
	t.Parallel()
	for _, g := range grounds {
		if g.fake {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			server := drivertest.Start(t)
			_, err := server.Do(t.Context(), "ACL", "SETUSER", "tight", "on", ">secret", "~*", "+@all", "-pubsub")
			require.NoError(t, err)
			w := newWorld(t, g.open, "redis://tight:secret@"+server.Addr())
			identity := w.hold("a")
			reply := ask(w, w.keys.Heartbeat(identity, someTTL))
			require.Equal(t, StateAlive, reply.State)
			require.Equal(t, -1, reply.Subscribed)
			refused(w, "NOPERM", w.keys.LookAtPresence(identity, 0))
			w.unchanged(func() { require.Equal(t, StateAlive, w.absent(identity).State) })
		})
	}
}

// lookedAt is the evidence of a look now that finds the present expiry of a session.
func (w *world) lookedAt(identity string) Absence {
	w.Helper()
	return Absence{Expiry: time.UnixMilli(int64(w.score(w.keys.Alive(), identity))), LookedAt: time.UnixMilli(int64(w.now() * 1000))}
}

// absent declares a process dead by the evidence of its absence. The evidence is half a second old at most, so
// on a busy machine it may take some attempts; only a process that may not be declared dead needs all of them.
func (w *world) absent(identity string) (answer Recovered) {
	w.Helper()
	for range 5 {
		if answer = ask(w, w.keys.DeclareDead(identity, []string{"q"}, w.lookedAt(identity), w.today)); answer.State != StateAlive {
			break
		}
	}
	return answer
}

func TestRecoverByAbsence(t *testing.T) {
	keep(t,
		promise{"a_process_without_its_subscription_and_without_a_heartbeat_is_dead_before_it_lapses", func(w *world) {
			identity := w.hold("a")
			require.Equal(w, Recovered{State: StateDead, Left: 1}, w.absent(identity))
			require.Equal(w, StateDead, ask(w, w.keys.Heartbeat(identity, someTTL)).State)
			require.Equal(w, Recovered{State: StateDead, Moved: 1}, w.rescue(identity, "a"))
			require.Equal(w, []string{"a"}, w.waiting("q"))
		}},
		promise{"writes_nothing_while_its_subscription_is_there", func(w *world) {
			identity := w.hold("a")
			w.subscribe(identity)
			w.unchanged(func() { require.Equal(w, Recovered{State: StateAlive}, w.absent(identity)) })
		}},
		promise{"writes_nothing_after_a_heartbeat", func(w *world) {
			identity := w.hold("a")
			for range 5 {
				looked := w.lookedAt(identity)
				drivertest.Eventually(w, func() bool {
					ask(w, w.keys.Heartbeat(identity, someTTL))
					return int64(w.score(w.keys.Alive(), identity)) != looked.Expiry.UnixMilli()
				}, 20*time.Second, time.Millisecond)
				w.unchanged(func() {
					require.Equal(w, Recovered{State: StateAlive}, ask(w, w.keys.DeclareDead(identity, []string{"q"}, looked, w.today)))
				})
			}
		}},
		promise{"writes_nothing_by_a_look_of_long_ago_or_of_the_future", func(w *world) {
			identity := w.hold("a")
			for _, away := range []time.Duration{-time.Second, time.Minute} {
				looked := w.lookedAt(identity)
				looked.LookedAt = looked.LookedAt.Add(away)
				w.unchanged(func() {
					require.Equal(w, Recovered{State: StateAlive}, ask(w, w.keys.DeclareDead(identity, []string{"q"}, looked, w.today)))
				})
			}
		}},
		promise{"writes_nothing_after_it_has_lapsed_which_is_judged_otherwise", func(w *world) {
			identity := w.hold("a")
			looked := w.lookedAt(identity)
			w.lapse(identity)
			looked.Expiry = time.UnixMilli(1)
			w.unchanged(func() {
				require.Equal(w, Recovered{State: StateAlive}, ask(w, w.keys.DeclareDead(identity, []string{"q"}, looked, w.today)))
			})
		}},
	)
}
