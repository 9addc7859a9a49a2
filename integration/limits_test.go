package integration

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// unhurried workers are declared dead late, so that no stall of a busy machine looks like a death: the runs of
// a process that was declared dead do not count against a limit.
var unhurried = []string{"--heartbeat", "500ms", "--ttl", "10s"}

// Three workers run the jobs of three tenants, at most two of each at once. One worker is killed and one is
// stopped and replaced. By the history of the programs themselves no tenant ever has more runs, every job
// completes, and no slot is left. A killed worker's programs die with it, so its runs end at the kill.
func TestLimitsHoldThroughKillsAndDeploys(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		const jobs, most = 40, 2
		book := newLedger(t)
		start := func() *process {
			return s.work(append(unhurried, "-c", "8", "--exec", book.exec("HardWorker"),
				"--limit", fmt.Sprintf("HardWorker=tenants,concurrency=%d,key=2", most))...)
		}
		workers := []*process{start(), start(), start()}
		tenants := []string{"acme", "globex", "initech"}
		tenantOf := map[string]string{}
		for n := range jobs {
			for _, tenant := range tenants {
				tenantOf[s.push("HardWorker", "default", fmt.Sprintf("[%d,%d,%q]", n, 20+n%5*20, tenant))] = tenant
			}
		}
		eventually(t, "some jobs to end", func() bool { return len(book.marks()) > 30 })
		goneAt := map[int]time.Time{}
		workers[0].kill()
		goneAt[workers[0].pid] = time.Now()
		workers[1].signal(syscall.SIGTERM)
		require.Zero(t, workers[1].wait())
		start()
		total := fmt.Sprint(jobs * len(tenants))
		eventually(t, "every job to complete", func() bool { return s.text(s.keys.Processed()) == total })

		ended := requireAtMost(t, most, book.marks(), func(m mark) string { return tenantOf[m.JID] }, goneAt)
		require.Len(t, ended, jobs*len(tenants))
		require.Empty(t, s.text(s.keys.Failed()))
		eventually(t, "no slot to be left", func() bool {
			return s.do("EXISTS", s.keys.Gates(), s.keys.Admitted(), s.keys.Waiting()) == int64(0)
		})
	})
}

// requireAtMost holds that programs of one key had no more runs at once, by their own marks. The programs of a
// worker that was killed end at that instant. It returns the jobs that have ended.
func requireAtMost(t *testing.T, most int, marks []mark, keyOf func(mark) string, goneAt map[int]time.Time) (ended map[string]bool) {
	t.Helper()
	ended = map[string]bool{}
	open := map[string]map[int]mark{} // by key and program
	for _, m := range marks {
		key := keyOf(m)
		if open[key] == nil {
			open[key] = map[int]mark{}
		}
		if m.What != "start" {
			delete(open[key], m.PID)
			ended[m.JID] = true
			continue
		}
		for pid, earlier := range open[key] {
			if gone, killed := goneAt[earlier.Worker]; killed && m.At.After(gone) {
				delete(open[key], pid)
			}
		}
		open[key][m.PID] = m
		require.LessOrEqual(t, len(open[key]), most, "runs of %q at once", key)
	}
	return ended
}

// Two at a time is a rule that an operator gives a class which declares no limit, while workers run it. It holds
// from the first run after the rule is read, through a kill; a pause lets nothing more start, and when the rule is
// removed every job completes.
func TestRulesOfClassesHoldThroughKills(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		const jobs, most = 40, 2
		book := newLedger(t)
		start := func() *process { return s.work(append(unhurried, "-c", "8", "--exec", book.exec("HardWorker"))...) }
		command := func(words ...string) {
			_, errs, code := s.belay(words...)
			require.Zero(t, code, "%v: %s", words, errs)
		}
		command("classes", "limit", "HardWorker", fmt.Sprint(most))
		workers := []*process{start(), start()}
		for n := range jobs {
			s.push("HardWorker", "default", jsonArgs(n, 20+n%5*20))
		}
		eventually(t, "some jobs to end", func() bool { return len(book.marks()) > 10 })
		workers[0].kill()
		goneAt := time.Now()
		eventually(t, "more jobs to end", func() bool { return len(book.marks()) > 30 })
		command("classes", "pause", "HardWorker")
		gate := lua.ClassRule{Class: "HardWorker"}.Gate()
		eventually(t, "all jobs to wait that the dead worker does not hold", func() bool {
			// Both counts at one instant: that of a job which is recovered goes from one to the other and back.
			return s.do("LLEN", s.keys.Queue("default")) == int64(0) &&
				slices.Equal(s.do("HMGET", s.keys.Gates(), gate.RunningField(), gate.AdmittedField()).([]any), []any{nil, nil})
		})
		began := len(book.marks())
		s.push("HardWorker", "default", jsonArgs(jobs, 0))
		eventually(t, "the job to wait", func() bool { return s.do("LLEN", s.keys.Queue("default")) == int64(0) })
		require.Len(t, book.marks(), began, "a job has started")
		start() // reads the rule before its first take
		command("classes", "resume", "HardWorker")
		eventually(t, "every job to complete", func() bool { return s.text(s.keys.Processed()) == fmt.Sprint(jobs+1) })

		marks, one := book.marks(), func(mark) string { return "" }
		requireAtMost(t, most, marks[:began], one, map[int]time.Time{workers[0].pid: goneAt})
		ended := requireAtMost(t, jobs, marks, one, nil) // programs of the killed worker left no end
		require.Len(t, ended, jobs+1)
		eventually(t, "no slot to be left", func() bool {
			return s.do("EXISTS", s.keys.Gates(), s.keys.Admitted(), s.keys.Waiting()) == int64(0)
		})
	})
}
