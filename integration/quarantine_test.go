package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
)

// A supervisor restarts each of its workers whenever it dies.
type supervisor struct {
	launch func() *process
	mu     sync.Mutex
	all    []*process
	ending chan struct{}
	loops  sync.WaitGroup
}

func (s *site) supervise(workers int, words ...string) *supervisor {
	return s.superviseBy(workers, func() *process { return s.start(words...) })
}

// superviseBy is supervise for workers that a function starts.
func (s *site) superviseBy(workers int, launch func() *process) *supervisor {
	c := &supervisor{launch: launch, ending: make(chan struct{})}
	for range workers {
		p := c.start()
		c.loops.Go(func() { c.watch(p) })
	}
	s.t.Cleanup(c.end)
	return c
}

func (c *supervisor) start() *process {
	p := c.launch()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, p)
	return p
}

func (c *supervisor) watch(p *process) {
	for {
		select {
		case <-c.ending:
			return
		case <-p.done:
			p = c.start()
		}
	}
}

// end stops starting workers anew; they end with the test.
func (c *supervisor) end() {
	select {
	case <-c.ending:
	default:
		close(c.ending)
	}
	c.loops.Wait()
}

func (c *supervisor) deaths() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(c.all), func(p *process) bool { return !p.ended() }))
}

// crashingExec is an --exec that kills its worker, having noted in a file that it was started.
func crashingExec(t *testing.T, class string) (exec, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "starts")
	return fmt.Sprintf(`%s=sh -c 'echo x >> %s; kill -9 $PPID; sleep 60'`, class, path), path
}

func lines(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return strings.Count(string(text), "\n")
}

// A job that kills its workers takes two of them and their other jobs with it. The third time it is alone.
func TestCrashingJobIsMovedToTheDeadSetAfterThreeStartsAndNoOther(t *testing.T) {
	t.Parallel()
	s, book := ordinarySite(t), newLedger(t)
	exec, path := crashingExec(t, "Killer")
	innocents := make([]string, 200)
	for n := range innocents {
		innocents[n] = s.push("HardWorker", "default", jsonArgs(n, 1000+rand.IntN(3000)))
		if n == 5 {
			s.push("Killer", "default", "[]")
		}
	}
	fleet := s.supervise(2, append(fast, "-c", "10", "--exec", book.exec("HardWorker"), "--exec", exec)...)
	began := time.Now()
	for deadline := began.Add(4 * time.Minute); s.text(s.keys.Processed()) != "201" || len(s.set(s.keys.Dead())) != 1; time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "it does not end: %s processed, %d quarantined, %d waiting",
			s.text(s.keys.Processed()), len(s.list(s.keys.Quarantine("default"))), len(s.list(s.keys.Queue("default"))))
	}
	fleet.end()
	t.Logf("200 innocent jobs and a crashing job took %v", time.Since(began).Round(time.Second))
	require.Equal(t, 3, lines(t, path), "starts of the crashing job")
	require.Equal(t, 3, fleet.deaths())
	dead, err := job.Parse(s.set(s.keys.Dead())[0])
	require.NoError(t, err)
	require.Equal(t, "Killer", dead.Class())
	require.Equal(t, 3, dead.InterruptedCount())
	for _, jid := range innocents {
		require.NotEmpty(t, book.ends(jid), "an innocent job did not complete")
	}
	require.Empty(t, s.set(s.keys.Retry()))
	require.Equal(t, "1", s.text(s.keys.Failed()), "the crashing job, and no innocent job")
	require.Empty(t, s.list(s.keys.Quarantine("default")))
}

