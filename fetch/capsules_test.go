package fetch

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
)

// newCapsules is a process with two capsules of two processors each: the queue mail, and the queue other.
func newCapsules(t *testing.T, open opener, drainFor time.Duration) *rig {
	t.Helper()
	r := newRigOn(t, open, drivertest.Redis(t).Addr(), drivertest.Prefix(t), 2, "mail", "other")
	require.NoError(t, r.loop.Close())
	r.record.Concurrency = 4
	r.open(Space{Client: open(t, r.proxy.URL()), Keys: r.keys, Clock: r.clock}, Config{
		Log:     slog.New(logbook.JSON(r.log, slog.LevelDebug)),
		Shares:  []Share{{Order: strictly(t, "mail"), Concurrency: 2}, {Order: strictly(t, "other"), Concurrency: 2}},
		Largest: job.DefaultPayloadLimit + job.PayloadSlack, CallTimeout: time.Second, DrainFor: drainFor,
	})
	r.enter()
	return r
}

// of are the running jobs of a queue.
func (r *rig) of(queue string) (runs []*Run) {
	for _, run := range r.running {
		if run.Queue == queue {
			runs = append(runs, run)
		}
	}
	return runs
}

// endOf ends the runs of a queue.
func (r *rig) endOf(queue string) {
	var rest []*Run
	for _, run := range r.running {
		if run.Queue == queue {
			r.finish(run, job.Done())
		} else {
			rest = append(rest, run)
		}
	}
	r.running = rest
}

func (r *rig) awhile(d time.Duration) {
	until := time.Now().Add(d)
	r.pump("a while", func() bool { return time.Now().After(until) })
}

// Each capsule has processors of its own: one whose jobs are many or slow takes nothing from another, and
// they share a connection.
func TestCapsulesTakeAsManyJobsAsEachHasProcessors(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newCapsules(t, open, time.Second)
		r.push("mail", 5)
		r.pump("two of mail, and a wait at the other queue", func() bool { return len(r.of("mail")) == 2 && r.k.openWaits() == 1 })
		r.push("other", 3)
		r.pump("two of the other queue", func() bool { return len(r.of("other")) == 2 && r.k.openWaits() == 0 })
		r.awhile(100 * time.Millisecond)
		require.Len(t, r.running, 4)
		require.Len(t, r.working("mail"), 2)
		require.Len(t, r.working("other"), 2)
		r.endOf("mail")
		r.pump("the next two of mail", func() bool { return len(r.of("mail")) == 2 })
		require.Len(t, r.of("other"), 2)
		for len(r.running) > 0 {
			r.end(done)
			r.awhile(50 * time.Millisecond)
		}
		require.Equal(t, "8", r.count(r.keys.Processed()))
	})
}

// A quarantined job has the whole process for itself, and not only its capsule: a crash takes all of them.
func TestAQuarantinedJobHasAllCapsulesForItself(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("it_waits_for_what_others_run_and_they_wait_for_it", func(t *testing.T) {
			t.Parallel()
			r := newCapsules(t, open, 10*time.Second)
			r.push("other", 1)
			r.pump("the other capsule's job, and the waits", func() bool { return len(r.of("other")) == 1 && r.k.openWaits() == 2 })
			r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
			r.beat()
			r.pump("the drain", func() bool { return r.loop.quarantine.draining != nil && r.k.openWaits() == 0 && r.k.inFlight == 0 })
			r.push("other", 1)
			r.awhile(200 * time.Millisecond)
			require.Len(t, r.running, 1, "the other capsule's job still runs, and nothing more is taken in this process")

			r.endOf("other")
			r.pump("the quarantined job", func() bool { return len(r.of("mail")) == 1 })
			require.True(t, r.running[0].quarantined)
			r.awhile(200 * time.Millisecond)
			require.Len(t, r.running, 1, "the quarantined job has the process for itself")

			r.endOf("mail")
			r.pump("the other capsule's next job", func() bool { return len(r.of("other")) == 1 })
			r.end(done)
		})

		t.Run("an_idle_process_does_not_drain", func(t *testing.T) {
			t.Parallel()
			r := newCapsules(t, open, 10*time.Second)
			r.pump("the waits", func() bool { return r.k.openWaits() == 2 })
			r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
			r.beat()
			r.pump("the quarantined job", func() bool { return len(r.running) == 1 && r.k.openWaits() == 0 })
			require.Zero(t, r.do("EXISTS", r.keys.DrainAsked("mail")))
			r.end(done)
			r.push("other", 1)
			r.pump("the other capsule's job", func() bool { return len(r.running) == 1 })
			r.end(done)
		})

		t.Run("two_whose_replies_were_lost_run", func(t *testing.T) {
			t.Parallel()
			r := newCapsules(t, open, 2*time.Second)
			_, _ = r.keys.TakeQuarantined("x", []string{"mail"}, nil).Do(r.ctx, r.direct) // loads the script
			for _, queue := range r.queues {
				r.do("RPUSH", r.keys.Quarantine(queue), crashedTwice(queue))
			}
			r.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: r.keys.Quarantine("mail") + "\r\n$" + fmt.Sprint(len(r.keys.Working("mail", r.session.Identity))), Nth: 1, Do: faultproxy.Close()})
			for _, queue := range []string{"one", "the other"} {
				require.True(t, pumpAll(rigPatience, func() bool { return len(r.running) == 1 && r.running[0].quarantined }, r), queue)
				r.end(done)
			}
		})

		t.Run("one_whose_reply_was_lost_does_not_wait_for_a_job_of_hours", func(t *testing.T) {
			t.Parallel()
			r := newCapsules(t, open, 2*time.Second)
			r.push("other", 1)
			require.True(t, pumpAll(rigPatience, func() bool { return len(r.of("other")) == 1 }, r))
			r.do("LPUSH", r.keys.QuarantineRun(r.session.Identity), crashedTwice("mail"))
			r.do("HSET", r.keys.Record(r.session.Identity), "quarantine_queue", "mail")
			pumpAll(5*time.Second, func() bool { return r.k.reconcile.foundQuarantined() }, r)
			r.push("other", 1)
			r.push("mail", 1)
			require.True(t, pumpAll(rigPatience, func() bool { return len(r.of("other")) == 2 || len(r.of("mail")) == 1 }, r),
				"DrainFor is 2s; nothing is taken in this process for 6s and for as long as the other capsule's job goes on")
		})
	})
}
