package integration

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// A Redis that is killed and comes back with less than it had makes nothing run twice of which it still knows
// that it is in hand, and stops no worker.
//
// Nothing else runs meanwhile: a machine that is busy with other tests would need more CPU time for the same.
func TestRestartWithLosses(t *testing.T) {
	t.Run("with the jobs in hand but not what came after runs none of them twice", func(t *testing.T) {
		t.Parallel()
		f := pushed(t, 9_000)
		f.begin("go-redis", "rueidis")
		f.do("SAVE")
		lost := f.push("Quick", "default", jsonArgs(0, 0))
		f.book.awaitEnd(lost)
		eventually(t, "it to be counted", func() bool { return f.text(f.keys.Processed()) == "1" })
		f.goesAway()
		require.Empty(t, f.text(f.keys.Processed()), "nothing was lost: the test proves nothing")
		for _, jid := range f.jids {
			f.book.awaitEnd(jid)
		}
		f.runsNewJobs()
		eventually(t, "all to be settled", func() bool { return f.text(f.keys.Processed()) == "12" })
		require.Len(t, f.set(f.keys.Retry()), 1, "the one that fails")
		for _, w := range f.workers {
			require.Len(t, w.identities(), 1)
			require.False(t, w.says("recovered"))
		}
		for _, jid := range f.jids {
			require.Len(t, f.book.starts(jid), 1)
		}
		f.stillFindsTheDead(13)
	})

	t.Run("with the jobs as they were before they were taken runs none beside itself, and the runs that go on end them", func(t *testing.T) {
		t.Parallel()
		f := pushed(t, 7_000)
		f.do("SAVE")
		f.begin("rueidis")
		f.goesAway()
		f.workers[0].awaitLog("re-registered with a new identity")
		eventually(t, "the runs to be settled", func() bool { return f.text(f.keys.Processed()) == "10" })
		require.Len(t, f.set(f.keys.Retry()), 1, "the one that fails")
		require.Len(t, f.book.starts(""), 10)
	})

	t.Run("with nothing lets handlers finish, writes nothing for them, and works on", func(t *testing.T) {
		t.Parallel()
		f := pushed(t, 9_000)
		f.begin("go-redis", "rueidis")
		f.goesAway()
		for _, w := range f.workers {
			w.awaitLog("re-registered with a new identity")
		}
		f.runsNewJobs()
		for _, jid := range f.jids {
			f.book.awaitEnd(jid)
		}
		f.stillFindsTheDead(3)
		require.Empty(t, f.set(f.keys.Retry()), "the end of a job that Redis does not know")
		require.Empty(t, f.text(f.keys.Failed()))
	})
}

// A fleet is ten jobs, of which the first will fail, and workers who take them all.
type fleet struct {
	*site
	book    *ledger
	workers []*process
	jids    []string
}

const fleetTTL = 2 * time.Second

// pushed are the jobs, before there is a worker.
func pushed(t *testing.T, ms int) *fleet {
	t.Helper()
	f := &fleet{site: newSite(t, drivertest.Start(t)), book: newLedger(t)}
	f.jids = append(f.jids, f.push("Failing", "default", jsonArgs(0, ms)))
	for n := range 9 {
		f.jids = append(f.jids, f.push("Long", "default", jsonArgs(n, ms)))
	}
	return f
}

// begin starts a worker with each of these clients, and waits until all jobs run.
func (f *fleet) begin(clients ...string) {
	f.t.Helper()
	for _, client := range clients {
		f.client = client
		f.workers = append(f.workers, f.work("--heartbeat", "500ms", "--ttl", fleetTTL.String(), "-c", strconv.Itoa(12/len(clients)),
			"--exec", f.book.exec("*"), "--exec", f.book.exec("Failing", "-fail", "as asked")))
	}
	for _, jid := range f.jids {
		f.book.awaitStart(jid, 1)
	}
}

// goesAway kills Redis, and starts it again past the TTL with what it has saved.
func (f *fleet) goesAway() {
	f.t.Helper()
	rest := watchRest(f.t, f.workers)
	f.server.Kill()
	time.Sleep(2 * fleetTTL) // the span in which every process lapses
	rest.require()
	f.server.Restart(f.t)
}

// runsNewJobs makes sure that two new jobs are run.
func (f *fleet) runsNewJobs() {
	f.t.Helper()
	for n := range 2 {
		f.book.awaitEnd(f.push("Quick", "default", jsonArgs(n, 0)))
	}
}

// stillFindsTheDead makes sure that a worker that is killed now is noticed. It makes the count of processed
// jobs n.
func (f *fleet) stillFindsTheDead(n int) {
	f.t.Helper()
	last := f.push("Quick", "default", jsonArgs(0, 3_000))
	first := f.book.awaitStart(last, 1)
	killed := time.Now()
	for _, w := range f.workers {
		if w.pid == first.Worker {
			w.kill()
		}
	}
	require.Less(f.t, f.book.awaitStart(last, 2).At.Sub(killed), recovery)
	eventually(f.t, "the last one to be settled", func() bool { return f.text(f.keys.Processed()) == strconv.Itoa(n) })
}

// A rest is what workers do while there is nothing that they can do.
type rest struct {
	t       *testing.T
	workers []*process
	since   time.Time
	used    []time.Duration
	lines   []int
}

// watchRest begins to watch, when Redis is about to go.
func watchRest(t *testing.T, workers []*process) *rest {
	t.Helper()
	r := &rest{t: t, workers: workers, since: time.Now()}
	for _, w := range workers {
		r.used = append(r.used, cpuTime(t, w.pid))
		r.lines = append(r.lines, strings.Count(w.log(), "\n"))
	}
	return r
}

// require holds the promise for the span since: an outage costs next to no CPU time, and a handful of lines.
func (r *rest) require() {
	r.t.Helper()
	span := time.Since(r.since)
	for i, w := range r.workers {
		used, lines := cpuTime(r.t, w.pid)-r.used[i], strings.Count(w.log(), "\n")-r.lines[i]
		r.t.Logf("in %v without Redis: CPU time %v, %d lines", span.Round(time.Millisecond), used, lines)
		require.Less(r.t, used, span/50, "2 %% of a core")
		require.Positive(r.t, lines)
		require.LessOrEqual(r.t, lines, 5)
	}
}