// An operator kills every worker again and again. Jobs that were in hand are quarantined, and none is killed.
func TestKillsFromOutsideMoveNoJobToTheDeadSet(t *testing.T) {
	t.Parallel()
	s, book := ordinarySite(t), newLedger(t)
	var jids []string
	for n := range 12 {
		jids = append(jids, s.push("HardWorker", "default", jsonArgs(n, 700)))
	}
	flags := append(fast, "-c", "6", "-q", "default", "-q", "other", "--exec")
	words := append(slices.Clip(flags), book.exec("HardWorker"))
	// No job ends while all of them must be in hand, however long it takes until they are.
	endless := append(slices.Clip(flags), book.exec("HardWorker", "-for", "1h"))
	workers := []*process{s.work(endless...), s.work(endless...)}
	for _, jid := range jids {
		book.awaitStart(jid, 1)
	}
	replace := func(words []string) {
		for n, p := range workers {
			p.kill()
			workers[n] = s.work(words...)
		}
	}
	workers[1].kill() // both die before there is another
	replace(endless)
	eventually(t, "all of them to be in hand again", func() bool { return len(book.starts("")) >= 24 })
	workers[1].kill()
	replace(words)
	eventually(t, "quarantined jobs", func() bool { return len(s.list(s.keys.Quarantine("default"))) > 0 })
	// And again and again, with other jobs in hand while the quarantined jobs rest.
	s.do("SADD", s.keys.Paused(), "default")
	eventually(t, "no quarantined job to be in hand", func() bool {
		inHand := 0
		for _, p := range workers {
			for _, identity := range p.identities() {
				inHand += len(s.list(s.keys.QuarantineRun(identity)))
			}
		}
		return inHand == 0
	})
	for n := range 2 {
		jid := s.push("HardWorker", "other", jsonArgs(100+n, 700))
		jids = append(jids, jid)
		start := book.awaitStart(jid, 1)
		for i, p := range workers {
			if p.pid == start.Worker {
				p.kill()
				workers[i] = s.work(words...)
			}
		}
	}
	s.do("SREM", s.keys.Paused(), "default")
	eventually(t, "every job to complete", func() bool { return s.text(s.keys.Processed()) == "14" })
	require.Empty(t, s.set(s.keys.Dead()))
	require.Empty(t, s.text(s.keys.Failed()))
	for _, jid := range jids {
		require.NotEmpty(t, book.ends(jid))
	}
}

// A quarantined job waits for an idle worker, and a worker with a job of hours in hand is never idle: it goes
// on with everything else.
func TestAQuarantinedJobWaitsAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s, book := ordinarySite(t, oracle.Allow(oracle.Nowhere, oracle.Quarantine)), newLedger(t)
	long := s.push("HardWorker", "default", jsonArgs(0, 7_200_000))
	s.work(append(fast, "-c", "3", "-q", "default", "-q", "resting", "--shutdown-timeout", "1s", "--exec", book.exec("HardWorker"))...)
	book.awaitStart(long, 1)
	quarantined := strings.TrimSuffix(rubyPayload("HardWorker", "default", jsonArgs(1, 1), newJID()), "}") + `,"interrupted_count":2}`
	s.do("RPUSH", s.keys.Quarantine("default"), quarantined)
	s.do("SADD", s.keys.Queues(), "resting")
	s.do("SADD", s.keys.Paused(), "resting")
	s.do("RPUSH", s.keys.Quarantine("resting"), quarantined)
	eventually(t, "it to drain", func() bool { return s.do("ZCARD", s.keys.Draining("default")) == int64(1) })
	eventually(t, "it to give that up", func() bool { return s.do("ZCARD", s.keys.Draining("default")) == int64(0) })
	// Each of these would wait out the shutdown timeout. What was given up is left for ten times that, of which a busy
	// machine may need most for the last one.
	ran := 0
	for until := time.Now().Add(3 * time.Second); ran < 20 && time.Now().Before(until); ran++ {
		jid := s.push("HardWorker", "default", jsonArgs(ran, 1))
		eventually(t, "its end", func() bool {
			require.Zero(t, s.do("ZCARD", s.keys.Draining("default")), "it drained again at once")
			return len(book.ends(jid)) > 0
		})
	}
	require.Len(t, s.list(s.keys.Quarantine("default")), 1)
	require.Equal(t, int64(2), s.status().Quarantined)

	// An idle worker starts.
	s.work(append(fast, "-c", "3", "-q", "default", "-q", "resting", "--exec", book.exec("HardWorker"))...)
	eventually(t, "the quarantined job to run", func() bool {
		return len(s.list(s.keys.Quarantine("default"))) == 0 && s.text(s.keys.Processed()) == strconv.Itoa(ran+1)
	})
	require.Len(t, s.list(s.keys.Quarantine("resting")), 1, "its queue is paused")
}
