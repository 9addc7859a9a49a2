package fetch

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
)

// A heart is a client for heartbeats that notes which calls begin its round trips, and may change replies.
type heart struct {
	driver.Client
	sent   []string
	change func(calls []driver.Call, replies []driver.Reply)
}

func (h *heart) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	h.sent = append(h.sent, calls[0].Name())
	replies := h.Client.Do(ctx, calls...)
	if h.change != nil {
		h.change(calls, replies)
	}
	return replies
}

// take returns what was sent since the last take.
func (h *heart) take() []string {
	sent := h.sent
	h.sent = nil
	return sent
}

// setClock makes Redis' clock appear to be set by this much for heartbeats without a script.
func setClock(by time.Duration) func([]driver.Call, []driver.Reply) {
	return func(calls []driver.Call, replies []driver.Reply) {
		for i, call := range calls {
			if call.Name() == "TIME" {
				now, _ := lua.TimeOf(replies[i])
				now = now.Add(by)
				replies[i].Value = []any{strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond() / 1000)}
			}
		}
	}
}

// A pulse sends the heartbeats of a rig's session.
type pulse struct {
	*rig
	heart   *heart
	watched []lua.Watched
}

func newPulse(t *testing.T, r *rig) *pulse {
	t.Helper()
	return &pulse{
		rig: r, heart: &heart{Client: r.direct},
		watched: []lua.Watched{{Key: r.keys.Working("q", r.session.Identity)}, {Key: r.keys.Paused()}},
	}
}

// send sends a heartbeat, some ms after the one before, and returns what that took.
func (p *pulse) send() (HeartbeatReply, []string, error) {
	p.heart.take()
	time.Sleep(3 * time.Millisecond)
	reply, err := p.session.Beat(p.ctx, p.heart, p.keys, p.clock, p.watched...)
	return reply, p.heart.take(), err
}

// sends sends a heartbeat that must begin with these calls.
func (p *pulse) sends(calls ...string) HeartbeatReply {
	p.t.Helper()
	reply, sent, err := p.send()
	require.NoError(p.t, err)
	require.Equal(p.t, calls, sent)
	return reply
}

// expiry returns the session's expiry in Redis.
func (p *pulse) expiry() time.Time {
	p.t.Helper()
	ms, err := strconv.ParseInt(p.do("ZSCORE", p.keys.Alive(), p.session.Identity).(string), 10, 64)
	require.NoError(p.t, err)
	return time.UnixMilli(ms)
}

func TestMostHeartbeatsOfACalmProcessAreNoScript(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		for name, test := range map[string]func(t *testing.T, p *pulse){
			"nineteen_of_twenty": func(t *testing.T, p *pulse) {
				for range 2 {
					p.sends("heartbeat")
					for range 19 {
						before := p.expiry()
						reply := p.sends("ZADD")
						require.Equal(t, lua.StateAlive, reply.State)
						require.Equal(t, p.expiry().UnixMilli(), reply.Expiry.UnixMilli())
						require.True(t, p.expiry().After(before))
						require.False(t, reply.Expiry.After(reply.Now.Add(rigTTL)), "it is never late")
						require.Less(t, reply.Now.Add(rigTTL).Sub(reply.Expiry), rigTTL/2)
					}
				}
			},
			"none_while_the_loop_reads_the_lists_itself": func(t *testing.T, p *pulse) {
				p.watched = nil
				p.sends("heartbeat")
				p.sends("heartbeat")
			},
			"none_after_one_that_failed": func(t *testing.T, p *pulse) {
				p.sends("heartbeat")
				p.sends("ZADD")
				away := driver.Reply{Err: context.DeadlineExceeded}
				p.heart.change = func(_ []driver.Call, replies []driver.Reply) {
					for i := range replies {
						replies[i] = away
					}
				}
				_, sent, err := p.send()
				require.True(t, driver.Outage(err))
				require.Equal(t, []string{"ZADD"}, sent, "a second call would wait as long")
				p.heart.change = nil
				p.sends("heartbeat")
			},
			"none_until_there_is_nothing_to_report": func(t *testing.T, p *pulse) {
				p.sends("heartbeat")
				p.do("SADD", p.keys.Paused(), "q")
				require.Equal(t, 1, p.sends("ZADD", "heartbeat").There)
				require.Equal(t, 1, p.sends("heartbeat").There)
				p.do("DEL", p.keys.Paused())
				p.sends("heartbeat")
				p.sends("ZADD")
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, newPulse(t, newRig(t, open, 1, "q")))
			})
		}
		t.Run("none_where_a_command_is_denied", func(t *testing.T) {
			t.Parallel()
			server := drivertest.Start(t)
			_, err := server.Do(t.Context(), "ACL", "SETUSER", "default", "-pubsub")
			require.NoError(t, err)
			p := newPulse(t, newRigOn(t, open, server.Addr(), drivertest.Prefix(t), 1, "q"))
			require.Equal(t, -1, p.sends("heartbeat").Subscribed)
			p.sends("heartbeat")
		})
	})
}

