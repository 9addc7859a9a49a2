package fetch

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/janitor"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

// lapse makes a session lapsed at once, as if it had sent no heartbeat for long.
func (r *rig) lapse(identity string) {
	r.t.Helper()
	r.do("ZADD", r.keys.Alive(), "XX", "1", identity)
}

// newJanitor makes a janitor of another process, which has known Redis' clock for the TTL of the rig's.
func (r *rig) newJanitor() (*janitor.Janitor, *Session) {
	r.t.Helper()
	record := r.record
	record.Beat, record.TTL, record.Formerly = 20*time.Millisecond, time.Second, ""
	session, err := Register(context.Background(), context.Background(), r.direct, r.keys, r.clock, "janitor", record)
	require.NoError(r.t, err)
	j := janitor.New(janitor.Config{
		Client: r.direct, Keys: r.keys, Log: slog.New(logbook.JSON(r.log, slog.LevelDebug)), Beat: record.Beat, TTL: record.TTL, Between: record.Beat,
		Largest: job.DefaultPayloadLimit + job.PayloadSlack,
	})
	j.Look(lua.HeartbeatReply{State: lua.StateAlive, Now: r.clock.Now().Add(-rigTTL)}, lua.SinceBoot()-rigTTL, 0)
	return j, session
}

// recover lets a janitor look and follow until a condition holds.
func (r *rig) recover(j *janitor.Janitor, session *Session, until func() bool) {
	r.t.Helper()
	drivertest.Eventually(r.t, func() bool {
		reply, err := session.Beat(context.Background(), r.direct, r.keys, r.clock)
		require.NoError(r.t, err)
		j.Look(reply.HeartbeatReply, reply.SentAt, 0)
		require.NoError(r.t, j.Pass(context.Background(), session.Identity))
		return until()
	}, 10*time.Second, 20*time.Millisecond)
}

func (r *rig) isTombstoned(identity string) bool {
	return r.do("ZSCORE", r.keys.Tombstones(), identity) != nil
}

// A session whose absence can declare it dead starts nothing after that instant.
func TestTheLeaseOfAWatchedSessionIsShorter(t *testing.T) {
	t.Parallel()
	record := lua.Record{Beat: time.Minute, TTL: 10 * time.Minute}
	s := newSession(context.Background(), "host:1:a", record, lua.SinceBoot()-record.Beat-lua.AbsentAfter)
	require.True(t, s.Leased())
	s.Watch()
	require.False(t, s.Leased())
	s.confirm(lua.SinceBoot())
	require.True(t, s.Leased())
	record.TTL = record.Beat
	s = newSession(context.Background(), "host:1:b", record, lua.SinceBoot())
	s.Watch()
	require.False(t, s.Leased(), "a short TTL ends the lease sooner")
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("a_zombie_settles_nothing_and_counts_nothing", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 3, "mail")
			r.record.Beat = 20 * time.Millisecond
			r.enter()
			r.push("mail", 3)
			r.pump("the jobs", func() bool { return len(r.running) == 3 })
			old := r.session
			r.lapse(old.Identity)
			j, session := r.newJanitor()
			r.recover(j, session, func() bool { return len(r.list(r.keys.Queue("mail"))) == 3 })

			reply := r.beat()
			require.Equal(t, lua.StateDead, reply.State)
			require.ErrorIs(t, context.Cause(old.Context), ErrOwnershipLost)
			r.finish(r.running[0], job.Done())
			r.finish(r.running[1], job.Retried(r.running[1].Bytes, time.Second))
			r.finish(r.running[2], job.Died(r.running[2].Bytes))
			r.running = nil
			r.pump("the verdicts", func() bool { return old.held == 0 })
			require.Equal(t, "<nil>", r.count(r.keys.Processed()))
			require.Equal(t, int64(0), r.do("ZCARD", r.keys.Retry()))
			require.Equal(t, int64(0), r.do("ZCARD", r.keys.Dead()))
			require.Equal(t, 3, strings.Count(r.log.String(), "ownership lost"))

			r.enter()
			r.pump("work under a new name", func() bool { return len(r.running) == 3 })
			r.end(done)
			require.Equal(t, "3", r.count(r.keys.Processed()))
		})

		t.Run("what_the_janitor_has_not_moved_the_old_owner_may_still_settle", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			r.push("mail", 1)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			r.lapse(r.session.Identity)
			r.end(done)
			require.Equal(t, "1", r.count(r.keys.Processed()))
		})

		t.Run("a_lapsed_process_takes_nothing_and_goes_on_after_its_next_beat", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			r.lapse(r.session.Identity)
			r.push("mail", 1)
			r.pump("the refusal", func() bool { return r.k.fenced })
			require.Empty(t, r.working("mail"))
			require.Equal(t, lua.StateAlive, r.beat().State)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			r.end(done)
		})

		t.Run("nothing_starts_without_a_lease", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			jobs := r.push("mail", 1)
			r.loop.turn(time.Now())
			r.session.confirmedAt.Store(int64(lua.SinceBoot() - rigTTL))
			event := <-r.loop.events
			r.loop.handle(event)
			started := r.k.startReady(nil)
			require.Empty(t, started)
			require.Equal(t, jobs, r.working("mail"))
			require.Equal(t, 1, r.k.ledger.count(ready), "it waits in the ledger")
			r.beat()
			r.pump("its start", func() bool { return len(r.running) == 1 })
			require.NotContains(t, r.log.String(), "orphaned", "no list was searched for it")
			r.end(done)
		})
	})
}
