package integration

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/launcher"
)

const (
	// replicated is how old a job must be, when the primary fails, to be on the replicas for sure. On loopback
	// they have it within a millisecond.
	replicated = 500 * time.Millisecond
	// found is within what time of a promotion producers and workers are at the new primary.
	found = 10 * time.Second
)

// sentinelClients are either Redis client's own way to ask sentinels.
var sentinelClients = map[string]sentinelClient{
	"go-redis": func(w *watchedSite, role check.Role) driver.Client {
		options := redis.FailoverOptions{MasterName: drivertest.WatchedName, SentinelAddrs: w.sentinels}
		options.Username, options.Password = w.users.login(role)
		client := redis.NewFailoverClient(&options)
		w.t.Cleanup(func() { _ = client.Close() })
		return goredisdriver.New(client)
	},
	"rueidis": func(w *watchedSite, role check.Role) driver.Client {
		options := rueidis.ClientOption{InitAddress: w.sentinels, Sentinel: rueidis.SentinelOption{MasterSet: drivertest.WatchedName}}
		options.Username, options.Password = w.users.login(role)
		client, err := rueidisdriver.New(options)
		require.NoError(w.t, err)
		w.t.Cleanup(func() { _ = client.Close() })
		return client
	},
}

// A sentinelClient opens a client for a part of this role that the test plays itself, until the test ends.
type sentinelClient func(w *watchedSite, role check.Role) driver.Client

// A watchedSite is a keyspace on a primary with two replicas, which three sentinels watch.
type watchedSite struct {
	*site
	*drivertest.Watched
	sentinels []string // their addresses
}

func newWatchedSite(t *testing.T, args ...string) *watchedSite {
	t.Helper()
	w := &watchedSite{Watched: drivertest.StartSentinel(t, args...)}
	w.site = newSite(t, w.Servers[0], w.Servers[1:]...)
	for _, sentinel := range w.Sentinels {
		w.sentinels = append(w.sentinels, sentinel.Addr())
	}
	return w
}

// promoted waits until one of the replicas has become the primary, and answers when.
func (w *watchedSite) promoted() time.Time {
	w.t.Helper()
	eventually(w.t, "another primary", func() bool {
		for _, server := range w.Servers {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			role, err := server.Do(ctx, "ROLE")
			cancel()
			if parts, _ := role.([]any); err == nil && parts[0] == "master" && server != w.server {
				w.site = w.on(server)
				return true
			}
		}
		return false
	})
	return time.Now()
}

// The primary is frozen, the sentinels make another one, the old one wakes up and still takes itself for the
// primary: workers and producers find the new one, everything that was stored before or after runs, no
// process is taken for dead, and only what ran in that moment runs again.
func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	var running sync.WaitGroup // they mostly wait
	for name, open := range sentinelClients {
		running.Go(func() { t.Run(name, func(t *testing.T) { failsOver(t, open) }) })
	}
	running.Wait()
}

func failsOver(t *testing.T, open sentinelClient) {
	rounds, frozen := 1, 5*time.Second
	if os.Getenv("BELAY_LONG") == "1" {
		rounds, frozen = 5, 30*time.Second
	}
	w := newWatchedSite(t)
	h := newChronicle()
	workers := w.workers(open, h)
	pusher, err := client.New(open(w, check.RoleProducer), client.Config{Prefix: w.prefix})
	require.NoError(t, err)
	producing, stop := context.WithCancel(t.Context())
	var producer sync.WaitGroup
	producer.Go(func() { h.produce(producing, pusher, 0) })
	defer producer.Wait()
	defer stop()
	for range rounds {
		eventually(t, "some jobs to be run", func() bool { return h.count() > 200 })
		old := w.server
		failed := time.Now()
		old.Stop()
		promoted := w.promoted()
		t.Logf("promoted %v after the primary was frozen", promoted.Sub(failed))
		resumed := h.awaitStart(t, promoted)
		t.Logf("jobs run again after %v", resumed.Sub(promoted))
		require.Less(t, resumed.Sub(promoted), found)
		time.Sleep(time.Until(failed.Add(frozen)))
		old.Cont()
		woken := time.Now()
		eventually(t, "the old primary to follow", func() bool { return follows(t, old) })
		settled := time.Now()
		h.awaitStart(t, settled)
		t.Logf("the old primary followed after %v; stored and lost: %d", settled.Sub(woken), h.rest(t, failed.Add(-replicated), settled))
		h.requireOnce(t, failed.Add(-replicated), settled)
		h.forget()
	}
	stop()
	producer.Wait()
	eventually(t, "all to be settled", func() bool {
		left := len(w.list(w.keys.Queue("default")))
		for _, l := range workers {
			left += len(w.list(w.keys.Working("default", l.Identity())))
		}
		return left == 0
	})
	require.Empty(t, w.set(w.keys.Retry()))
	require.Empty(t, w.set(w.keys.Dead()))
	for _, l := range workers {
		require.Contains(t, w.set(w.keys.Alive()), l.Identity())
	}
	require.Len(t, w.set(w.keys.Alive()), len(workers), "a process was taken for dead")
}

// workers are two, each with a client of its own.
func (w *watchedSite) workers(open sentinelClient, h *chronicle) []*launcher.Launcher {
	w.t.Helper()
	var workers []*launcher.Launcher
	for range 2 {
		l, err := launcher.New(launcher.Config{Client: open(w, check.RoleWorker), Prefix: w.prefix, Concurrency: 10})
		require.NoError(w.t, err)
		l.Handle(launcher.AnyClass, h.run, launcher.Class{})
		done := make(chan error, 1)
		go func() { done <- l.Run(context.Background()) }()
		w.t.Cleanup(func() { l.Stop(); l.Stop(); require.NoError(w.t, <-done) })
		eventually(w.t, "a worker to begin", func() bool { return l.Identity() != "" })
		workers = append(workers, l)
	}
	return workers
}
