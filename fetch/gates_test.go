package fetch

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// gated makes the rig's jobs pass one gate.
func (r *rig) gated(size lua.Size) lua.Gate {
	gate := lua.Gate{Name: "five:", Size: size}
	r.k.SetGate(func(*job.Job) *lua.Gate { return &gate })
	return gate
}

// countStarts counts the calls for starts from now on.
func (r *rig) countStarts() *atomic.Int64 {
	var calls atomic.Int64
	r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: r.shaOfStart(), Do: faultproxy.Before(func() { calls.Add(1) })})
	return &calls
}

// slots returns how many runs of a gate have a slot, and how many jobs are admitted.
func (r *rig) slots(gate lua.Gate) (running, admitted string) {
	r.t.Helper()
	counts := r.do("HMGET", r.keys.Gates(), gate.RunningField(), gate.AdmittedField()).([]any)
	text := func(count any) string {
		if count == nil {
			return "0"
		}
		return count.(string)
	}
	return text(counts[0]), text(counts[1])
}

func (r *rig) requireSlots(gate lua.Gate, running, admitted string) {
	r.t.Helper()
	nowRunning, nowAdmitted := r.slots(gate)
	require.Equal(r.t, []string{running, admitted}, []string{nowRunning, nowAdmitted}, "slots, admissions")
}

// waiters returns the bytes of the jobs that wait at a gate, the next one first.
func (r *rig) waiters(gate lua.Gate) (waiters []string) {
	r.t.Helper()
	for _, entry := range slices.Backward(r.list(r.keys.WaitingList(gate.Name))) {
		waiters = append(waiters, lua.ParseWaiter(entry).Bytes)
	}
	return waiters
}

