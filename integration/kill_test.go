package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recovery is the promise: within this time of a kill -9 the jobs of the killed run again, with default
// settings.
const recovery = 15 * time.Second

const (
	// settleTime is how long before its worker's death a run may have ended and yet not have been settled. It
	// is far more than a round trip takes.
	settleTime = 2 * time.Second
	// dyingTime is how long after its worker was gone a hand may still have written: it dies of that, a moment
	// later.
	dyingTime = 100 * time.Millisecond
)

// Three workers share 300 jobs; two are killed at random moments and never come back.
func TestKill(t *testing.T) {
	t.Parallel()
	s, book := ordinarySite(t), newLedger(t)
	jids := make(map[string]bool)
	s.do("SADD", s.keys.Queues(), "default")
	for n := range 300 {
		jid := newJID()
		jids[jid] = true
		args := fmt.Sprintf("[%d,%d]", n, 200+rand.IntN(800))
		s.do("LPUSH", s.keys.Queue("default"), rubyPayload("HardWorker", "default", args, jid))
	}
	var workers []*process
	for range 3 {
		workers = append(workers, s.work("--exec", book.exec("HardWorker")))
	}
	killedAt, goneAt := make(map[int]time.Time), make(map[int]time.Time)
	for _, victim := range workers[:2] {
		time.Sleep(time.Duration(100+rand.IntN(900)) * time.Millisecond) // the moment is random, not the end of a wait
		killedAt[victim.pid] = time.Now()
		victim.kill()
		goneAt[victim.pid] = time.Now()
	}
	eventually(t, "every job to complete", func() bool { return s.text(s.keys.Processed()) == "300" })

	runs := make(map[string][]mark)
	ends := make(map[int]time.Time) // by hand
	completed := make(map[string]bool)
	for _, m := range book.marks() {
		if m.What == "start" {
			runs[m.JID] = append(runs[m.JID], m)
			continue
		}
		ends[m.PID], completed[m.JID] = m.At, true
	}
	t.Run("every job completes", func(t *testing.T) {
		require.Len(t, completed, len(jids))
		for jid := range jids {
			require.True(t, completed[jid], "job %s did not complete", jid)
		}
	})
	again, slowest := 0, time.Duration(0)
	t.Run("a job starts once more than it was killed", func(t *testing.T) {
		for jid, starts := range runs {
			for i, start := range starts[:len(starts)-1] {
				again++
				died, killed := killedAt[start.Worker]
				require.True(t, killed, "job %s ran again though its worker lives", jid)
				if ended, ok := ends[start.PID]; ok {
					require.WithinRange(t, ended, died.Add(-settleTime), goneAt[start.Worker].Add(dyingTime),
						"job %s ran again though it had been settled, or its hand outlived its worker", jid)
				}
				slowest = max(slowest, starts[i+1].At.Sub(died))
			}
			require.Contains(t, ends, starts[len(starts)-1].PID, "the last run of job %s did not end", jid)
		}
		require.Positive(t, again, "no worker was killed with a job in hand: the test proved nothing")
	})
	t.Logf("%d jobs were in hand at the kills; the last of them ran again %v after", again, slowest)
	t.Run("orphans run again within 15 s of the kill", func(t *testing.T) {
		require.Less(t, slowest, recovery)
	})
	t.Run("a crash costs no retry and is counted once", func(t *testing.T) {
		for _, start := range slices.Concat(slices.Collect(maps.Values(runs))...) {
			require.Equal(t, "0", start.RetryCount)
		}
		require.Empty(t, s.set(s.keys.Retry()))
		require.Empty(t, s.set(s.keys.Dead()))
		require.Empty(t, s.text(s.keys.Failed()))
		require.Equal(t, "300", s.text(s.keys.Processed()))
		require.Empty(t, s.list(s.keys.Queue("default")))
	})
}

// Two crashes with the job in hand may be chance; it runs a third time, as if nothing had happened.
func TestKilledTwice(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		book := newLedger(t)
		workers := make(map[int]*process)
		for range 3 {
			worker := s.work(append(hardy, "--exec", book.exec("HardWorker"))...)
			workers[worker.pid] = worker
		}
		jid := s.push("HardWorker", "default", jsonArgs(1, 4000))
		for run := 1; run <= 2; run++ {
			pid := book.awaitStart(jid, run).Worker
			require.Contains(t, workers, pid, "it runs where it was killed")
			workers[pid].kill()
			delete(workers, pid)
		}
		require.Contains(t, workers, book.awaitEnd(jid).Worker)
		eventually(t, "it to be counted", func() bool { return s.text(s.keys.Processed()) != "" })
		require.Equal(t, "1", s.text(s.keys.Processed()))
		require.Len(t, book.starts(jid), 3)
		for _, start := range book.starts(jid) {
			require.Equal(t, "0", start.RetryCount)
			require.Equal(t, "[1,4000]", string(start.Input))
		}
		require.Empty(t, s.text(s.keys.Failed()))
		require.Empty(t, s.set(s.keys.Retry()))
	})
}
