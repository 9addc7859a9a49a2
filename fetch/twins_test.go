package fetch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// rollBack makes Redis forget that a job was taken, as a failover does to a replica that had not received that.
func (r *rig) rollBack(held *Run) {
	r.t.Helper()
	r.do("LREM", r.keys.Working(held.Queue, held.Session.Identity), "1", held.Bytes)
	r.do("RPUSH", r.keys.Queue(held.Queue), held.Bytes)
}

// looksAround lets the fetcher do whatever it wants to, for some beats.
func (r *rig) looksAround() {
	r.t.Helper()
	for range 3 {
		r.beat()
		until := time.Now().Add(100 * time.Millisecond)
		r.pump("a beat", func() bool { return time.Now().After(until) && !r.k.reconcile.unsure && r.k.inFlight == 0 })
	}
}

func TestAJobIsNotRunBesideItselfAfterItWasTakenAgain(t *testing.T) {
	t.Parallel()

	t.Run("and_the_run_that_goes_on_ends_it", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 3, "mail")
			r.push("mail", 1)
			r.pump("the job, and then a wait", func() bool { return len(r.running) == 1 && r.k.openWaits() == 1 })
			r.rollBack(r.running[0])
			r.pump("it to be taken again", func() bool { return len(r.working("mail")) == 1 })
			r.looksAround()
			require.Len(t, r.running, 1, "beside itself")
			r.end(func(h *Run) job.Outcome { return job.Retried(h.Bytes, time.Minute) })
			r.looksAround()
			require.Empty(t, r.running, "it has ended")
			require.Empty(t, r.working("mail"))
			require.Equal(t, int64(1), r.do("ZCARD", r.keys.Retry()))
			require.Equal(t, "1", r.count(r.keys.Processed()))
			require.NotContains(t, r.log.String(), "ownership lost")
		})
	})

	t.Run("by_a_take_of_several", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 4, "mail")
			r.push("mail", 3)
			r.pump("the jobs", func() bool { return len(r.running) == 3 && r.k.openWaits() == 1 })
			r.do("SADD", r.keys.Paused(), "mail")
			r.beat()
			r.pump("no wait", func() bool { return r.k.openWaits() == 0 && r.k.inFlight == 0 })
			for _, held := range r.running {
				r.rollBack(held)
			}
			r.push("mail", 1)
			r.do("SREM", r.keys.Paused(), "mail")
			r.looksAround()
			r.pump("the one that is new", func() bool { return len(r.running) == 4 })
			r.looksAround()
			require.Len(t, r.running, 4)
			r.end(done)
			r.looksAround()
			require.Equal(t, "4", r.count(r.keys.Processed()))
			require.Empty(t, r.list(r.keys.Queue("mail")))
			require.NotContains(t, r.log.String(), "ownership lost")
		})
	})

	t.Run("nor_under_a_new_identity", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 3, "mail")
			r.push("mail", 1)
			r.pump("the job, and then a wait", func() bool { return len(r.running) == 1 && r.k.openWaits() == 1 })
			r.record.Formerly = r.session.Identity
			r.enter() // Redis has forgotten the other one, too
			r.looksAround()
			r.rollBack(r.running[0])
			r.pump("it to be taken again", func() bool { return len(r.working("mail")) == 1 })
			r.looksAround()
			require.Len(t, r.running, 1, "beside itself")
			r.end(done)
			r.looksAround()
			require.Empty(t, r.running, "it has ended")
			require.Equal(t, "1", r.count(r.keys.Processed()))
			require.Empty(t, r.working("mail"))
			require.NotContains(t, r.log.String(), "ownership lost")
		})
	})

	t.Run("but_two_jobs_of_the_same_bytes_run_both", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 5, "mail")
			same := payload("mail")
			r.do("LPUSH", r.keys.Queue("mail"), same, same, same)
			r.pump("all of them", func() bool { return len(r.running) == 3 })
			r.end(done)
			r.looksAround()
			require.Empty(t, r.running)
			require.Equal(t, "3", r.count(r.keys.Processed()))
			require.Empty(t, r.working("mail"))
		})
	})
}
