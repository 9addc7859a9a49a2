package integration

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/integration/oracle"
)

// A job that kills its workers keeps its lock from one to the next, and frees it when it dies.
func TestCrashingJobKeepsItsLockUntilItIsDead(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		exec, path := crashingExec(t, "Killer")
		j := ofOne(untilExecuted())
		j.Class = "Killer"
		jid := g.accepts(j)
		fleet := g.supervise(2, append(fast, "-c", "2", "--exec", exec)...)
		for n := 1; n <= 2; n++ {
			eventually(t, "a kill", func() bool { return lines(t, path) >= n })
			g.refuses(j, jid)
		}
		eventually(t, "its burial", func() bool { return len(g.set(g.keys.Dead())) == 1 })
		fleet.end()
		g.settles()
		require.Equal(t, 3, lines(t, path))
		require.NotEqual(t, jid, g.accepts(j))
	})
}

// Two of a kind, of which the first had started when its worker died, both wait then: a recovered job asks for
// no lock. Its second start leaves the other's lock alone.
func TestRecoveredJobLeavesItsSuccessorsLockAlone(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		book, enough := newLedger(t), newLeave(t)
		j := ofOne(untilExecuting())
		words := append([]string{"-c", "1", "--exec", book.exec("HardWorker", "-until", enough.path)}, fast...)
		victim := g.work(words...)
		first := g.accepts(j)
		book.awaitStart(first, 1)
		second := g.accepts(j)
		g.refuses(j, second)
		victim.kill()
		g.refuses(j, second)
		g.do("SADD", g.keys.Paused(), "default") // or the second is run while the first one's worker is not known to be dead
		g.work(words...)
		eventually(t, "both to wait", func() bool { return len(g.list(g.keys.Queue("default"))) == 2 })
		g.refuses(j, second)
		g.do("SREM", g.keys.Paused(), "default")
		book.awaitStart(first, 2)
		g.refuses(j, second)
		enough.give()
		book.awaitEnd(first)
		book.awaitStart(second, 1)
		third := g.accepts(j)
		book.awaitEnd(third)
		g.settles()
		require.Len(t, book.starts(second), 1)
	})
}

// A lock that ran out while its owner was frozen is another's. The owner frees nothing when it ends.
func TestLateEndFreesNoOtherLock(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		book, enough := newLedger(t), newLeave(t)
		j := ofOne(&dedup.Rule{Until: dedup.UntilExecuted, TTL: 300 * time.Millisecond})
		slow := []string{"-c", "1", "--exec", book.exec("HardWorker", "-until", enough.path), "--heartbeat", "100ms", "--ttl", "30s"}
		owner := g.work(slow...)
		first := g.accepts(j)
		book.awaitStart(first, 1)
		require.NoError(t, syscall.Kill(owner.pid, syscall.SIGSTOP))
		eventually(t, "its lock to run out", func() bool { return len(g.locks()) == 0 })
		j.Unique = untilExecuted()
		second := g.accepts(j)
		require.NoError(t, syscall.Kill(owner.pid, syscall.SIGCONT))
		for range 3 { // its beats do not take the lock, either
			expiry := g.do("ZSCORE", g.keys.Alive(), owner.identities()[0])
			eventually(t, "a beat", func() bool { return g.do("ZSCORE", g.keys.Alive(), owner.identities()[0]) != expiry })
		}
		g.refuses(j, second)
		enough.giveTo(first)
		eventually(t, "the first to end", func() bool { return g.text(g.keys.Processed()) == "1" })
		g.refuses(j, second)
		enough.give()
		book.awaitEnd(second)
		g.settles()
		require.Len(t, book.starts(""), 2)
	})
}

