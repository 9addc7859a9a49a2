package lua

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

// A Redis that refuses all new memory takes no push, but every script that leads towards an empty one goes
// through. The fake server has no limit of memory, so this is for real ones.
func TestAFullRedisIsDrained(t *testing.T) {
	t.Parallel()
	for _, g := range grounds {
		if g.fake {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			server := drivertest.Start(t, "--maxmemory-policy", "noeviction")
			w := newWorld(t, g.open, server.URL())
			member := w.batchOf("1")
			gate, limited := gateOf("l:k", 1), w.process("limited")
			require.Equal(w, Started{}, w.enter(w.process("q"), gateOf("l:other", 1), "x"), "the limit is known")
			w.push("limited", "l1", "l2", "l3")
			w.redis("HSET", w.keys.Admitted(), hashOf("gone"), "1000\nl:other\nq")
			w.redis("HINCRBY", w.keys.Gates(), gateOf("l:other", 1).AdmittedField(), "1")
			w.take(limited, 3, "limited")
			worker, victim := w.process("q"), w.hold("v1", "v2", "v3")
			w.lapse(victim)
			w.push("q", "a", "b", "too large to be taken", "c", "d", "e", "f")
			w.redis("CONFIG", "SET", "maxmemory", "1")

			refused(w, "OOM", w.keys.Push(nil, into("q", "new")))
			refused(w, "OOM", w.keys.NewBatch(NewBatch{Batch: Batch{"b2", "calls"}}))
			require.Equal(w, allSettled, w.settle(member, 1, memberEnd("1", job.Done(), MemberDone)))
			require.Equal(w, []string{"Complete", "Success"}, w.called(), "a batch ends all the same")
			require.Equal(w, Started{Parked: []int{1, 2}}, ask(w, w.keys.Start(limited, startsOf("limited", gate, "l1", "l2", "l3"))))
			gatedEnd := w.settlement(limited, 1, Settled{Queue: "limited", Bytes: "l1", Outcome: job.Done(), Gate: gate})
			gatedEnd.Queues = []string{"limited"}
			require.Equal(w, allSettled, ask(w, w.keys.Settle(gatedEnd)))
			require.Equal(w, [3]int{0, 1, 1}, w.counts(gate), "jobs of a limit run one after the other")
			require.Equal(w, 1, ask(w, w.keys.Lapse(ask(w, w.keys.Admissions()))))
			require.Equal(w, Admitted{}, ask(w, w.keys.Admit("l:k", "limited")))
			refused(w, "OOM", w.keys.ChangeLimits(LimitSet, []LimitChange{{Name: "l"}}))
			require.Equal(w, []string{victim}, ask(w, w.keys.Heartbeat(worker, someTTL)).Lapsed)
			require.True(w, ask(w, w.keys.Announce(worker, []string{"info", "{}"}, []string{"t", "{}"})))
			taken := ask(w, w.keys.Take(worker, []string{"q"}, 6, MaxBytes, 10))
			require.Equal(w, []TakenJobs{{Bytes: []string{"a", "b", "c", "d", "e", "f"}}}, taken.Jobs)
			large := NewTooLarge(taken.Large[0], w.keys.Working("q", worker), "q", 10, time.Now(), job.Seconds)
			large.Today = w.today
			require.True(w, ask(w, w.keys.KillLarge(large)))
			require.Equal(w, allSettled, w.settle(worker, 1,
				end("q", "a", job.Done()), end("q", "b", job.Retried("b'", 0)), end("q", "c", job.Snoozed("c'", 0)),
				end("q", "d", job.Died("d'")), end("q", "e", job.Discarded(true)), end("q", "f", job.Requeued())))
			w.counted(7, 4)
			require.Equal(w, []int{1}, ask(w, Lengths([]string{w.keys.Queue("q")})))

			require.True(w, ask(w, Lease(w.keys.Claim(victim), worker, time.Minute)))
			require.Equal(w, []string{"v3", "v2", "v1"}, ask(w, w.keys.Entries(w.keys.Working("q", victim), 0, MaxBytes, noLimit)).Entries)
			require.Equal(w, Recovered{State: StateDead, Moved: 3}, w.rescue(victim, "v3", "v2", "v1"))
			require.Equal(w, []string{"v1", "v2", "v3", "f"}, w.waiting("q"))
			require.True(w, ask(w, w.keys.Forget(victim, []string{"q"}, 0)))
			renewed := w.process("q")
			require.Equal(w, 0, ask(w, w.keys.Deregister(renewed, []string{"q"})))

			refused(w, "OOM", w.keys.Push(nil, into("q", "new")))
		})
	}
}