func TestAHeartbeatThatFindsSomethingIsFollowedAtOnceByTheScript(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		for name, test := range map[string]func(t *testing.T, p *pulse){
			"a_signal": func(t *testing.T, p *pulse) {
				p.do("LPUSH", p.keys.Signals(p.session.Identity), "TSTP")
				require.Equal(t, []string{"TSTP"}, p.sends("ZADD", "heartbeat").Signals)
			},
			"a_mark": func(t *testing.T, p *pulse) {
				p.do("ZADD", p.keys.Cancelled(), "7", "")
				require.Equal(t, "7", p.sends("ZADD", "heartbeat").Marked)
				require.Equal(t, "7", p.sends("ZADD").Marked, "it is not newer")
			},
			"a_lost_record": func(t *testing.T, p *pulse) {
				p.do("DEL", p.keys.Record(p.session.Identity))
				require.True(t, p.sends("ZADD", "heartbeat", "register").Restored)
				p.sends("heartbeat")
				p.sends("ZADD")
			},
			"a_session_that_Redis_has_lost": func(t *testing.T, p *pulse) {
				p.do("DEL", p.keys.Record(p.session.Identity), p.keys.Alive())
				require.Equal(t, lua.StateUnknown, p.sends("ZADD", "heartbeat").State)
			},
			"its_own_tombstone": func(t *testing.T, p *pulse) {
				p.do("ZADD", p.keys.Tombstones(), "1", p.session.Identity)
				p.do("ZADD", p.keys.Alive(), "0", p.session.Identity)
				require.Equal(t, lua.StateDead, p.sends("ZADD", "heartbeat").State)
				require.ErrorIs(t, context.Cause(p.session.Context), ErrOwnershipLost)
			},
			"that_it_has_lapsed": func(t *testing.T, p *pulse) {
				p.do("ZADD", p.keys.Alive(), "1000", p.session.Identity)
				p.sends("ZADD", "heartbeat")
				require.WithinDuration(t, time.Now().Add(rigTTL), p.expiry(), rigTTL/2)
			},
			"a_Redis_that_is_full": func(t *testing.T, p *pulse) {
				p.heart.change = func(calls []driver.Call, replies []driver.Reply) {
					if len(calls) > 1 { // it runs the script
						replies[0] = driver.Reply{Err: &driver.ServerError{Code: "OOM", Message: "command not allowed when used memory > 'maxmemory'."}}
					}
				}
				require.Equal(t, lua.StateAlive, p.sends("ZADD", "heartbeat").State)
			},
			"a_clock_that_was_set_forward": func(t *testing.T, p *pulse) {
				p.heart.change = setClock(rigTTL / 4)
				p.sends("ZADD", "heartbeat")
			},
			"a_clock_that_was_set_back": func(t *testing.T, p *pulse) {
				p.heart.change = setClock(-time.Second)
				p.sends("ZADD", "heartbeat")
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newPulse(t, newRig(t, open, 1, "q"))
				p.sends("heartbeat")
				test(t, p)
			})
		}
	})
}

// What Redis takes for the last heartbeat is what the lease counts from, or a job could start after the instant
// from which the process may be declared dead.
func TestALeaseCountsFromNoLaterThanTheExpiryDoes(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		p := newPulse(t, newRig(t, open, 1, "q"))
		slow := func(delay time.Duration) {
			p.heart.change = func([]driver.Call, []driver.Reply) { time.Sleep(delay) }
		}
		boot := time.Now().Add(-lua.SinceBoot()) // Redis has the same clock
		slow(200 * time.Millisecond)
		p.sends("heartbeat")
		slow(0)
		reply := p.sends("ZADD")
		confirmed, beat := boot.Add(time.Duration(p.session.confirmedAt.Load())), reply.Expiry.Add(-rigTTL)
		require.False(t, confirmed.After(beat.Add(5*time.Millisecond)), "by %v", confirmed.Sub(beat))
		slow(2 * time.Second)
		p.sends("ZADD")
		slow(0)
		p.sends("heartbeat") // for the expiry would be early by what the reply took
	})
}
