package fetch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

func TestFetcher(t *testing.T) {
	t.Parallel()

	t.Run("takes_as_many_as_are_idle_and_settles_them", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 3, "mail")
			jobs := r.push("mail", 5)
			r.pump("three jobs", func() bool { return len(r.running) == 3 })
			require.Equal(t, jobs[:3], bytesOf(r.running), "oldest first")
			require.Len(t, r.working("mail"), 3, "nothing in hand unstarted")
			r.end(done)
			r.pump("the other two", func() bool { return len(r.running) == 2 })
			r.end(done)
			require.Empty(t, r.working("mail"))
			require.Equal(t, "5", r.count(r.keys.Processed()))
			require.Empty(t, r.session.held)
		})
	})

	t.Run("an_idle_wait_brings_a_job_at_once", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "a", "b", "c")
			r.pump("all queues to be waited on", func() bool { return r.k.openWaits() == 3 })
			jobs := r.push("b", 1)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			require.Equal(t, jobs, bytesOf(r.running))
			require.Equal(t, jobs, r.working("b"))
			r.end(done)
			require.Empty(t, r.working("b"))
		})
	})

	t.Run("when_the_last_processor_is_busy_no_wait_stays", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 1, "a", "b", "c")
			r.pump("all queues to be waited on", func() bool { return r.k.openWaits() == 3 })
			r.push("b", 1)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			r.pump("the waits to be released", func() bool { return r.k.openWaits() == 0 })
			late := r.push("a", 1)
			r.pump("a turn", func() bool { return true })
			require.Equal(t, late, r.list(r.keys.Queue("a")), "no process takes what none can run")
			r.end(done)
			r.pump("the late one", func() bool { return len(r.running) == 1 })
			r.end(done)
		})
	})

	t.Run("what_no_processor_waits_for_goes_straight_back", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 1, "a", "b", "c")
			for range 20 {
				r.stay()
				r.pump("all queues to be waited on", func() bool { return r.k.openWaits() == 3 })
				// All three waits answer at nearly the same time, and there is one processor.
				pushed := append(append(r.push("a", 1), r.push("b", 1)...), r.push("c", 1)...)
				var ran []string
				for len(ran) < 3 {
					r.pump("a job", func() bool { return len(r.running) > 0 })
					require.Len(t, r.running, 1, "one processor")
					ran = append(ran, r.running[0].Bytes)
					r.end(done)
				}
				require.ElementsMatch(t, pushed, ran, "each once")
			}
		})
	})

	t.Run("a_paused_queue_is_neither_run_nor_waited_on", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "a", "b")
			r.do("SADD", r.keys.Paused(), "a")
			jobs := r.push("a", 1)
			r.pump("b to be waited on", func() bool { return r.k.openWaits() == 1 })
			require.Nil(t, r.k.queues["a"].wait)
			before := r.proxy.Count("EVALSHA")
			quietUntil := time.Now().Add(300 * time.Millisecond)
			r.pump("a while", func() bool { return time.Now().After(quietUntil) })
			require.LessOrEqual(t, r.proxy.Count("EVALSHA")-before, 1, "and it does not spin")
			require.Equal(t, jobs, r.list(r.keys.Queue("a")))
			r.do("SREM", r.keys.Paused(), "a")
			r.beat()
			r.pump("the job", func() bool { return len(r.running) == 1 })
			r.end(done)
		})
	})

	t.Run("a_pause_releases_the_wait_within_a_beat", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "a", "b")
			r.pump("both to be waited on", func() bool { return r.k.openWaits() == 2 })
			r.do("SADD", r.keys.Paused(), "a")
			r.beat()
			r.pump("the wait on a to end", func() bool { return r.k.queues["a"].wait == nil && r.k.inFlight == 0 })
			jobs := r.push("a", 1)
			r.pump("a turn", func() bool { return r.k.inFlight == 0 })
			require.Equal(t, jobs, r.list(r.keys.Queue("a")))
		})
	})

	t.Run("a_queue_whose_key_is_broken_is_named_and_passed_over", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "broken", "good")
			r.do("SET", r.keys.Queue("broken"), "x")
			jobs := r.push("good", 1)
			r.pump("the good one", func() bool { return len(r.running) == 1 })
			require.Equal(t, jobs, bytesOf(r.running))
			require.Equal(t, 1, strings.Count(r.log.String(), "queue skipped"))
			r.end(done)
			r.do("DEL", r.keys.Queue("broken"))
			mended := r.push("broken", 1)
			r.beat()
			r.pump("the mended one", func() bool { return len(r.running) == 1 })
			require.Equal(t, mended, bytesOf(r.running))
			r.end(done)
		})
	})
}

