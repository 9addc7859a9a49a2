package fetch

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

func TestBrokenWait(t *testing.T) {
	t.Parallel()

	t.Run("an_idle_worker_whose_one_wait_breaks_waits_again", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 1, "mail")
			r.pump("the wait", func() bool { return r.proxy.Count("BLMOVE") == 1 })
			r.proxy.CloseConns()
			r.pump("another wait", func() bool { return r.proxy.Count("BLMOVE") == 2 })
			jobs := r.push("mail", 1)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			require.Equal(t, jobs, bytesOf(r.running))
			r.end(done)
		})
	})

	t.Run("a_refused_connection_closes_all_waits_until_a_heartbeat_is_confirmed", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "mail", "other")
			parked := func() bool { return r.k.openWaits() == 2 && r.proxy.Count("BLMOVE") >= 2 }
			r.pump("the waits", parked)
			var waiters []driver.Waiter
			for _, q := range r.k.queues {
				waiters = append(waiters, q.wait.waiter)
			}
			r.k.tooManyClients = true
			r.pump("their connections to be closed", func() bool { return r.k.openWaits() == 0 })
			for _, waiter := range waiters {
				_, _, err := waiter.Wait(r.ctx, "a", "b", time.Second)
				require.Error(t, err, "it is closed")
			}
			require.Zero(t, r.k.waitConnections())
			moves := r.proxy.Count("BLMOVE")
			r.k.yieldEnds = time.Now() // the time is over, and no heartbeat was confirmed
			r.k.noWaitsUntil = time.Now()
			r.push("mail", 1)
			r.pump("the job, by a paced take", func() bool { return len(r.running) == 1 })
			require.Equal(t, moves, r.proxy.Count("BLMOVE"))
			r.end(done)
			r.k.noWaitsUntil = time.Now()
			r.beat()
			r.k.noWaitsUntil = time.Now()
			r.pump("waits again", func() bool { return r.k.openWaits() == 2 })
			require.Equal(t, 1, strings.Count(r.log.String(), "new connections are refused"), r.log.String())
		})
	})

	t.Run("a_wait_that_is_refused_a_connection_closes_all_waits", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "mail", "other")
			r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "BLMOVE", Do: faultproxy.Fail("ERR max number of clients reached")})
			before := time.Now()
			r.pump("the waits to end", func() bool { return r.k.yielded && r.k.openWaits() == 0 })
			require.Zero(t, r.k.waitConnections())
			require.GreaterOrEqual(t, r.k.noWaitsUntil.Sub(before), firstYield/4, "they are not opened again at once")
			r.k.noWaitsUntil = time.Now().Add(time.Hour) // however slowly the test goes on
			moves := r.proxy.Count("BLMOVE")
			r.push("other", 1)
			r.pump("the job, by a paced take", func() bool { return len(r.running) == 1 })
			require.Equal(t, moves, r.proxy.Count("BLMOVE"))
			r.end(done)
			require.NotContains(t, r.log.String(), "redis is away", "it is not")
		})
	})

	for refusal, reports := range map[string]int{"OOM command not allowed when used memory > 'maxmemory'.": 1, "NOPERM this user has no permissions": 0} {
		t.Run("a_wait_that_Redis_refuses_is_tried_again_after_the_longest_rest/"+refusal[:3], func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, open opener) {
				r := newRig(t, open, 2, "mail")
				r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "BLMOVE", Do: faultproxy.Fail(refusal)})
				before := time.Now()
				r.pump("the refusal", func() bool { return !r.k.noWaitsUntil.IsZero() })
				require.Greater(t, r.k.noWaitsUntil.Sub(before), maxWait/4, "the rest is at least half of maxWait")
				r.k.noWaitsUntil = time.Now().Add(time.Hour) // however slowly the test goes on
				r.push("mail", 1)
				r.pump("the job, by a paced take", func() bool { return len(r.running) == 1 })
				require.Equal(t, 1, r.proxy.Count("BLMOVE"))
				r.end(done)
				require.Equal(t, reports, strings.Count(r.log.String(), "redis refuses"), r.log.String())
				require.NotContains(t, r.log.String(), "idle waits keep failing")
			})
		})
	}

	t.Run("waits_that_can_never_be_opened_are_replaced_by_paced_takes_and_said_once", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "mail")
			r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "BLMOVE", Do: faultproxy.Fail("ERR this proxy passes no blocking moves")})
			for r.k.failures < manyFailures {
				r.beat()
				until := time.Now().Add(500 * time.Millisecond)
				r.pump("a while", func() bool { return time.Now().After(until) })
			}
			require.LessOrEqual(t, r.proxy.Count("BLMOVE"), 10)
			r.push("mail", 1)
			pushed := time.Now()
			r.pump("the job", func() bool { return len(r.running) == 1 })
			require.Less(t, time.Since(pushed), 10*time.Second)
			r.end(done)
			require.Equal(t, 1, strings.Count(r.log.String(), "idle waits keep failing"), r.log.String())
			require.NotContains(t, r.log.String(), "redis is away", "it is not")
		})
	})
}