func TestGates(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("let_no_more_runs_begin_than_they_have_slots", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 6, "mail")
			gate := r.gated(lua.Size{Concurrency: 2})
			jobs := r.push("mail", 6)
			r.pump("two jobs to run and four to wait", func() bool { return len(r.running) == 2 && len(r.waiters(gate)) == 4 })
			require.Equal(t, jobs[:2], bytesOf(r.running))
			require.Equal(t, jobs[2:], r.waiters(gate), "in the order in which they came")
			require.Equal(t, 2, r.session.held, "a waiter occupies no processor")
			require.ElementsMatch(t, jobs[:2], r.working("mail"), "and is in no list of the process")
			r.requireSlots(gate, "2", "0")
			for _, next := range [][]string{jobs[2:4], jobs[4:]} {
				r.end(done)
				r.pump("the next two", func() bool { return len(r.running) == 2 })
				require.ElementsMatch(t, next, bytesOf(r.running))
				r.requireSlots(gate, "2", "0")
			}
			r.end(done)
			require.Empty(t, r.do("HGETALL", r.keys.Gates()))
			require.Empty(t, r.do("KEYS", r.keys.WaitingList("*")))
			require.Zero(t, r.do("EXISTS", r.keys.Slots(r.session.Identity), r.keys.Admitted(), r.keys.Waiting()))
		})

		t.Run("cost_jobs_without_one_no_call_and_no_parse", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 4, "mail")
			calls := r.countStarts()
			r.k.SetGate(func(*job.Job) *lua.Gate { return nil })
			r.push("mail", 4)
			r.pump("all jobs", func() bool { return len(r.running) == 4 })
			r.end(done)
			require.Zero(t, calls.Load())
			require.Zero(t, r.do("EXISTS", r.keys.Limits(), r.keys.Gates(), r.keys.Slots(r.session.Identity)))
		})

		t.Run("read_a_job_once_which_its_processor_gets", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			asked := make(chan *job.Job, 1)
			gate := lua.Gate{Name: "five:", Size: lua.Size{Concurrency: 1}}
			r.k.SetGate(func(j *job.Job) *lua.Gate {
				asked <- j
				return &gate
			})
			r.push("mail", 1)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			got, err := r.running[0].Job()
			require.NoError(t, err)
			require.Same(t, <-asked, got)
			r.end(done)
		})

		t.Run("cost_a_waiting_job_no_call", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 4, "mail")
			var calls atomic.Int64
			for _, sha := range []string{r.shaOfStart(), r.shaOfSettle()} {
				r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: sha, Do: faultproxy.Before(func() { calls.Add(1) })})
			}
			gate := r.gated(lua.Size{Concurrency: 1})
			jobs := r.push("mail", 40)
			r.pump("all but one to wait", func() bool { return len(r.running) == 1 && len(r.waiters(gate)) == 39 && r.k.inFlight == 0 })
			begun := calls.Load()
			for range 3 {
				r.beat()
				read := r.k.reconcile.due
				r.pump("what a heartbeat makes the loop read", func() bool { return (!read || !r.k.reconcile.due) && r.k.inFlight == 0 })
			}
			require.Equal(t, begun, calls.Load(), "no start and no settle while they wait")
			require.Equal(t, jobs[1:], r.waiters(gate))
			require.Empty(t, r.list(r.keys.Queue("mail")))
			r.end(done)
		})

		t.Run("keep_the_lock_of_a_unique_job_until_it_begins", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			gate := r.gated(lua.Size{Concurrency: 1})
			first := r.pushUnique(untilExecuting, 1)
			r.pump("the first", func() bool { return len(r.running) == 1 })
			require.Empty(t, r.lockOf(first))
			second := r.pushUnique(untilExecuting, 2)
			r.pump("the second to wait", func() bool { return len(r.waiters(gate)) == 1 })
			require.NotEmpty(t, r.lockOf(second))
			require.NotEmpty(t, r.pushUnique(untilExecuting, 2).holder, "its duplicate is refused")
			r.end(done)
			r.pump("the second", func() bool { return len(r.running) == 1 })
			require.Empty(t, r.lockOf(second))
		})

		t.Run("whose_reply_is_lost_count_a_run_once", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 3, "mail")
			gate := r.gated(lua.Size{Concurrency: 1})
			r.proxy.Add(faultproxy.DropReply(r.shaOfStart()))
			r.push("mail", 3)
			r.pump("one job to run and two to wait", func() bool { return len(r.running) == 1 && len(r.waiters(gate)) == 2 && r.k.inFlight == 0 })
			r.requireSlots(gate, "1", "0")
			require.Zero(t, r.loop.Lost())
			require.NotContains(t, r.log.String(), "ownership lost", "the others wait")
			for range 3 {
				r.pump("a job", func() bool { return len(r.running) == 1 })
				r.end(done)
			}
			require.Empty(t, r.do("HGETALL", r.keys.Gates()))
		})

		t.Run("stay_with_a_job_that_goes_back", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			gate := r.gated(lua.Size{Concurrency: 1})
			jobs := r.push("mail", 2)
			r.pump("one to run and one to wait", func() bool { return len(r.running) == 1 && len(r.waiters(gate)) == 1 })
			r.loop.beQuiet()
			r.finish(r.running[0], job.Requeued())
			r.settled()
			r.requireSlots(gate, "0", "1")
			require.Equal(t, jobs[:1], r.list(r.keys.Queue("mail")))
			require.Equal(t, jobs[1:], r.waiters(gate), "the requeued job starts before it")
		})

		for _, quarantined := range []bool{false, true} {
			name, waits := "free_the_slot_of_a_job_whose_end_a_failover_has_lost", lua.Keys.Queue
			if quarantined {
				name, waits = "free_the_slot_of_a_quarantined_job_whose_end_a_failover_has_lost", lua.Keys.Quarantine
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, open, 1, "mail")
				gate := lua.Gate{Name: "five:", Size: lua.Size{Concurrency: 1}}
				limited, other := payload("mail"), payload("mail")
				r.k.SetGate(func(j *job.Job) *lua.Gate {
					if strings.Contains(limited, j.JID()) {
						return &gate
					}
					return nil
				})
				r.do("LPUSH", waits(r.keys, "mail"), limited)
				r.beat()
				r.pump("the limited job", func() bool { return len(r.running) == 1 })
				r.requireSlots(gate, "1", "0")
				list := r.keys.Working("mail", r.session.Identity)
				if quarantined {
					list = r.keys.QuarantineRun(r.session.Identity)
				}
				lost := []string{list, r.keys.Gates(), r.keys.Slots(r.session.Identity)}
				var snapshot []string
				for _, key := range lost {
					snapshot = append(snapshot, r.do("DUMP", key).(string))
				}
				r.end(done)
				r.do("LPUSH", r.keys.Queue("mail"), other)
				r.pump("the other job to occupy the processor", func() bool { return len(r.running) == 1 })
				if !quarantined {
					r.do("DEL", list)
				}
				for at, key := range lost {
					r.do("RESTORE", key, "0", snapshot[at])
				}
				if !quarantined {
					r.do("LPUSH", list, other)
				}
				r.k.doubt(r.session, nil)
				r.pump("the limited job to wait again", func() bool {
					r.beat()
					return len(r.list(waits(r.keys, "mail"))) == 1 && r.k.ledger.count(finished, settling, unacked) == 0
				})
				running, _ := r.slots(gate)
				require.Equal(t, "0", running)
				r.end(done)
				r.pump("the limited job to run again", func() bool {
					r.beat()
					return len(r.running) == 1
				})
				r.requireSlots(gate, "1", "0")
				r.end(done)
				require.Empty(t, r.do("HGETALL", r.keys.Gates()))
				require.Zero(t, r.do("EXISTS", r.keys.Slots(r.session.Identity), r.keys.Admitted()))
			})
		}

		t.Run("that_cannot_be_asked_let_no_job_run", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			r.gated(lua.Size{Concurrency: 1})
			r.do("SET", r.keys.Gates(), "no hash")
			jobs := r.push("mail", 1)
			r.pump("the refusal", func() bool { return strings.Contains(r.log.String(), `"start`) })
			r.pump("the job to be back in its queue", func() bool { return len(r.list(r.keys.Queue("mail"))) == 1 })
			require.Empty(t, r.running)
			r.do("DEL", r.keys.Gates())
			r.pump("the job", func() bool { return len(r.running) == 1 })
			require.Equal(t, jobs, bytesOf(r.running))
			r.end(done)
		})

		t.Run("start_nothing_after_too_many_requests", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			gate := r.gated(lua.Size{Concurrency: 5})
			jobs := r.push("mail", 1)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			r.end(func(*Run) job.Outcome { return job.Waits(time.Hour) })
			later := r.push("mail", 1)
			r.pump("both to wait", func() bool { return len(r.waiters(gate)) == 2 })
			require.Equal(t, append(jobs, later...), r.waiters(gate), "the refused one first")
			require.Empty(t, r.running)
			require.Positive(t, r.do("PTTL", r.keys.Stop(gate.Name)))
		})

		t.Run("let_a_quarantined_job_wait_in_the_quarantine", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			gate := r.gated(lua.Size{Concurrency: 1})
			r.do("HSET", r.keys.Gates(), gate.RunningField(), "1") // another process has the slot
			held := payload("mail")
			r.do("LPUSH", r.keys.Quarantine("mail"), held)
			starts := r.countStarts()
			r.beat()
			r.pump("the job to be taken and handed back", func() bool {
				return starts.Load() > 0 && len(r.list(r.keys.Quarantine("mail"))) == 1
			})
			require.NotContains(t, r.log.String(), "quarantined job started")
			require.Empty(t, r.running)
			require.Empty(t, r.waiters(gate))
			r.settled()
			r.do("HDEL", r.keys.Gates(), gate.RunningField())
			r.beat()
			r.pump("the job", func() bool { return len(r.running) == 1 })
			require.Contains(t, r.log.String(), "quarantined job started")
			r.requireSlots(gate, "1", "0")
			r.end(done)
			r.requireSlots(gate, "0", "0")
		})

		t.Run("hold_up_no_other_quarantined_job", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail", "other")
			held, behind, elsewhere := payload("mail"), payload("mail"), payload("other")
			gate := lua.Gate{Name: "five:", Size: lua.Size{Concurrency: 1}}
			r.k.SetGate(func(j *job.Job) *lua.Gate {
				if strings.Contains(held, j.JID()) {
					return &gate
				}
				return nil
			})
			r.do("HSET", r.keys.Gates(), gate.RunningField(), "1") // another process has the slot
			r.do("RPUSH", r.keys.Quarantine("mail"), behind, held)
			r.do("RPUSH", r.keys.Quarantine("other"), elsewhere)
			starts := r.countStarts()
			r.beat()
			r.pump("the job of the other queue", func() bool { return len(r.running) == 1 })
			require.Equal(t, []string{elsewhere}, bytesOf(r.running))
			require.Equal(t, int64(1), starts.Load(), "the held one was tried once")
			require.Equal(t, []string{held, behind}, r.list(r.keys.Quarantine("mail")), "it is the last one now")
			r.end(done)
			r.beat()
			r.pump("the job behind it", func() bool { return len(r.running) == 1 })
			require.Equal(t, []string{behind}, bytesOf(r.running))
			r.end(done)
			until := time.Now().Add(200 * time.Millisecond)
			r.pump("a while without a reading", func() bool { return time.Now().After(until) })
			tried := starts.Load()
			require.LessOrEqual(t, tried, int64(3), "once for each reading")
			require.Equal(t, []string{held}, r.list(r.keys.Quarantine("mail")))
			r.do("HDEL", r.keys.Gates(), gate.RunningField())
			r.beat()
			r.pump("the held job", func() bool { return len(r.running) == 1 })
			r.end(done)
		})
	})
}
