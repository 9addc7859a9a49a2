package janitor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// dead makes a process that has left, at an instant in milliseconds, with so many jobs that arrived after that.
func (r *rig) dead(identity string, at time.Time, queue string, jobs int) {
	r.t.Helper()
	_, err := r.keys.Register(identity, lua.Record{Queues: []string{queue}, Beat: 20 * time.Millisecond, TTL: time.Second}).Do(r.ctx, r.client)
	require.NoError(r.t, err)
	_, err = r.keys.Deregister(identity, []string{queue}).Do(r.ctx, r.client)
	require.NoError(r.t, err)
	r.do("ZADD", r.keys.Tombstones(), fmt.Sprint(at.UnixMilli()), identity)
	for range jobs {
		r.do("LPUSH", r.keys.Working(queue, identity), payload(queue))
	}
}

// What cannot be recovered stays where it is, and costs no other process its turn.
func TestAFailedRecoveryStopsNoOther(t *testing.T) {
	t.Parallel()

	t.Run("from_being_recovered_however_many_they_are", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, clients["go-redis"], "good")
		r.do("SET", r.keys.Queue("broken"), "no list")
		for i := range lua.MaxItems {
			stubborn := fmt.Sprintf("h:%d:aa", i)
			_, err := r.keys.Register(stubborn, lua.Record{Queues: []string{"broken"}, Beat: 20 * time.Millisecond, TTL: time.Second}).Do(r.ctx, r.client)
			require.NoError(t, err)
			r.do("LPUSH", r.keys.Working("broken", stubborn), payload("broken"))
			r.lapse(stubborn)
		}
		r.push("good", 1)
		r.take(1)
		r.do("ZADD", r.keys.Alive(), "XX", "1000", r.victim) // after them
		j, session := r.newJanitor()
		drivertest.Eventually(t, func() bool {
			r.watch(j, session)
			_ = j.Pass(r.ctx, session.Identity) // which reports the others
			return len(r.list(r.keys.Queue("good"))) == 1
		}, 30*time.Second, 20*time.Millisecond)
	})

	t.Run("from_being_recovered_swept_and_forgotten_where_a_record_is_none", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, clients["go-redis"], "good")
		now := time.Now()
		for i, at := range []time.Time{now.Add(-time.Second), now.Add(-31 * time.Hour)} {
			odd := fmt.Sprintf("h:9%d:aa", i)
			r.do("SET", r.keys.Record(odd), "no hash")
			r.do("ZADD", r.keys.Tombstones(), fmt.Sprint(at.UnixMilli()), odd)
			r.do("ZADD", r.keys.Alive(), "2000", odd)
		}
		r.dead("h:2:aa", now.Add(-2*time.Second), "good", 1)
		r.dead("h:3:aa", now.Add(-30*time.Hour), "good", 0)
		r.push("good", 1)
		r.take(1)
		r.lapse(r.victim)
		j, session := r.newJanitor()
		drivertest.Eventually(t, func() bool {
			r.watch(j, session)
			require.ErrorContains(t, j.Pass(r.ctx, session.Identity), "WRONGTYPE")
			_, err := j.Sweep(r.ctx, session.Identity)
			require.ErrorContains(t, err, "WRONGTYPE")
			return len(r.list(r.keys.Queue("good"))) == 2
		}, 30*time.Second, 20*time.Millisecond, "the victim's and the latecomer")
		require.False(t, r.isTombstoned("h:3:aa"), "its time has come")
		require.True(t, r.isTombstoned("h:90:aa") && r.isTombstoned("h:91:aa"), "who knows what their lists are")
	})

	t.Run("from_being_swept_and_forgotten", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, clients["go-redis"], "good")
		r.do("SET", r.keys.Queue("broken"), "no list")
		now := time.Now()
		r.dead("h:1:aa", now.Add(-time.Second), "broken", 1)
		r.dead("h:2:aa", now.Add(-2*time.Second), "good", 1)
		for i := range 2 * forgotten {
			r.dead(fmt.Sprintf("h:1%d:aa", i), now.Add(-31*time.Hour), "broken", 1)
		}
		r.dead("h:3:aa", now.Add(-30*time.Hour), "good", 0)
		j, session := r.newJanitor()
		r.look(j, session)
		for range 3 {
			_, err := j.Sweep(r.ctx, session.Identity)
			require.ErrorContains(t, err, "WRONGTYPE")
		}
		require.Len(t, r.list(r.keys.Queue("good")), 1, "the latecomer")
		require.False(t, r.isTombstoned("h:3:aa"), "its time has come")
		require.Equal(t, int64(2*forgotten+2), r.do("ZCARD", r.keys.Tombstones()), "the others' has not")
	})
}

