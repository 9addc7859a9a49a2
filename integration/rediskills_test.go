package integration

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/launcher"
)

// Redis is killed again and again under full load, and keeps what it has acknowledged: every job that it said
// it had is run, and none more than once, since no worker has died.
func TestRedisKilledUnderLoad(t *testing.T) {
	t.Parallel()
	kills, every := 4, time.Second
	if os.Getenv("BELAY_LONG") == "1" {
		kills, every = 30, 10*time.Second
	}
	for name := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, dir := recorded(t, "--appendfsync", "always")
			t.Cleanup(func() { judge(t, server, dir) })
			s := newSite(t, server)
			s.client = name
			h := newChronicle()
			for range 2 {
				s.run(launcher.Config{Client: s.driverOf(check.RoleWorker), Concurrency: 10}, h.run)
			}
			producing, stop := context.WithCancel(t.Context())
			var producers sync.WaitGroup
			for n := range 2 {
				pusher := s.clientOf(check.RoleProducer)
				producers.Go(func() { h.produce(producing, pusher, n*1_000_000) })
			}
			defer producers.Wait()
			defer stop()
			for range kills {
				time.Sleep(every/2 + rand.N(every)) // the moment is random, not the end of a wait
				server.Kill()
				time.Sleep(rand.N(every))
				server.Restart(t)
				back := time.Now()
				h.awaitStart(t, back)
				t.Logf("a job stored since Redis is back began after %v", time.Since(back))
				require.Less(t, time.Since(back), resumed)
			}
			stop()
			producers.Wait()
			h.rest(t, time.Time{}, time.Time{})
			eventually(t, "all to be settled, also those whose push got no reply", func() bool {
				return s.text(s.keys.Processed()) == h.runs() && len(texts(s.do("KEYS", s.keys.Working("default", "*")))) == 0
			})
			h.requireOnce(t, time.Time{}, time.Time{})
			require.Empty(t, s.text(s.keys.Failed()))
			require.Empty(t, s.set(s.keys.Retry()))
			require.Empty(t, s.list(s.keys.Queue("default")))
		})
	}
}
