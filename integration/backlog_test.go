package integration

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// backlog is how many jobs are brought back from one dead worker, and how many are due at the same second.
// BELAY_LONG=1 takes what no script that wants all of it at once survives.
func backlog() (orphans, due int) {
	if os.Getenv("BELAY_LONG") == "1" {
		return 100_000, 300_000
	}
	return 10_000, 15_000
}

// patient is how long another client may have to wait for Redis' answer meanwhile.
const patient = 50 * time.Millisecond

// A dead worker has left far more than a worker can have in hand, and far more than can be moved at once is
// due in one second. Everything is moved page by page, every job runs once, and Redis answers other clients
// at once.
func TestABacklogKeepsNoClientFromRedis(t *testing.T) {
	s := ordinarySite(t, oracle.Allow(oracle.Nowhere, oracle.Working))
	keepsNoClientWaiting(t, s, patient, func() { backlogIsWorkedOff(t, s.anew(t)) })
}

func backlogIsWorkedOff(t *testing.T, s *site) {
	t.Helper()
	orphans, due := backlog()
	book := newLedger(t)
	victim := s.work(append(fast, "-c", "1", "--exec", book.exec("Any", "-for", "1h"))...)
	first := s.push("Any", "default", "[]")
	book.awaitStart(first, 1)
	victim.kill()
	working := s.keys.Working("default", victim.identities()[0])
	s.inThousands(orphans, "LPUSH", working)
	s.inThousands(due, "ZADD", s.keys.Schedule())

	var mu sync.Mutex
	runs, again := make(map[string]int), 0
	s.run(launcher.Config{Client: s.driverOf(check.RoleWorker), Concurrency: 50, Beat: 200 * time.Millisecond, TTL: time.Second}, func(_ context.Context, j *job.Job) error {
		mu.Lock()
		defer mu.Unlock()
		if runs[j.JID()]++; runs[j.JID()] > 1 {
			again++
		}
		return nil
	})
	all := strconv.Itoa(orphans + due + 1)
	began := time.Now()
	for deadline := began.Add(5 * patience); s.text(s.keys.Processed()) != all; time.Sleep(20 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "it does not end: %s of %s", s.text(s.keys.Processed()), all)
	}
	t.Logf("%d of a dead worker and %d due in a second were run within %v", orphans, due, time.Since(began).Round(time.Millisecond))
	mu.Lock()
	defer mu.Unlock()
	require.Zero(t, again, "jobs that ran again")
	require.Len(t, runs, orphans+due+1)
	require.Empty(t, s.text(s.keys.Failed()))
	require.Zero(t, s.do("EXISTS", working, s.keys.Schedule(), s.keys.Dead()))
}

// inThousands adds so many jobs to a list, or to a sorted set with a time long ago.
func (s *site) inThousands(jobs int, command, key string) {
	s.t.Helper()
	for done := 0; done < jobs; done += 1000 {
		words := []string{command, key}
		for n := range min(1000, jobs-done) {
			if command == "ZADD" {
				words = append(words, "1000000000")
			}
			words = append(words, rubyPayload("Any", "default", fmt.Sprintf("[%d]", n), newJID()))
		}
		s.do(words...)
	}
}
