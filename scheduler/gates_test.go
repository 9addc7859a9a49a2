package scheduler_test

import (
	"crypto/sha1" //nolint:gosec // as the scripts name a job
	"encoding/hex"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// wait lets jobs of these queues wait at a gate, the first one first. It returns their bytes.
func (r *rig) wait(gate lua.Gate, queues ...string) (waiters []string) {
	r.t.Helper()
	name, _ := gate.Limit()
	r.do("HSET", r.keys.Limits(), name, gate.Size.String()+" code "+strconv.FormatInt(time.Now().Unix(), 10))
	for _, queue := range queues {
		bytes := job.Draft{Class: "A", Queue: queue}.Encode()
		waiters = append(waiters, bytes)
		r.do("LPUSH", r.keys.WaitingList(gate.Name), lua.Waiter{Queue: queue, Bytes: bytes}.String())
	}
	r.do("ZADD", r.keys.Waiting(), "0", gate.Name)
	return waiters
}

func (r *rig) admitted(gate lua.Gate) string {
	r.t.Helper()
	count, _ := r.do("HGET", r.keys.Gates(), gate.AdmittedField()).(string)
	return count
}

func (r *rig) waiters(gate lua.Gate) int64 {
	r.t.Helper()
	count, _ := r.do("LLEN", r.keys.WaitingList(gate.Name)).(int64)
	return count
}

var three = lua.Gate{Name: "three:", Size: lua.Size{Concurrency: 3}}

func TestThePollerAdmitsWaiters(t *testing.T) {
	t.Parallel()
	t.Run("to_the_back_of_their_queues_as_far_as_there_is_room", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			r.do("LPUSH", r.keys.Queue("a"), "before")
			jobs := r.wait(three, "a", "b", "a", "a")
			other := lua.Gate{Name: "three:other", Size: three.Size}
			theirs := r.wait(other, "c")
			r.pass()
			require.Equal(r.t, []string{"before", jobs[0], jobs[2]}, r.waiting("a"))
			require.Equal(r.t, jobs[1:2], r.waiting("b"))
			require.Equal(r.t, theirs, r.waiting("c"))
			require.Equal(r.t, "3", r.admitted(three))
			require.Equal(r.t, "1", r.admitted(other))
			require.Equal(r.t, int64(1), r.waiters(three))
			require.Equal(r.t, int64(1), r.do("ZCARD", r.keys.Waiting()), "the one that still has a waiter")
		})
	})
	t.Run("without_admitting_those_of_a_paused_queue", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			r.do("SADD", r.keys.Paused(), "a")
			jobs := r.wait(three, "a", "b")
			r.pass()
			require.Equal(r.t, jobs[:1], r.waiting("a"), "it waits anew when the queue is resumed")
			require.Equal(r.t, jobs[1:], r.waiting("b"))
			require.Equal(r.t, "1", r.admitted(three))
		})
	})
	t.Run("all_of_them_if_their_limit_is_gone", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			jobs := r.wait(three, "a", "a", "a", "a")
			r.do("DEL", r.keys.Limits())
			r.pass()
			require.Equal(r.t, jobs, r.waiting("a"))
			require.Empty(r.t, r.admitted(three))
			require.Equal(r.t, int64(0), r.do("EXISTS", r.keys.Waiting(), r.keys.Admitted()))
		})
	})
	t.Run("when_a_rate_makes_room", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			rated := lua.Gate{Name: "rate:", Size: lua.Size{Rate: lua.RateLeaky, N: 1, Per: 300 * time.Millisecond}}
			full := time.Now().Add(300 * time.Millisecond).UnixMilli()
			r.do("SET", r.keys.Rate(rated.Name), strconv.FormatInt(full, 10), "PX", "300")
			jobs := r.wait(rated, "a")
			next := r.pass()
			for deadline := time.Now().Add(patience); len(r.waiting("a")) == 0; next = r.pass() {
				require.True(r.t, time.Now().Before(deadline), "it is never admitted")
				time.Sleep(next)
			}
			require.GreaterOrEqual(r.t, time.Now().UnixMilli(), full-1)
			require.Equal(r.t, jobs, r.waiting("a"))
		})
	})
	t.Run("although_the_clock_was_set_back", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			jobs := r.wait(three, "a")
			r.do("ZADD", r.keys.Waiting(), strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10), three.Name)
			r.pass()
			require.Equal(r.t, jobs, r.waiting("a"))
		})
	})
	t.Run("although_the_clock_was_set_back_and_many_gates_wait", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			const gates = 130 // more than two pages
			later := strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)
			for n := range gates {
				gate := lua.Gate{Name: three.Name + strconv.Itoa(n), Size: three.Size}
				r.wait(gate, "a")
				r.do("ZADD", r.keys.Waiting(), later, gate.Name)
			}
			r.pass()
			require.Len(r.t, r.waiting("a"), gates)
		})
	})
	t.Run("although_others_cannot_be_admitted", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			r.do("SET", r.keys.Queue("broken"), "no list")
			jobs := r.wait(three, "a")
			r.do("ZADD", r.keys.Waiting(), "1", three.Name)
			const gates = 130 // more than two pages
			for n := range gates {
				r.wait(lua.Gate{Name: "broken:" + strconv.Itoa(n), Size: three.Size}, "broken")
			}
			_, err := r.poller.Pass(r.t.Context(), "me")
			require.ErrorContains(r.t, err, "admit waiters of the gate")
			require.Equal(r.t, jobs, r.waiting("a"))
			require.Equal(r.t, int64(gates), r.do("ZCARD", r.keys.Waiting()), "they are put off")
			require.Equal(r.t, int64(0), r.do("ZCOUNT", r.keys.Waiting(), "-inf", "1"))
		})
	})
	t.Run("in_place_of_a_job_that_did_not_start", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(r *rig) {
			one := lua.Gate{Name: "one:", Size: lua.Size{Concurrency: 1}}
			sum := sha1.Sum([]byte("gone")) //nolint:gosec // as the scripts name a job
			since := time.Now().Add(-lua.LapseUnqueued - time.Second).UnixMilli()
			r.do("HSET", r.keys.Admitted(), hex.EncodeToString(sum[:]), strconv.FormatInt(since, 10)+"\none:\na")
			r.do("HSET", r.keys.Gates(), one.AdmittedField(), "1")
			jobs := r.wait(one, "b")
			for deadline := time.Now().Add(patience); len(r.waiting("b")) == 0; time.Sleep(r.pass()) {
				require.True(r.t, time.Now().Before(deadline), "it is never admitted")
			}
			require.Equal(r.t, jobs, r.waiting("b"))
			require.Equal(r.t, "1", r.admitted(one))
		})
	})
}