// stuck is an entry that goes to the dead set, and whose batch cannot count it while the queue of its callbacks
// is no list.
func stuck(n int) string {
	return fmt.Sprintf(`{"belay_batch":"b1/broken","args":[,"class":"A","jid":"stuck%d"}`, n)
}

// An entry that Redis refuses to move stays in its list, and costs the other jobs of its process nothing.
func TestARefusedEntryStopsNoOtherOfItsProcess(t *testing.T) {
	t.Parallel()
	// holding makes the victim hold these entries, the last one taken last.
	holding := func(t *testing.T, open opener, entries ...string) *rig {
		t.Helper()
		r := newRig(t, open, "mail", "other")
		r.do("SET", r.keys.Queue("broken"), "no list")
		for chunk := range slices.Chunk(entries, 512) {
			r.do(append([]string{"LPUSH", r.keys.Working("mail", r.victim)}, chunk...)...)
		}
		r.lapse(r.victim)
		return r
	}
	// recovered lets a janitor follow until so many jobs came back, and returns them, the first to run first.
	recovered := func(r *rig, count int) (j *Janitor, session *process, jobs []string) {
		r.t.Helper()
		j, session = r.newJanitor()
		j.cfg.TTL, session.ttl = rigTTL, rigTTL // a pass between two looks takes long
		drivertest.Eventually(r.t, func() bool {
			r.watch(j, session)
			if err := j.Pass(r.ctx, session.Identity); err != nil {
				require.ErrorContains(r.t, err, "WRONGTYPE")
			}
			return len(r.list(r.keys.Queue("mail"))) == count
		}, patience, 20*time.Millisecond)
		jobs = r.list(r.keys.Queue("mail"))
		slices.Reverse(jobs)
		for i := range jobs {
			jobs[i] = strings.TrimSuffix(jobs[i], `,"interrupted_count":1}`) + "}"
		}
		return j, session, jobs
	}

	t.Run("wherever_it_is", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			large := `{"belay_batch":"b1/broken","args":["` + strings.Repeat("x", job.DefaultPayloadLimit+job.PayloadSlack) + `"],"class":"A","jid":"large"}`
			good := []string{payload("mail"), payload("mail"), payload("mail"), payload("mail"), payload("mail")}
			r := holding(t, open, stuck(0), good[0], stuck(1), large, good[1], good[2], stuck(2), good[3], "{", good[4], stuck(3))
			r.do("LPUSH", r.keys.Working("other", r.victim), payload("other"))
			j, session, jobs := recovered(r, len(good))
			require.Equal(t, good, jobs, "in their order")
			require.Len(t, r.list(r.keys.Queue("other")), 1)
			require.Equal(t, int64(1), r.do("ZCARD", r.keys.Dead()), "the unreadable entry of no batch")
			require.Equal(t, []string{stuck(3), stuck(2), large, stuck(1), stuck(0)}, r.working("mail"))

			require.ErrorContains(t, j.Pass(r.ctx, session.Identity), `recover jobs of "mail" from `+r.victim+": 5 of them stay: kill_large: WRONGTYPE")
			require.True(t, time.Now().Before(j.lapsed[r.victim].againAt), "it is put off")
			r.do("DEL", r.keys.Queue("broken"))
			j.lapsed[r.victim].againAt = time.Time{}
			r.recover(j, session, func() bool { return len(r.working("mail")) == 0 })
			require.Equal(t, int64(6), r.do("ZCARD", r.keys.Dead()))
			require.NotContains(t, j.lapsed, r.victim)
		})
	})

	t.Run("however_many_there_are", func(t *testing.T) {
		t.Parallel()
		var entries []string
		for n := range 12 * lua.MaxItems { // more than one pass tries
			entries = append(entries, stuck(n))
		}
		good := payload("mail")
		r := holding(t, clients["go-redis"], append([]string{good}, entries...)...)
		_, _, jobs := recovered(r, 1)
		require.Equal(t, []string{good}, jobs)
		require.Len(t, r.working("mail"), len(entries))
	})

	t.Run("in_a_sweep", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, clients["go-redis"], "mail")
		r.do("SET", r.keys.Queue("broken"), "no list")
		r.dead("h:1:aa", time.Now().Add(-time.Second), "mail", 2)
		r.do("LPUSH", r.keys.Working("mail", "h:1:aa"), stuck(0))
		r.do("RPUSH", r.keys.Working("mail", "h:1:aa"), stuck(1))
		j, session := r.newJanitor()
		r.look(j, session)
		_, err := j.Sweep(r.ctx, session.Identity)
		require.ErrorContains(t, err, "2 of them stay: recover: WRONGTYPE")
		require.Len(t, r.list(r.keys.Queue("mail")), 2)
		require.Len(t, r.list(r.keys.Working("mail", "h:1:aa")), 2)
	})
}

