package fetch

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A uniqueJob is one that was pushed as a client would push it, or refused.
type uniqueJob struct {
	dedup.Lock
	bytes, holder string
}

var (
	untilExecuting = dedup.Rule{Until: dedup.UntilExecuting, TTL: time.Minute}
	untilExecuted  = dedup.Rule{Until: dedup.UntilExecuted, TTL: time.Minute, RescheduleOnce: true}
)

// pushUnique pushes a job of class Test to queue mail with one argument. extra are further fields.
func (r *rig) pushUnique(rule dedup.Rule, arg int, extra ...job.Edit) uniqueJob {
	r.t.Helper()
	draft := job.Draft{
		Class: "Test", Queue: "mail", JID: job.NewJID(), ArgsJSON: fmt.Sprintf("[%d]", arg), Extra: extra,
		CreatedAt: time.Now(), EnqueuedAt: time.Now(),
	}
	lock, err := rule.Lock(draft)
	require.NoError(r.t, err)
	draft.Extra = append(draft.Extra, lock.Edit())
	j := uniqueJob{Lock: lock, bytes: draft.Encode()}
	answer, err := r.keys.PushUnique(nil, []lua.NewJob{{
		Queue: "mail", Job: j.bytes,
		Lock: &lua.Lock{Digest: lock.Digest, Owner: lua.OwnerOf(lock.JID, "Test"), Hold: lock.Lifetime(0)},
	}}).Do(context.Background(), r.direct)
	require.NoError(r.t, err)
	j.holder = answer.Holders[0]
	return j
}

// lockOf is what a job's lock says: its state and its owner's jid; "" for one that is free.
func (r *rig) lockOf(j uniqueJob) string {
	r.t.Helper()
	value, _ := r.do("GET", r.keys.Lock(j.Digest)).(string)
	if value == "" {
		return ""
	}
	owner, _, _ := strings.Cut(value, "\n")
	return owner
}

// sha is what a script is called by; after it the server knows the script, so that the first request for it
// is the only one.
func (r *rig) sha(call driver.Call) string {
	r.t.Helper()
	r.direct.Do(context.Background(), call)
	_, sha := call.Script.Text(true)
	return sha
}

func (r *rig) shaOfTake() string  { return r.sha(r.keys.Take("unknown", r.queues, 1, 1, 1).Call) }
func (r *rig) shaOfStart() string { return r.sha(r.keys.Start(r.session.Identity, nil).Call) }
func (r *rig) shaOfRenew() string { return r.sha(r.keys.Renew(nil).Call) }
func (r *rig) shaOfSettle() string {
	return r.sha(r.keys.Settle(lua.Settlement{Identity: "unknown"}).Call)
}

// runs waits until one job runs.
func (r *rig) runs() *Run {
	r.t.Helper()
	r.pump("a job to run", func() bool { return len(r.running) == 1 })
	return r.running[0]
}