// A program that ran code by Do has died.
func TestThePollerFreesSlotsWhoseLeaseIsOver(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		one := lua.Gate{Name: "one:", Size: lua.Size{Concurrency: 1}}
		r.do("ZADD", r.keys.Leases(), strconv.FormatInt(time.Now().Add(-time.Second).UnixMilli(), 10), one.Name+"\nholder")
		r.do("HSET", r.keys.Gates(), one.RunningField(), "1")
		jobs := r.wait(one, "a")
		for deadline := time.Now().Add(patience); len(r.waiting("a")) == 0; time.Sleep(r.pass()) {
			require.True(r.t, time.Now().Before(deadline), "it is never admitted")
		}
		require.Equal(r.t, jobs, r.waiting("a"))
		require.Equal(r.t, "1", r.admitted(one))
	})
}

// A program that held many slots has died. A page of leases follows the one before.
func TestThePollerFreesManySlotsOnePageAfterTheOther(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		const leases = 3*lua.MaxItems + 1
		for n := range leases {
			r.do("ZADD", r.keys.Leases(), "1", "one:\nholder"+strconv.Itoa(n))
		}
		r.do("HSET", r.keys.Gates(), lua.Gate{Name: "one:"}.RunningField(), strconv.Itoa(leases))
		for range 8 { // the first one may only take the lease of the poller
			r.pass()
		}
		require.Equal(r.t, int64(0), r.do("EXISTS", r.keys.Leases(), r.keys.Gates()))
	})
}

func TestThePollerRemovesLimitsThatNoProcessRegisters(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		now := time.Now()
		r.do("SET", r.keys.Up(), strconv.FormatInt(now.Add(-time.Hour).UnixMilli(), 10))
		seen := func(ago time.Duration) string { return strconv.FormatInt(now.Add(-ago).Unix(), 10) }
		r.do("HSET", r.keys.Limits(), "old", "5 none 0 0 code "+seen(lua.KeepLimit+time.Minute), "set", "5 none 0 0 operator "+seen(time.Hour),
			"used", "5 none 0 0 code "+seen(time.Minute), "reset", "5 none 0 0 reset "+seen(lua.KeepLimit+time.Minute),
			"just reset", "5 none 0 0 reset "+seen(time.Minute))
		r.pass()
		require.ElementsMatch(r.t, []any{"set", "used", "just reset"}, r.do("HKEYS", r.keys.Limits()))
		require.Contains(r.t, r.log.String(), "limit removed")
	})
}

// A key of a wrong type is reported, and due jobs do not wait for it.
func TestGatesThatCannotBeReadStopNoDueJob(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		r.do("SET", r.keys.Waiting(), "no set")
		r.due(r.keys.Schedule(), job.Draft{Class: "A", Queue: "q"}.Encode())
		_, err := r.poller.Pass(r.t.Context(), "me")
		require.ErrorContains(r.t, err, "which gates have waiters")
		require.Len(r.t, r.waiting("q"), 1)
	})
}