// A run may last many times its lock's TTL: with each beat of its process the lock has its whole TTL again. Those
// of thousands that wait stand, too.
func TestLockOutlastsItsTTLInHand(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		const others = 2000
		book, enough := newLedger(t), newLeave(t)
		j := ofOne(&dedup.Rule{Until: dedup.UntilExecuted, TTL: time.Minute})
		g.work(append([]string{"-c", "1", "--exec", book.exec("HardWorker", "-until", enough.path), "--exec", "Quick=true"}, fast...)...)
		first := g.accepts(j)
		book.awaitStart(first, 1)
		require.Len(t, g.locks(), 1)
		lock := g.locks()[0]
		var waiting []client.RawJob
		for n := range others {
			item := ofOne(untilExecuted())
			item.ArgsJSON, item.Queue = fmt.Sprintf("[%d]", n), "unserved"
			waiting = append(waiting, item)
		}
		_, err := g.pusher.PushMany(t.Context(), slices.Values(waiting))
		require.NoError(t, err)
		for n := range 10 {
			ends := g.do("PEXPIRETIME", lock).(int64)
			eventually(t, "a beat to renew the lock", func() bool { return g.do("PEXPIRETIME", lock).(int64) > ends })
			g.refuses(j, first)
			require.Equal(t, client.StatusDuplicate, g.ask(waiting[n*others/10]).Status)
		}
		enough.give()
		book.awaitEnd(first)
		eventually(t, "its lock to be free", func() bool { return len(g.locks()) == others })
		require.Len(t, book.starts(""), 1) // before there is another, which begins at once
		g.accepts(j)
	})
}

// A worker that is stopped requeues its unique jobs with their locks.
func TestRequeuedJobsKeepTheirLocks(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		book := newLedger(t)
		work := func(span string) *process {
			return g.work(append([]string{"-c", "2", "--shutdown-timeout", "200ms", "--exec", book.exec("HardWorker", "-for", span)}, fast...)...)
		}
		worker := work("1h")
		held, freed := ofOne(onceMore()), ofOne(untilExecuting())
		freed.ArgsJSON = "[2]"
		first, second := g.accepts(held), g.accepts(freed)
		book.awaitStart(first, 1)
		book.awaitStart(second, 1)
		g.refuses(held, first)
		worker.signal(syscall.SIGTERM)
		require.Zero(t, worker.wait())
		require.Len(t, g.list(g.keys.Queue("default")), 2)
		g.refuses(held, first)
		third := g.accepts(freed) // the second one has run, in part
		work("300ms")
		book.awaitEnd(third)
		eventually(t, "all to end, and one more run", func() bool { return g.waiting() == 0 })
		g.settles()
		require.Len(t, book.starts(""), 2+2+1+1, "each of the first two twice, the third, and one for the refused")
	})
}

// Whatever an operator takes away takes its lock with it.
func TestLocksGoWithWhatOperatorsTakeAway(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		n := 0
		next := func(change func(j *client.RawJob)) (jid string) {
			t.Helper()
			n++
			j := ofOne(untilExecuted())
			j.Unique.IncludingScheduled = true
			j.ArgsJSON = fmt.Sprintf("[%d]", n)
			change(&j)
			return g.accepts(j)
		}
		run := func(words ...string) {
			t.Helper()
			out, errs, code := g.belay(words...)
			require.Zero(t, code, "%v: %s%s", words, out, errs)
		}
		free := func(words ...string) {
			t.Helper()
			require.NotEmpty(t, g.locks())
			run(words...)
			require.Empty(t, g.locks(), "%v", words)
			require.Zero(t, g.do("ZCARD", g.keys.Unique()))
		}
		free("queues", "delete", "default", next(func(*client.RawJob) {}))
		for range 1000 {
			next(func(*client.RawJob) {})
		}
		free("queues", "clear", "default", "--yes")
		free("scheduled", "delete", next(func(j *client.RawJob) { j.In = time.Hour }))
		next(func(j *client.RawJob) { j.In = time.Hour })
		free("scheduled", "clear", "--yes")
		free("scheduled", "kill", next(func(j *client.RawJob) { j.In = time.Hour }))

		// Failed ones: in retry, and dead.
		failing := func() (jid string) {
			t.Helper()
			jid = next(func(*client.RawJob) {})
			worker := g.work("-c", "1", "--exec", "HardWorker=false")
			eventually(t, "its retry", func() bool { return len(g.set(g.keys.Retry())) == 1 })
			worker.signal(syscall.SIGTERM)
			require.Zero(t, worker.wait())
			require.Len(t, g.locks(), 1)
			return jid
		}
		free("retries", "delete", failing())
		failing()
		free("retries", "clear", "--yes")
		free("retries", "kill", failing())
		require.Len(t, g.set(g.keys.Dead()), 2)
		run("dead", "clear", "--yes")
		require.Empty(t, g.locks())
	}, oracle.Acts())
}