// A sweep may come before the first beat, which brings Redis' time.
func TestASweepBeforeTheFirstBeatCountsOnADayThatThereIs(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], "mail")
	before := time.Now()
	r.dead("h:1:aa", before.Add(-time.Second), "mail", 0)
	r.do("LPUSH", r.keys.Working("mail", "h:1:aa"), "{")
	j, session := r.newJanitor()
	_, err := j.Sweep(r.ctx, session.Identity)
	require.NoError(t, err)
	require.Equal(t, int64(1), r.do("ZCARD", r.keys.Dead()))
	days := []any{r.do("GET", r.keys.FailedOn(before)), r.do("GET", r.keys.FailedOn(time.Now()))}
	require.Contains(t, days, any("1"))
}

func TestNothingThatALivingProcessHoldsIsReadOrKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], "mail")
	// To a process of a shorter TTL it always seems to have lapsed.
	r.record.TTL = time.Minute
	r.enter()
	large := job.Draft{Class: "A", JID: "large", Queue: "mail", ArgsJSON: `["` + strings.Repeat("x", job.DefaultPayloadLimit+job.PayloadSlack) + `"]`}.Encode()
	r.do("LPUSH", r.keys.Queue("mail"), large)
	r.take(1)
	j, session := r.newJanitor()
	followed := 0
	for range 30 {
		reply := r.look(j, session)
		require.Contains(t, reply.Lapsed, r.victim)
		j.since = min(j.since, reply.sinceBoot-time.Hour)
		followed += len(j.dead(session.Identity))
		require.NoError(t, j.Pass(r.ctx, session.Identity))
		time.Sleep(10 * time.Millisecond)
	}
	require.Positive(t, followed)
	require.Equal(t, []string{large}, r.working("mail"))
}

// The process that recovered a dead one may have died before it reached the jobs under the earlier identity.
func TestTheSweepFollowsAFormerNameToo(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	r := newRigOn(t, clients["go-redis"], server.Addr(), "p", "mail")
	// A wait of before the flush may bring a job to the list of an identity that Redis has lost.
	_, err := server.Do(context.Background(), "FLUSHALL")
	require.NoError(t, err)
	former := r.victim
	r.do("LPUSH", r.keys.Working("mail", former), payload("mail"))
	r.record.Formerly = former
	r.enter()
	r.lapse(r.victim)
	// What follow does first; then it is killed.
	answer, err := r.keys.Recover(r.victim, []string{"mail"}, nil, time.Now()).Do(r.ctx, r.client)
	require.NoError(t, err)
	require.Equal(t, lua.StateDead, answer.State)
	j, session := r.newJanitor()
	drivertest.Eventually(t, func() bool {
		r.look(j, session)
		require.NoError(t, j.Pass(r.ctx, session.Identity))
		swept(t, j, session.Identity)
		return len(r.list(r.keys.Queue("mail"))) == 1
	}, patience, 20*time.Millisecond, "the job lies in %s", r.keys.Working("mail", former))
}
