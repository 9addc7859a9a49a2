package integration

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// The janitor judges absence twice: an event that makes all processes look dead at once re-runs no job, and a
// real death is still noticed.
func TestAbsenceOfAllProcesses(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	for name, absence := range map[string]func(t *testing.T, server *drivertest.Server, workers []*process){
		"Redis killed and started again past the TTL": func(t *testing.T, server *drivertest.Server, workers []*process) {
			rest := watchRest(t, workers)
			server.Kill()
			time.Sleep(2 * ttl)
			rest.require()
			server.Restart(t)
		},
		"Redis frozen past the TTL": func(t *testing.T, server *drivertest.Server, workers []*process) {
			rest := watchRest(t, workers)
			server.Stop()
			time.Sleep(2 * ttl)
			rest.require()
			server.Cont()
		},
		"the whole fleet frozen three times": func(_ *testing.T, _ *drivertest.Server, workers []*process) {
			for range 3 {
				for _, w := range workers {
					w.signal(syscall.SIGSTOP)
				}
				time.Sleep(2 * ttl)
				for _, w := range workers {
					w.signal(syscall.SIGCONT)
				}
				time.Sleep(ttl / 2)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := audited(t)
			s := newSite(t, server)
			book := newLedger(t)
			var jids []string
			for n := range 10 {
				jids = append(jids, s.push("Long", "default", jsonArgs(n, 12_000)))
			}
			work := func() *process {
				return s.work("--heartbeat", "500ms", "--ttl", ttl.String(), "-c", "5", "--exec", book.exec("Long"))
			}
			workers := []*process{work(), work()}
			for _, jid := range jids {
				book.awaitStart(jid, 1)
			}
			absence(t, server, workers)
			for _, jid := range jids {
				book.awaitEnd(jid)
				require.Len(t, book.starts(jid), 1, "run again without a cause")
			}
			eventually(t, "all to be settled", func() bool { return s.text(s.keys.Processed()) == "10" })
			require.Empty(t, s.set(s.keys.Retry()))

			// A real death, now.
			last := s.push("Long", "default", jsonArgs(10, 3_000))
			first := book.awaitStart(last, 1)
			killed := time.Now()
			for _, w := range workers {
				if w.pid == first.Worker {
					w.kill()
				}
			}
			book.awaitStart(last, 2)
			require.Less(t, time.Since(killed), recovery)
			eventually(t, "the last one to be settled", func() bool { return s.text(s.keys.Processed()) == "11" })
		})
	}
}
