package fetch

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// crashedTwice is the payload of a job that was running in two crashes.
func crashedTwice(queue string) string {
	draft := payload(queue)
	return draft[:len(draft)-1] + `,"interrupted_count":2}`
}

func TestQuarantinedJobs(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("an_idle_process_takes_one_and_nothing_beside_it", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 3, "mail", "other")
			r.pump("the waits", func() bool { return r.k.openWaits() == 2 })
			first, second := crashedTwice("mail"), crashedTwice("mail")
			r.do("RPUSH", r.keys.Quarantine("mail"), second, first)
			r.push("other", 2)
			r.pump("both ordinary jobs", func() bool { return len(r.running) == 2 })
			r.end(done)
			r.beat()
			r.pump("the quarantined job", func() bool { return len(r.running) == 1 })
			require.Equal(t, []string{first}, bytesOf(r.running))
			require.Equal(t, []string{first}, r.list(r.keys.QuarantineRun(r.session.Identity)))
			r.push("other", 1)
			until := time.Now().Add(200 * time.Millisecond)
			r.pump("a while", func() bool { return time.Now().After(until) })
			require.Len(t, r.running, 1, "nothing is started beside it")
			require.Zero(t, r.k.openWaits())
			r.end(done)
			r.pump("the other job, which has its turn after a quarantined job", func() bool { return len(r.running) == 1 })
			require.Equal(t, "other", r.running[0].Queue)
			r.end(done)
			r.pump("the second quarantined job, when there is nothing else", func() bool { return len(r.running) == 1 })
			require.Equal(t, second, r.running[0].Bytes)
			r.end(done)
			require.Empty(t, r.list(r.keys.Quarantine("mail")))
			require.Empty(t, r.list(r.keys.QuarantineRun(r.session.Identity)))
			require.Equal(t, "5", r.count(r.keys.Processed()))
		})

		t.Run("a_busy_process_drains_for_it_and_gives_up_in_time", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			r.loop.cfg.DrainFor = 300 * time.Millisecond
			r.push("mail", 1)
			r.pump("the long job", func() bool { return len(r.running) == 1 })
			long := r.running[0]
			r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
			r.beat()
			r.pump("the drain", func() bool { return r.loop.quarantine.draining != nil && r.k.openWaits() == 0 && r.k.inFlight == 0 })
			require.NotNil(t, r.do("ZSCORE", r.keys.Draining("mail"), r.session.Identity))
			r.push("mail", 1)
			r.pump("it to be given up, and the next job", func() bool { return len(r.running) == 2 })
			r.pump("the lease to be given back", func() bool { return r.do("ZSCORE", r.keys.Draining("mail"), r.session.Identity) == nil })
			require.Len(t, r.list(r.keys.Quarantine("mail")), 1)
			r.beat()
			until := time.Now().Add(200 * time.Millisecond)
			r.pump("a while", func() bool { return time.Now().After(until) })
			require.Nil(t, r.loop.quarantine.draining, "not again so soon")
			require.Contains(t, r.running, long)
			r.end(done)
			r.beat()
			r.pump("the quarantined job, once the hands are empty", func() bool { return len(r.running) == 1 && r.running[0].quarantined })
			r.end(done)
		})

		t.Run("drains_under_a_load_that_never_ends", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			r.loop.cfg.DrainFor = 10 * time.Second
			r.push("mail", 500)
			r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
			r.beat()
			r.pump("the quarantined job", func() bool {
				if len(r.running) == 1 && r.running[0].quarantined {
					return true
				}
				for _, held := range r.running {
					r.finish(held, job.Done())
				}
				r.running = nil
				return false
			})
			require.NotEmpty(t, r.list(r.keys.Queue("mail")))
			r.end(done)
			require.Nil(t, r.do("ZSCORE", r.keys.Draining("mail"), r.session.Identity))
		})

		t.Run("those_of_a_paused_queue_hold_up_no_other", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail", "other")
			r.do("SADD", r.keys.Paused(), "mail")
			r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
			r.beat()
			r.push("other", 1)
			r.pump("the other job", func() bool { return len(r.running) == 1 })
			require.Equal(t, "other", r.running[0].Queue)
			r.end(done)
			r.do("SREM", r.keys.Paused(), "mail")
			r.beat()
			r.beat()
			r.pump("the quarantined job", func() bool { return len(r.running) == 1 && r.running[0].quarantined })
			r.end(done)
		})

		t.Run("requeued_it_returns_to_the_head_of_its_list", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			first, second := crashedTwice("mail"), crashedTwice("mail")
			r.do("RPUSH", r.keys.Quarantine("mail"), second, first)
			r.beat()
			r.pump("the quarantined job", func() bool { return len(r.running) == 1 })
			r.loop.beQuiet()
			r.end(func(*Run) job.Outcome { return job.Requeued() })
			require.Equal(t, []string{second, first}, r.list(r.keys.Quarantine("mail")))
			require.Empty(t, r.list(r.keys.Queue("mail")))
		})

		t.Run("one_whose_answer_was_lost_is_found_and_runs", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			orphan := crashedTwice("mail")
			r.do("LPUSH", r.keys.QuarantineRun(r.session.Identity), orphan)
			r.do("HSET", r.keys.Record(r.session.Identity), "quarantine_queue", "mail")
			r.push("mail", 1)
			for len(r.running) == 0 {
				r.beat()
				until := time.Now().Add(100 * time.Millisecond)
				r.pump("a look", func() bool { return len(r.running) == 1 || time.Now().After(until) })
			}
			require.Equal(t, []string{orphan}, bytesOf(r.running), "nothing was taken beside it")
			r.end(func(*Run) job.Outcome { return job.Requeued() })
			require.Equal(t, []string{orphan}, r.list(r.keys.Quarantine("mail")), "it went where it had come from")
		})
	})
}

func TestAFewDrainAtATime(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, 1, "mail")
		ask := func(n int) bool {
			held, err := r.keys.Drain("mail", fmt.Sprint("p", n), time.Minute, time.Minute).Do(context.Background(), r.direct)
			require.NoError(t, err)
			return held
		}
		draining := 0
		for n := range 12 {
			if ask(n) {
				draining++
			}
		}
		require.Equal(t, 3, draining, "a quarter of twelve, and one at first")
		require.True(t, ask(0), "it holds its own still")
		r.do("ZADD", r.keys.Draining("mail"), "1", "p0")
		require.True(t, ask(12), "one has ended")
		require.False(t, ask(13), "a quarter of fourteen is three")
	})
}
