package fetch

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// takesOf counts the takes of a rig from now on.
func takesOf(r *rig) *atomic.Int64 {
	var takes atomic.Int64
	r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: r.shaOfTake(), Do: faultproxy.Before(func() { takes.Add(1) })})
	return &takes
}

// trickling makes a rig that waits on its queues, and whose last jobs came one by one.
func trickling(t *testing.T, open opener) (*rig, *intake, *atomic.Int64) {
	t.Helper()
	r := newRig(t, open, 9, "high", "low")
	in := r.k.intakes[0]
	r.waitsOnBoth()
	takes := takesOf(r)
	r.push("low", 1)
	r.pump("the first job", func() bool { return len(r.running) == 1 })
	r.end(done)
	r.waitsOnBoth()
	require.EqualValues(t, 1, takes.Load(), "more jobs could have followed the first one")
	require.False(t, in.loneAt.IsZero())
	in.loneAt = in.loneAt.Add(-time.Minute)
	takes.Store(0)
	return r, in, takes
}

// waitsOnBoth waits until there is nothing to do but to wait on both queues.
func (r *rig) waitsOnBoth() {
	r.t.Helper()
	r.pump("waits", func() bool { return r.k.openWaits() == 2 && r.k.inFlight == 0 && r.k.intakes[0].empty })
}

func TestJobsThatComeOneByOne(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("need_no_take_whichever_queue_they_come_to", func(t *testing.T) {
			t.Parallel()
			r, in, takes := trickling(t, open)
			for _, queue := range []string{"low", "low", "high", "low"} {
				r.push(queue, 1)
				r.pump("the job", func() bool { return len(r.running) == 1 })
				require.True(t, in.empty)
				r.waitsOnBoth() // also while the job runs: the next one is in either queue
				r.end(done)
				in.loneAt = in.loneAt.Add(-time.Minute)
			}
			require.Zero(t, takes.Load())
		})

		t.Run("are_taken_when_the_second_follows_soon", func(t *testing.T) {
			t.Parallel()
			r, in, takes := trickling(t, open)
			in.loneAt = time.Now().Add(time.Minute) // however slow this machine is
			r.push("low", 1)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			r.waitsOnBoth()
			require.EqualValues(t, 1, takes.Load())
			r.end(done)
		})

		t.Run("are_taken_at_once_after_a_take_that_has_found_more", func(t *testing.T) {
			t.Parallel()
			r, in, takes := trickling(t, open)
			in.loneAt = time.Time{}
			for range 2 {
				r.do("LPUSH", r.keys.Queue("low"), payload("low"), payload("low"), payload("low"))
				r.pump("the jobs", func() bool { return len(r.running) == 3 })
				require.Zero(t, in.loneAt)
				r.end(done)
				r.waitsOnBoth()
				require.Positive(t, takes.Swap(0))
			}
		})

		t.Run("leave_the_last_processors_to_the_more_important_queue", func(t *testing.T) {
			t.Parallel()
			r, in, _ := trickling(t, open)
			r.push("low", 1)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			r.waitsOnBoth()
			in.loneAt = time.Now().Add(time.Minute)
			var words []string
			for range 20 {
				words = append(words, payload("low"))
			}
			r.do(append([]string{"LPUSH", r.keys.Queue("high")}, words...)...) // one by one both queues would be served alike
			r.do(append([]string{"LPUSH", r.keys.Queue("low")}, words...)...)
			r.pump("all processors", func() bool { return len(r.running) == 9 })
			low := 0
			for _, run := range r.running {
				if run.Queue == "low" {
					low++
				}
			}
			require.LessOrEqual(t, low, 2, "the first one, and that of the wait")
			for len(r.list(r.keys.Queue("low"))) > 0 || len(r.running) > 0 {
				r.stay()
				r.end(done)
				r.pump("the rest", func() bool { return len(r.running) > 0 || len(r.list(r.keys.Queue("low"))) == 0 && r.k.inFlight == 0 })
			}
		})

		t.Run("stay_in_a_queue_that_is_paused_after_the_next_heartbeat", func(t *testing.T) {
			t.Parallel()
			r, _, takes := trickling(t, open)
			r.do("SADD", r.keys.Paused(), "low")
			r.beat()
			r.pump("the wait to end", func() bool { return r.k.openWaits() == 1 && r.k.queues["low"].wait == nil && r.k.inFlight == 0 })
			paused := r.push("low", 1)
			r.push("high", 1)
			r.pump("the other job", func() bool { return len(r.running) == 1 })
			require.Equal(t, "high", r.running[0].Queue)
			require.Equal(t, paused, r.list(r.keys.Queue("low")))
			require.Zero(t, takes.Load())
			r.end(done)
			r.do("SREM", r.keys.Paused(), "low")
			r.beat()
			r.pump("the resumed job", func() bool { return len(r.running) == 1 })
			r.end(done)
		})
	})

	t.Run("are_further_apart_than_round_trips_and_have_a_wait_for_each_queue", func(t *testing.T) {
		t.Parallel()
		const delay = 50 * time.Millisecond
		r := newRig(t, clients["go-redis"], 9, "high", "low")
		r.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Do: faultproxy.Delay(delay)})
		r.waitsOnBoth()
		in, at := r.k.intakes[0], time.Now()
		lone := func(apart time.Duration) bool {
			in.loneAt = at
			return in.trickles(at.Add(apart))
		}
		require.True(t, lone(time.Minute))
		require.False(t, lone(trickleTrips*delay), "a slow link would bring all jobs one by one")
		in.quota = 1
		require.False(t, lone(time.Minute), "the other queue has no wait")
		in.quota = 2
		in.empty = false
		require.False(t, lone(time.Minute), "no take has found the queues empty")
		in.empty, in.loneAt = true, time.Time{}
		require.False(t, in.trickles(at.Add(time.Minute)))
	})
}
