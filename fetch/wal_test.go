package fetch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// located is a field of a job that has a position of the database main itself.
func located() job.Edit { return dedup.WAL{"main": 1}.Edit(dedup.FieldWAL) }

// refuse pushes a duplicate of j that leaves a position.
func (r *rig) refuse(j uniqueJob, position dedup.LSN) {
	r.t.Helper()
	jid := job.NewJID()
	answer, err := r.keys.PushUnique(nil, []lua.NewJob{{
		Queue: "mail", Job: "duplicate", WAL: dedup.WAL{"main": position}.Lines(),
		Lock: &lua.Lock{Digest: j.Digest, Owner: lua.OwnerOf(jid, "Test"), Hold: time.Minute},
	}}).Do(context.Background(), r.direct)
	require.NoError(r.t, err)
	require.Equal(r.t, j.JID, answer.Holders[0])
}

func (r *rig) kept(j uniqueJob) bool { return r.do("EXISTS", r.keys.Left(j.JID)) == int64(1) }

func TestPositionsThatDuplicatesLeft(t *testing.T) {
	t.Parallel()
	plain := dedup.Rule{Until: dedup.UntilExecuted, TTL: time.Minute}
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("are_known_to_the_run", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 3, "mail")
			for n, rule := range []dedup.Rule{plain, untilExecuting, untilExecuted} {
				j := r.pushUnique(rule, n, located())
				r.refuse(j, 9<<32)
				r.refuse(j, 16<<32)
				r.refuse(j, 10<<32)
			}
			r.pump("all jobs", func() bool { return len(r.running) == 3 })
			for _, held := range r.running {
				require.Equal(t, dedup.WAL{"main": 16 << 32}, held.Left())
			}
			r.end(done)
		})

		t.Run("are_not_asked_for_by_a_job_that_was_pushed_with_none", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			j := r.pushUnique(plain, 1)
			r.refuse(j, 9)
			other := r.pushUnique(plain, 2, located())
			r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: r.shaOfStart(), Nth: 1, Do: faultproxy.Before(func() {
				require.Equal(t, "-"+j.JID, r.lockOf(j))
			})})
			r.pump("both jobs", func() bool { return len(r.running) == 2 })
			require.Equal(t, "-"+j.JID, r.lockOf(j), "its start was not said")
			require.Equal(t, "-"+other.JID, r.lockOf(other), "no run of it is promised to later pushes")
			require.Nil(t, r.running[0].Left())
			require.Nil(t, r.running[1].Left(), "of which no duplicate was refused")
			r.end(done)
		})

		t.Run("are_returned_once_more_when_the_reply_is_lost", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			j := r.pushUnique(untilExecuting, 1, located())
			r.refuse(j, 9)
			r.proxy.Add(faultproxy.DropReply(r.shaOfStart()))
			r.pump("the lock to be free", func() bool { return r.lockOf(j) == "" })
			require.Equal(t, dedup.WAL{"main": 9}, r.runs().Left())
			require.True(t, r.kept(j))
			r.end(done)
			r.pump("what is kept to be forgotten", func() bool { return !r.kept(j) })
		})

		t.Run("are_kept_for_the_next_run_of_the_requeued_job", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			j := r.pushUnique(untilExecuting, 1, located())
			r.refuse(j, 9)
			r.runs()
			r.loop.quiet = true
			r.end(func(*Run) job.Outcome { return job.Requeued() })
			r.loop.quiet = false
			require.Equal(t, dedup.WAL{"main": 9}, r.runs().Left())
			r.end(func(held *Run) job.Outcome {
				parsed, err := job.Parse(held.Bytes)
				require.NoError(t, err)
				return job.Retried(parsed.Patch(held.Left().Edit(dedup.FieldRefusedWAL)), time.Hour)
			})
			r.pump("what is kept to be forgotten", func() bool { return !r.kept(j) })
		})

		t.Run("are_kept_for_a_job_that_goes_on_and_does_not_carry_them", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			j := r.pushUnique(untilExecuting, 1, located())
			r.refuse(j, 9)
			r.runs()
			r.end(func(held *Run) job.Outcome { return job.Snoozed(held.Bytes, time.Hour) })
			r.pump("it to be in the schedule", func() bool { return r.do("ZCARD", r.keys.Schedule()) == int64(1) })
			r.loop.quiet = true // the idle wait is released
			r.pump("nothing to be under way", r.loop.settled)
			require.True(t, r.kept(j))
		})

		t.Run("survive_a_crash_between_the_start_and_the_end", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			r.record.Beat = 20 * time.Millisecond
			r.enter()
			j := r.pushUnique(untilExecuting, 1, located())
			r.refuse(j, 9)
			r.runs()
			require.Empty(t, r.lockOf(j))
			victim := r.session.Identity
			r.lapse(victim)
			r.loop.quiet = true
			janitor, session := r.newJanitor()
			r.recover(janitor, session, func() bool { return len(r.list(r.keys.Queue("mail"))) == 1 })
			r.running = nil
			for run := range r.k.ledger.in(running) {
				r.k.ledger.move(run, gone)
			}
			r.enter()
			r.loop.quiet = false
			require.Equal(t, dedup.WAL{"main": 9}, r.runs().Left())
			r.end(done)
		})

		t.Run("that_came_during_a_run_are_known_to_the_one_more", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			j := r.pushUnique(untilExecuted, 1, located())
			require.Nil(t, r.runs().Left())
			r.refuse(j, 9)
			r.refuse(j, 7)
			r.end(done)
			require.Equal(t, dedup.WAL{"main": 9}, r.runs().Left())
			r.end(done)
			require.Empty(t, r.lockOf(j))
		})
	})
}
