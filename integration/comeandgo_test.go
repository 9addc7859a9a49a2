package integration

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// Queues appear, each with its jobs, while workers that take all of them by a pattern are killed and replaced. A
// worker whose record did not name a queue before it took from it would take the jobs into a list that no process
// knows of.
func TestKilledWhileQueuesAreAdded(t *testing.T) {
	t.Parallel()
	const interruptions = 20 // a job may be in hand at several kills
	eachClient(t, func(t *testing.T, s *site) {
		const tenants, jobs = 30, 4
		book := newLedger(t)
		flags := append([]string{"-q", "tenant-*", "-c", "5", "--max-interruptions", fmt.Sprint(interruptions), "--exec", book.exec("Job")}, fast...)
		workers := []*process{s.work(flags...), s.work(flags...)}
		pushed := make(map[string]string) // the queue of each job
		for n := range tenants {
			queue := fmt.Sprintf("tenant-%02d", n)
			for range jobs {
				pushed[s.push("Job", queue, jsonArgs(n, 50+rand.IntN(200)))] = queue
			}
			if n%3 != 2 {
				continue
			}
			time.Sleep(time.Duration(rand.IntN(1200)) * time.Millisecond) // the moment is random, not the end of a wait
			victim := rand.IntN(len(workers))
			workers[victim].kill()
			workers[victim] = s.work(flags...)
		}
		eventually(t, "every job to complete", func() bool { return s.text(s.keys.Processed()) == fmt.Sprint(tenants*jobs) })
		for jid, queue := range pushed {
			require.Equal(t, queue, book.awaitEnd(jid).Queue)
		}
		require.Empty(t, s.text(s.keys.Failed()))
		require.Empty(t, s.set(s.keys.Dead()))
		require.Empty(t, texts(s.do("KEYS", s.prefix+":belay:working:*")), "jobs were left in hand")
		for _, queue := range pushed {
			require.Empty(t, s.list(s.keys.Queue(queue)))
		}
	}, oracle.MaxInterruptions(interruptions))
}

// One worker takes the queues of a hundred tenants with few connections, and each tenant gets its turn.
func TestAHundredTenantsNeedFewConnections(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		const tenants = 100
		book := newLedger(t)
		for n := range tenants {
			s.push("Job", fmt.Sprintf("tenant-%03d", n), jsonArgs(n, 0))
		}
		s.work(append([]string{"-q", "tenant-*", "-c", "10", "--exec", book.exec("Job")}, fast...)...)
		eventually(t, "every job to complete", func() bool { return s.text(s.keys.Processed()) == fmt.Sprint(tenants) })
		for _, n := range []int{0, 50, 99} {
			pushedAt := time.Now()
			started := book.awaitStart(s.push("Job", fmt.Sprintf("tenant-%03d", n), jsonArgs(n, 0)), 1).At
			t.Logf("tenant %d: started after %v", n, started.Sub(pushedAt))
		}
		connections := s.connections()
		t.Logf("%d connections", connections)
		require.Less(t, connections, tenants/2, "those of the worker and of the test")
	})
}

// connections is how many clients are connected to the server.
func (s *site) connections() int {
	s.t.Helper()
	found := regexp.MustCompile(`connected_clients:(\d+)`).FindStringSubmatch(fmt.Sprint(s.do("INFO", "clients")))
	require.NotNil(s.t, found)
	count, err := strconv.Atoi(found[1])
	require.NoError(s.t, err)
	return count
}
