package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

		ended := map[string]bool{}        // jobs
		open := map[string]map[int]mark{} // by tenant and program
		for _, m := range book.marks() {
			tenant := tenantOf[m.JID]
			if open[tenant] == nil {
				open[tenant] = map[int]mark{}
			}
			if m.What != "start" {
				delete(open[tenant], m.PID)
				ended[m.JID] = true
				continue
			}
			for pid, earlier := range open[tenant] {
				if gone, killed := goneAt[earlier.Worker]; killed && m.At.After(gone) {
					delete(open[tenant], pid)
				}
			}
			open[tenant][m.PID] = m
			require.LessOrEqual(t, len(open[tenant]), most, "runs of %s at once", tenant)
		}
		require.Len(t, ended, jobs*len(tenants))
		require.Empty(t, s.text(s.keys.Failed()))
		eventually(t, "no slot to be left", func() bool {
			return s.do("EXISTS", s.keys.Gates(), s.keys.Admitted(), s.keys.Waiting()) == int64(0)
		})
	})
}