func TestStartsOfUniqueJobs(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("free_the_lock_or_mark_it_before_the_run", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			executing, executed := r.pushUnique(untilExecuting, 1), r.pushUnique(untilExecuted, 2)
			r.pump("both jobs", func() bool { return len(r.running) == 2 })
			require.Empty(t, r.lockOf(executing))
			require.Equal(t, "s"+executed.JID, r.lockOf(executed))
			r.end(done)
			require.Empty(t, r.lockOf(executed))
			require.Empty(t, r.do("ZRANGE", r.keys.Unique(), "0", "-1"))
		})

		t.Run("cost_other_jobs_no_call", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 4, "mail")
			var calls atomic.Int64
			for _, sha := range []string{r.shaOfStart(), r.shaOfRenew()} {
				r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: sha, Do: faultproxy.Before(func() { calls.Add(1) })})
			}
			r.push("mail", 3)
			plain := dedup.Rule{Until: dedup.UntilExecuted} // with no rerun to come, its start means nothing
			r.pushUnique(plain, 1)
			r.pump("all jobs", func() bool { return len(r.running) == 4 })
			require.Zero(t, calls.Load())
			r.beat()
			r.pump("the renewal of one lock", func() bool { return calls.Load() == 1 && r.k.inFlight == 0 })
			r.end(done)
			r.push("mail", 2)
			r.pump("the next", func() bool { return len(r.running) == 2 })
			r.beat()
			r.settled()
			r.end(done)
			require.EqualValues(t, 1, calls.Load())
		})

		t.Run("whose_answer_is_lost_are_said_again_and_free_no_other_lock", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			r.proxy.Add(faultproxy.DropReply(r.shaOfStart()))
			first := r.pushUnique(untilExecuting, 1)
			r.pump("the lock to be free", func() bool { return r.lockOf(first) == "" })
			second := r.pushUnique(untilExecuting, 1)
			require.Empty(t, second.holder)
			require.Equal(t, first.bytes, r.runs().Bytes)
			require.Equal(t, "-"+second.JID, r.lockOf(second))
			require.Equal(t, []string{first.bytes}, r.working("mail"))
			r.do("SADD", r.keys.Paused(), "mail")
			r.end(done)
			require.Equal(t, "-"+second.JID, r.lockOf(second), "its end frees no other lock either")
			r.do("SREM", r.keys.Paused(), "mail")
			r.beat()
			require.Equal(t, second.bytes, r.runs().Bytes)
			r.end(done)
			require.Equal(t, "2", r.count(r.keys.Processed()))
		})

		t.Run("that_are_refused_for_good_hold_up_no_run", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: r.shaOfStart(), Do: faultproxy.Fail("NOPERM this user may not")})
			j := r.pushUnique(untilExecuting, 1)
			r.runs()
			require.Contains(t, r.log.String(), "NOPERM")
			require.Equal(t, "-"+j.JID, r.lockOf(j), "it lapses, or ends with the job")
			r.end(done)
			require.Empty(t, r.lockOf(j))
		})

		t.Run("of_jobs_that_were_lost_are_not_followed_by_a_run", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			working, lost := r.keys.Working("mail", r.session.Identity), &atomic.Bool{}
			r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: r.shaOfStart(), Nth: 1, Do: faultproxy.Before(func() {
				lost.Store(r.direct.Do(context.Background(), driver.Command("DEL", working))[0].Value == int64(1))
			})})
			j := r.pushUnique(untilExecuting, 1)
			r.pump("the answer", func() bool { return lost.Load() && r.k.ledger.count(starting) == 0 && r.session.held == 0 })
			require.Empty(t, r.running)
			require.Contains(t, r.log.String(), "ownership lost: job not started")
			require.Equal(t, "-"+j.JID, r.lockOf(j), "it belongs to the process that has the job")
			r.push("mail", 1)
			r.runs() // its processor is free
			r.end(done)
		})

		t.Run("on_their_way_when_all_is_quiet_hand_their_jobs_back", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			gate := faultproxy.NewGate()
			r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: r.shaOfStart(), Nth: 1, Do: faultproxy.Hold(gate)})
			j := r.pushUnique(untilExecuted, 1)
			r.pump("the start", func() bool { return r.k.ledger.count(starting) == 1 })
			r.loop.beQuiet()
			gate.Open()
			r.pump("the requeue", func() bool { return r.loop.settled() })
			require.Empty(t, r.running)
			require.Equal(t, []string{j.bytes}, r.list(r.keys.Queue("mail")))
			require.Equal(t, "s"+j.JID, r.lockOf(j))
		})

		for name, rule := range map[string]faultproxy.Rule{
			"held_up": {On: faultproxy.Requests}, "whose_answer_is_held_up": {On: faultproxy.Replies},
		} {
			t.Run(name+"_when_all_is_quiet_have_their_lock_again", func(t *testing.T) {
				t.Parallel()
				r := newRig(t, open, 1, "mail")
				gate := faultproxy.NewGate()
				rule.Token, rule.Nth, rule.Do = r.shaOfStart(), 1, faultproxy.Hold(gate)
				r.proxy.Add(rule)
				j := r.pushUnique(untilExecuting, 1)
				r.pump("the start", func() bool { return r.k.ledger.count(starting) == 1 })
				<-gate.Arrived()
				r.loop.beQuiet()
				gate.Open()
				r.pump("the requeue", func() bool { return r.loop.settled() })
				require.Empty(t, r.running)
				require.Equal(t, []string{j.bytes}, r.list(r.keys.Queue("mail")))
				require.Equal(t, "-"+j.JID, r.lockOf(j))
				require.Equal(t, j.JID, r.pushUnique(untilExecuting, 1).holder, "it waits as it did")
			})
		}

		t.Run("whose_answer_is_lost_when_all_is_quiet_have_their_lock_again", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			r.proxy.Add(faultproxy.DropReply(r.shaOfStart()))
			j := r.pushUnique(untilExecuting, 1)
			r.pump("the lock to be free", func() bool { return r.lockOf(j) == "" })
			r.loop.beQuiet()
			r.pump("the requeue", func() bool { return r.loop.settled() })
			require.Equal(t, []string{j.bytes}, r.list(r.keys.Queue("mail")))
			require.Equal(t, "-"+j.JID, r.lockOf(j))
		})

		t.Run("of_jobs_that_are_refused_here_have_their_lock_again_unless_it_is_anothers", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			j, other := r.pushUnique(untilExecuting, 1), r.pushUnique(untilExecuting, 2)
			r.pump("both jobs", func() bool { return len(r.running) == 2 })
			r.do("SADD", r.keys.Paused(), "mail")
			second := r.pushUnique(untilExecuting, 2)
			require.Empty(t, second.holder)
			for _, held := range r.running {
				r.k.refuse(held)
			}
			r.running = nil
			r.pump("the requeue", func() bool { return r.loop.settled() && len(r.list(r.keys.Queue("mail"))) == 3 })
			require.Equal(t, "-"+j.JID, r.lockOf(j))
			require.Equal(t, "-"+second.JID, r.lockOf(other))
		})

		t.Run("not_said_yet_when_all_is_quiet_are_never_said", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			j := r.pushUnique(untilExecuting, 1)
			r.loop.turn(time.Now())
			r.loop.handle(<-r.loop.events)
			require.Equal(t, 1, r.k.ledger.count(awaitingStart))
			r.loop.beQuiet()
			r.pump("the requeue", func() bool { return r.loop.settled() })
			require.Empty(t, r.running)
			require.Equal(t, []string{j.bytes}, r.list(r.keys.Queue("mail")))
			require.Equal(t, "-"+j.JID, r.lockOf(j))
		})
	})
}

