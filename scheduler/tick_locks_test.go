package scheduler_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// The lock of a tick outlives six hours as long as its job is anywhere, and does not outlive the job, even if that
// was run or deleted by a process that frees no locks.
func TestALockOfATickLastsAsLongAsItsJob(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		me, own := "me:1:abc", "jid of the tick"
		_, err := r.keys.Register(me, lua.Record{Queues: []string{"q"}, TTL: time.Minute}).Do(t.Context(), r.client)
		require.NoError(t, err)
		locks := scheduler.NewTickLocks(scheduler.Config{Client: r.client, Keys: r.keys, Log: slog.New(logbook.JSON(&r.log, slog.LevelDebug)), Largest: job.DefaultPayloadLimit})
		lock, err := scheduler.OverlapRule("n").Lock(job.Draft{Class: "C", JID: "x"})
		require.NoError(t, err)
		r.define(lua.Registrar{}, scheduler.Periodic{Name: "n", Cron: "* * * * *"}, lock.Edit())
		key := r.keys.Lock(lock.Digest)
		hold := func(since time.Time) {
			r.do("SET", key, fmt.Sprintf("-%s%d", lua.OwnerOf(own, "C"), since.UnixMilli()))
		}
		holds := func() bool {
			require.NoError(r.t, locks.Pass(t.Context(), me))
			return r.do("EXISTS", key) == int64(1)
		}
		payload := job.Draft{Class: "C", JID: own, Queue: "q"}.Encode()
		queues := []string{"SADD", r.keys.Queues(), "q", "moved"}
		for n := range 1_100 { // their names are on several pages
			queues = append(queues, fmt.Sprint("empty", n))
		}
		r.do(queues...)
		r.do("ZADD", r.keys.Waiting(), "1", "api:")
		r.do("SET", r.keys.Poller(), me)
		sixHours := time.Now().Add(-6*time.Hour - time.Minute)
		for _, place := range []struct{ add, remove []string }{
			{[]string{"LPUSH", r.keys.Queue("q"), payload}, []string{"DEL", r.keys.Queue("q")}},
			{[]string{"LPUSH", r.keys.Queue("moved"), payload}, []string{"DEL", r.keys.Queue("moved")}},
			{[]string{"LPUSH", r.keys.Quarantine("q"), payload}, []string{"DEL", r.keys.Quarantine("q")}},
			{[]string{"LPUSH", r.keys.Working("q", me), payload}, []string{"DEL", r.keys.Working("q", me)}},
			{[]string{"LPUSH", r.keys.QuarantineRun(me), payload}, []string{"DEL", r.keys.QuarantineRun(me)}},
			{[]string{"ZADD", r.keys.Retry(), "99999999999", payload}, []string{"DEL", r.keys.Retry()}},
			{[]string{"ZADD", r.keys.Schedule(), "99999999999", payload}, []string{"DEL", r.keys.Schedule()}},
			{[]string{"LPUSH", r.keys.WaitingList("api:"), "q\n" + payload}, []string{"DEL", r.keys.WaitingList("api:")}},
		} {
			for i := range 600 { // it is on the last of several pages
				r.do("LPUSH", r.keys.Queue("q"), job.Draft{Class: "D", JID: fmt.Sprint(own, i), Queue: "q"}.Encode())
			}
			hold(sixHours)
			r.do(place.add...)
			require.True(r.t, holds(), place.add[1])
			r.do("SET", r.keys.Poller(), "another")
			r.do(place.remove...)
			require.True(r.t, holds(), "another process polls, and looks")
			r.do("SET", r.keys.Poller(), me)
			require.False(r.t, holds(), place.add[1])
			require.Contains(r.t, r.log.String(), "lock of a tick freed")
			hold(time.Now())
			require.True(r.t, holds(), "its job may be in the hands of a process of Ruby")
		}
		r.do("SET", key, fmt.Sprintf("k%s%d", lua.OwnerOf(own, "C"), sixHours.UnixMilli()))
		require.True(r.t, holds(), "a push that is unique for a period has it")
		r.do("DEL", key)
		r.do("HSET", r.keys.PeriodicLast(), "n", time.Now().Add(-time.Minute).UTC().Truncate(time.Minute).Format(time.RFC3339))
		r.do("ZADD", r.keys.Periodic(), "1", "n")
		r.pass()
		ttl, ok := r.do("PTTL", key).(int64)
		require.True(r.t, ok)
		require.Greater(r.t, time.Duration(ttl)*time.Millisecond, 365*24*time.Hour, "it does not expire while the job waits or runs")
	})
}