func TestLostReplies(t *testing.T) {
	t.Parallel()

	t.Run("a_take_whose_reply_is_lost_strands_nothing", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 3, "mail")
			_, err := r.keys.Take("unknown", r.queues, 1, 1, 1).Do(t.Context(), r.direct)
			require.NoError(t, err, "the script is known from here on, so that the reply lost is that of its run")
			r.proxy.Add(faultproxy.DropReply(r.keys.Alive()))
			jobs := r.push("mail", 2)
			r.pump("the take to be lost", func() bool { return r.k.outage.away })
			require.Len(t, r.working("mail"), 2, "moved, and the reply is lost")
			beats := 0
			for len(r.running) < 2 {
				require.Less(t, beats, 20, "within a few beats, however busy the machine is")
				beats++
				r.beat()
				looked := time.Now().Add(150 * time.Millisecond)
				r.pump("a beat", func() bool { return len(r.running) == 2 || time.Now().After(looked) })
			}
			require.ElementsMatch(t, jobs, bytesOf(r.running))
			r.end(done)
			require.Equal(t, "2", r.count(r.keys.Processed()))
			require.NotContains(t, r.log.String(), "ownership lost")
			require.Empty(t, r.working("mail"))
			require.NotContains(t, strings.Join(jobs, ""), "interrupted_count")
		})
	})

	t.Run("a_wait_whose_reply_is_lost_strands_nothing", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "mail")
			r.proxy.Add(faultproxy.DropReply("BLMOVE"))
			r.pump("the wait", func() bool { return r.proxy.Count("BLMOVE") == 1 })
			jobs := r.push("mail", 1)
			beats := 0
			for len(r.running) < 1 {
				require.Less(t, beats, 20, "within a few beats, however busy the machine is")
				beats++
				r.beat()
				looked := time.Now().Add(150 * time.Millisecond)
				r.pump("a beat", func() bool { return len(r.running) == 1 || time.Now().After(looked) })
			}
			require.Equal(t, jobs, bytesOf(r.running))
			r.end(done)
			require.Equal(t, "1", r.count(r.keys.Processed()))
		})
	})

	t.Run("a_settle_whose_reply_is_lost_is_sent_again_without_harm", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 3, "mail")
			r.push("mail", 3)
			r.pump("three jobs", func() bool { return len(r.running) == 3 })
			r.proxy.Add(faultproxy.DropReply(r.keys.Processed()))
			r.end(done)
			require.Equal(t, "3", r.count(r.keys.Processed()), "counted once")
			require.NotContains(t, r.log.String(), "ownership lost")
			require.Empty(t, r.session.held)
			require.Empty(t, r.working("mail"))
		})
	})

	t.Run("a_settle_that_never_arrived_is_sent_again", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 3, "mail")
			r.push("mail", 3)
			r.pump("three jobs", func() bool { return len(r.running) == 3 })
			r.proxy.Add(faultproxy.DropRequest(r.keys.Processed()))
			r.end(func(h *Run) job.Outcome { return job.Retried(h.Bytes, time.Minute) })
			require.Equal(t, int64(3), r.do("ZCARD", r.keys.Retry()))
			require.Equal(t, "3", r.count(r.keys.Failed()))
		})
	})

	t.Run("many_lost_replies_lose_and_double_nothing", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 4, "a", "b")
			for n := range 12 {
				r.proxy.Add(
					faultproxy.Rule{On: faultproxy.Replies, Token: r.keys.Alive(), Nth: 3 + 5*n, Do: faultproxy.Close()},
					faultproxy.Rule{On: faultproxy.Replies, Token: r.keys.Processed(), Nth: 2 + 4*n, Do: faultproxy.Close()})
			}
			pushed := append(r.push("a", 60), r.push("b", 60)...)
			ran := make(map[string]int)
			nextBeat := time.Now()
			r.pumpFor(40*time.Second, "all jobs", func() bool {
				if time.Now().After(nextBeat) {
					nextBeat = time.Now().Add(150 * time.Millisecond)
					r.beat()
				}
				for _, held := range r.running {
					ran[held.Bytes]++
					r.finish(held, job.Done())
				}
				r.running = nil
				return len(ran) == len(pushed) && r.loop.settled() || r.count(r.keys.Processed()) == "120"
			})
			for bytes, times := range ran {
				require.Equal(t, 1, times, bytes)
			}
			require.Len(t, ran, 120)
			r.settled()
			require.Equal(t, "120", r.count(r.keys.Processed()))
			require.NotContains(t, r.log.String(), "ownership lost")
		})
	})
}