func TestLocksInHand(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("are_renewed_at_each_beat_all_of_them", func(t *testing.T) {
			t.Parallel()
			const jobs = lua.MaxItems + 10
			r := newRig(t, open, jobs, "mail")
			var pushed []uniqueJob
			for n := range jobs {
				pushed = append(pushed, r.pushUnique(untilExecuted, n))
			}
			r.pump("all jobs", func() bool {
				r.stay() // on a busy machine a start may time out, and its jobs come again later
				return len(r.running) == jobs
			})
			for _, j := range pushed {
				r.do("PEXPIRE", r.keys.Lock(j.Digest), "30000")
			}
			short := func() (n int) {
				for _, j := range pushed {
					if left, _ := r.do("PTTL", r.keys.Lock(j.Digest)).(int64); left <= 30000 {
						n++
					}
				}
				return n
			}
			require.Equal(t, jobs, short())
			r.beat()
			r.pump("the renewals", func() bool { return short() == 0 })
			r.end(done)
			require.Empty(t, r.do("ZRANGE", r.keys.Unique(), "0", "-1"))
		})

		t.Run("live_as_long_as_their_process_would_however_short_they_are", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			short := dedup.Rule{Until: dedup.UntilExecuted, TTL: 20 * time.Second, RescheduleOnce: true}
			require.Less(t, short.TTL, r.session.record.TTL)
			j := r.pushUnique(short, 1)
			left := func() time.Duration {
				ms, _ := r.do("PTTL", r.keys.Lock(j.Digest)).(int64)
				return time.Duration(ms) * time.Millisecond
			}
			require.LessOrEqual(t, left(), short.TTL)
			r.runs()
			require.Greater(t, left(), short.TTL, "from the start on")
			r.do("PEXPIRE", r.keys.Lock(j.Digest), "20000")
			r.stay()
			r.beat()
			r.pump("the renewal", func() bool { return left() > short.TTL })
			require.Equal(t, j.JID, r.pushUnique(short, 1).holder)
			r.end(done)
			require.NotEmpty(t, r.lockOf(j), "that of the run for the one that was refused")
		})

		t.Run("that_are_anothers_by_now_are_not", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			j := r.pushUnique(untilExecuted, 1)
			r.runs()
			r.do("DEL", r.keys.Lock(j.Digest))
			other := r.pushUnique(untilExecuted, 1)
			r.do("PEXPIRE", r.keys.Lock(j.Digest), "30000")
			r.beat()
			r.pump("a renewal", func() bool { return !r.k.renew && r.k.inFlight == 0 })
			left, _ := r.do("PTTL", r.keys.Lock(j.Digest)).(int64)
			require.LessOrEqual(t, left, int64(30000))
			r.do("SADD", r.keys.Paused(), "mail")
			r.end(done)
			require.Equal(t, "-"+other.JID, r.lockOf(other))
		})

		t.Run("stand_through_a_retry_for_its_delay_too", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			j := r.pushUnique(untilExecuted, 1)
			r.runs()
			r.end(func(held *Run) job.Outcome { return job.Retried(held.Bytes, time.Hour) })
			require.Equal(t, "s"+j.JID, r.lockOf(j))
			left, _ := r.do("PTTL", r.keys.Lock(j.Digest)).(int64)
			require.Greater(t, left, time.Hour.Milliseconds())
		})
	})
}

func TestOneMoreRun(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("is_one_though_the_answer_to_the_settle_is_lost", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			first := r.pushUnique(untilExecuted, 1)
			r.runs()
			for range 3 {
				require.Equal(t, first.JID, r.pushUnique(untilExecuted, 1).holder)
			}
			require.Equal(t, "d"+first.JID, r.lockOf(first))
			r.proxy.Add(faultproxy.DropReply(r.shaOfSettle()))
			r.end(done)
			again := r.runs()
			require.NotEqual(t, first.JID, again.JID())
			require.Equal(t, []string{again.Bytes}, r.working("mail"))
			require.Empty(t, r.list(r.keys.Queue("mail")))
			require.Equal(t, "s"+again.JID(), r.lockOf(first))
			r.end(done)
			require.Empty(t, r.lockOf(first))
			require.Equal(t, "2", r.count(r.keys.Processed()))
		})

		t.Run("waits_until_the_last_retry_has_failed", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			first := r.pushUnique(untilExecuted, 1)
			r.runs()
			r.pushUnique(untilExecuted, 1)
			r.end(func(held *Run) job.Outcome { return job.Retried(held.Bytes, time.Hour) })
			require.Equal(t, "d"+first.JID, r.lockOf(first))
			require.Empty(t, r.list(r.keys.Queue("mail")))
			r.do("ZREM", r.keys.Retry(), first.bytes)
			r.do("LPUSH", r.keys.Queue("mail"), first.bytes)
			r.runs()
			require.Equal(t, "d"+first.JID, r.lockOf(first), "the duplicate came after the first start")
			r.end(func(held *Run) job.Outcome { return job.Died(held.Bytes) })
			again := r.runs()
			require.Equal(t, "s"+again.JID(), r.lockOf(first))
			r.end(done)
		})
	})
}

func TestLocksOfTheDead(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("are_held_on_to_with_their_jobs", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 2, "mail")
			r.record.Beat = 20 * time.Millisecond
			r.enter()
			executed, executing := r.pushUnique(untilExecuted, 1), r.pushUnique(untilExecuting, 2)
			r.pump("both jobs", func() bool { return len(r.running) == 2 })
			second := r.pushUnique(untilExecuting, 2)
			require.Empty(t, second.holder, "the first one runs")
			require.Equal(t, executed.JID, r.pushUnique(untilExecuted, 1).holder)
			r.do("PEXPIRE", r.keys.Lock(executed.Digest), "30000")
			r.lapse(r.session.Identity)
			j, session := r.newJanitor()
			r.recover(j, session, func() bool { return len(r.list(r.keys.Queue("mail"))) == 3 })
			require.Equal(t, "d"+executed.JID, r.lockOf(executed))
			left, _ := r.do("PTTL", r.keys.Lock(executed.Digest)).(int64)
			require.Greater(t, left, int64(30000))
			require.Equal(t, "-"+second.JID, r.lockOf(executing), "the one that came back has none, and takes none")
		})

		t.Run("pass_to_one_more_run_when_a_crashing_job_dies", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, 1, "mail")
			r.loop.beQuiet() // or it would take what is brought back
			victim := r.session.Identity
			j := r.pushUnique(untilExecuted, 1, job.SetInt("interrupted_count", 2))
			r.do("RPOPLPUSH", r.keys.Queue("mail"), r.keys.QuarantineRun(victim))
			r.do("HSET", r.keys.Record(victim), "beat_ms", "20", "quarantine_queue", "mail")
			_, err := r.keys.Start(victim, []lua.Start{{
				Queue: "mail", Quarantined: true, Bytes: j.bytes, Lock: j.Lock.Stored("Test"), Mark: true,
			}}).Do(r.ctx, r.direct)
			require.NoError(t, err)
			require.Equal(t, j.JID, r.pushUnique(untilExecuted, 1).holder)
			r.lapse(victim)
			janitor, session := r.newJanitor()
			r.recover(janitor, session, func() bool { return len(r.list(r.keys.Queue("mail"))) == 1 })
			require.EqualValues(t, 1, r.do("ZCARD", r.keys.Dead()))
			again, err := job.Parse(r.list(r.keys.Queue("mail"))[0])
			require.NoError(t, err)
			require.Equal(t, "-"+again.JID(), r.lockOf(j))
			require.Zero(t, again.InterruptedCount(), "it killed no process")
			require.Equal(t, "[1]", again.ArgsJSON())
		})
	})
}