func TestLook(t *testing.T) {
	t.Parallel()

	t.Run("adopts_nothing_that_a_wait_is_just_bringing", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "mail")
			gate := faultproxy.NewGate()
			r.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "BLMOVE", Nth: 1, Do: faultproxy.Hold(gate)})
			r.pump("the wait", func() bool { return r.proxy.Count("BLMOVE") == 1 })
			jobs := r.push("mail", 1)
			r.pump("its job", func() bool { return len(r.working("mail")) == 1 })
			for range 5 {
				r.beat()
				until := time.Now().Add(50 * time.Millisecond)
				r.pump("a look", func() bool { return time.Now().After(until) })
			}
			require.Empty(t, r.running)
			gate.Open()
			r.pump("the job", func() bool { return len(r.running) == 1 && !r.k.reconcile.unsure })
			require.Equal(t, jobs, bytesOf(r.running))
			r.end(done)
			require.NotContains(t, r.log.String(), "reclaimed")
		})
	})

	t.Run("adopts_each_of_two_identical_strangers", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 3, "mail")
			same := payload("mail")
			r.do("LPUSH", r.keys.Queue("mail"), same)
			r.pump("the one that is known", func() bool { return len(r.running) == 1 })
			r.do("LPUSH", r.keys.Working("mail", r.session.Identity), same, same)
			for len(r.running) < 3 {
				r.beat()
				until := time.Now().Add(100 * time.Millisecond)
				r.pump("a look", func() bool { return len(r.running) == 3 || time.Now().After(until) })
			}
			r.end(done)
			require.Empty(t, r.working("mail"))
		})
	})

	t.Run("never_adopts_what_is_in_hand_or_cannot_be_settled", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "mail")
			r.push("mail", 1)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			r.do("SET", r.keys.Retry(), "a string where a set should be")
			r.finish(r.running[0], job.Retried(r.running[0].Bytes, time.Second))
			r.running = nil
			r.pump("the refusal", func() bool { return r.k.ledger.count(blocked) == 1 })
			for range 4 {
				r.beat()
				until := time.Now().Add(80 * time.Millisecond)
				r.pump("a look", func() bool { return time.Now().After(until) })
			}
			require.Empty(t, r.running, "its outcome is known, it is not to run again")
			require.Len(t, r.working("mail"), 1, "and it is not lost")
			r.do("DEL", r.keys.Retry())
			r.k.blockedAt = time.Now()
			r.pump("the settle", func() bool { return r.session.held == 0 })
			require.Equal(t, int64(1), r.do("ZCARD", r.keys.Retry()))
		})
	})

	t.Run("one_refused_job_does_not_hold_up_the_others_of_its_batch", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 4, "mail")
			r.push("mail", 4)
			r.pump("the jobs", func() bool { return len(r.running) == 4 })
			r.do("SET", r.keys.Dead(), "a string where a set should be")
			for i, held := range r.running {
				if i == 1 {
					r.finish(held, job.Died(held.Bytes))
				} else {
					r.finish(held, job.Done())
				}
			}
			r.running = nil
			r.pump("three to be settled", func() bool { return r.session.held == 1 && r.k.ledger.count(blocked) == 1 })
			require.Equal(t, "3", r.count(r.keys.Processed()))
			r.do("DEL", r.keys.Dead())
			r.k.blockedAt = time.Now()
			r.pump("the fourth", func() bool { return r.session.held == 0 })
		})
	})
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, 4, "mail")
		jobs := r.push("mail", 6)
		r.pump("four jobs", func() bool { return len(r.running) == 4 })
		r.loop.beQuiet()
		r.end(func(*Run) job.Outcome { return job.Requeued() })
		r.pump("all to be settled", r.loop.settled)
		back := r.list(r.keys.Queue("mail"))
		for i := range jobs {
			require.Equal(t, jobs[i], back[len(back)-1-i], "the queue is as it was, byte for byte and in order: "+fmt.Sprint(i))
		}
		require.Equal(t, "<nil>", r.count(r.keys.Processed()), "nothing counted")
	})
}

func TestTurns(t *testing.T) {
	t.Parallel()
	l := NewLoop(Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.True(t, l.Turns(ctx), "it does not run yet")
	l.started.Store(true)
	require.False(t, l.Turns(ctx), "the request is not taken")
	require.False(t, l.Turns(ctx))
	require.Len(t, l.requests, 1, "asking again fills nothing up")
	defer close(l.requests)
	go func() {
		for request := range l.requests {
			request()
		}
	}()
	patient, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.True(t, l.Turns(patient))
	l.over.Store(true)
	require.True(t, l.Turns(ctx), "it does not run any more")
}

// The settle of a large job can take seconds to reach Redis. Other jobs are settled and taken meanwhile, with a
// client that has several connections; nothing overtakes on one.
func TestALatePipelineDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 8, "mail")
	gate := faultproxy.NewGate()
	t.Cleanup(gate.Open)
	r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: r.shaOfSettle(), Nth: 1, Do: faultproxy.Hold(gate)})
	r.push("mail", 2)
	r.pump("the jobs", func() bool { return len(r.running) == 2 })
	large, small := r.running[0], r.running[1]
	r.running = nil
	r.finish(large, job.Done())
	r.pump("the settle of the large one", func() bool { return r.k.ledger.count(settling) == 1 })
	r.finish(small, job.Done())
	r.pump("the settle of the small one", func() bool { return r.count(r.keys.Processed()) == "1" })
	r.push("mail", 1)
	r.pump("the next job", func() bool { return len(r.running) == 1 })
	require.False(t, r.k.outage.away, "the settle of the large one is still on its way")
	gate.Open()
	r.end(done)
	require.Equal(t, "3", r.count(r.keys.Processed()))
}
