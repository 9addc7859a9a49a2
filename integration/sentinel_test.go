package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

const (
	// watched is the name under which the sentinels know the primary.
	watched = "belay"
	// replicated is how old a job must be, when the primary fails, to be on the replicas for sure. On loopback they have it
	// within a millisecond.
	replicated = 500 * time.Millisecond
	// found is within what time of a promotion producers and workers are at the new primary.
	found = 10 * time.Second
)

// sentinelClients are either Redis client's own way to ask sentinels.
var sentinelClients = map[string]func(t *testing.T, addrs []string) driver.Client{
	"go-redis": func(t *testing.T, addrs []string) driver.Client {
		theirs := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: watched, SentinelAddrs: addrs})
		t.Cleanup(func() { _ = theirs.Close() })
		return goredisdriver.New(theirs)
	},
	"rueidis": func(t *testing.T, addrs []string) driver.Client {
		ours, err := rueidisdriver.New(rueidis.ClientOption{InitAddress: addrs, Sentinel: rueidis.SentinelOption{MasterSet: watched}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = ours.Close() })
		return ours
	},
}

// A watchedSite is a keyspace on a primary with two replicas, which three sentinels watch.
type watchedSite struct {
	*site
	servers   []*drivertest.Server // the primary first, as it was at the beginning
	sentinels []string
}

func newWatchedSite(t *testing.T) *watchedSite {
	t.Helper()
	w := &watchedSite{}
	for range 3 {
		w.servers = append(w.servers, drivertest.Start(t, "--repl-diskless-sync-delay", "0"))
	}
	w.site = newSite(t, w.servers[0])
	for _, replica := range w.servers[1:] {
		w.on(replica).follow(w.servers[0])
	}
	for range 3 {
		w.sentinels = append(w.sentinels, startSentinel(t, w.servers[0]))
	}
	for _, addr := range w.sentinels {
		eventually(t, "a sentinel to know everybody", func() bool {
			facts := askSentinel(addr, "SENTINEL", "MASTER", watched)
			return facts["num-slaves"] == "2" && facts["num-other-sentinels"] == "2" && facts["flags"] == "master"
		})
	}
	return w
}

// startSentinel starts one, and answers its address.
func startSentinel(t *testing.T, primary *drivertest.Server) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr = listener.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	require.NoError(t, listener.Close())
	host, primaryPort, _ := net.SplitHostPort(primary.Addr())
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "port %s\nbind 127.0.0.1\nprotected-mode no\ndir %q\n"+
		"sentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %s 1000\nsentinel failover-timeout %s 3000\nsentinel parallel-syncs %s 2\n",
		port, filepath.Dir(config), watched, host, primaryPort, watched, watched, watched), 0o600))
	cmd := exec.Command("redis-server", config, "--sentinel")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return addr
}

// askSentinel answers what a sentinel says, as pairs; nothing when it does not answer.
func askSentinel(addr string, words ...any) map[string]string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	sentinel := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2})
	defer func() { _ = sentinel.Close() }()
	texts, _ := sentinel.Do(ctx, words...).StringSlice()
	facts := make(map[string]string)
	for pair := range slices.Chunk(texts, 2) {
		facts[pair[0]] = pair[len(pair)-1]
	}
	return facts
}

// promoted waits until one of the replicas has become the primary, and answers when.
func (w *watchedSite) promoted() time.Time {
	w.t.Helper()
	eventually(w.t, "another primary", func() bool {
		for _, server := range w.servers {
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

// A history is when which job was stored and run. Its methods may be called from any goroutine.
type history struct {
	mu     sync.Mutex
	acked  map[string]time.Time   // by number: when Redis said that it has the job
	starts map[string][]time.Time // by number
}

func (h *history) ack(n string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked[n] = time.Now()
}

func (h *history) run(ctx context.Context, j *job.Job) error {
	h.mu.Lock()
	n := strings.Trim(j.ArgsJSON(), "[]")
	h.starts[n] = append(h.starts[n], time.Now())
	h.mu.Unlock()
	select {
	case <-time.After(50 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// produce pushes a job every few milliseconds until ctx ends. One that was not stored for sure is not pushed again.
func (h *history) produce(ctx context.Context, pusher *client.Client) {
	for n := 0; ctx.Err() == nil; n++ {
		deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		if _, err := pusher.Push(deadline, client.Job{Class: "Any", ArgsJSON: fmt.Sprintf("[%d]", n)}); err == nil {
			h.ack(strconv.Itoa(n))
		}
		cancel()
		time.Sleep(5 * time.Millisecond)
	}
}

// rest waits until every job that was stored, but for those of the span in which Redis may forget them, has run.
func (h *history) rest(t *testing.T, from, to time.Time) (lost int) {
	t.Helper()
	var missing []string
	eventually(t, "every job to be run", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		lost, missing = 0, nil
		for n, at := range h.acked {
			if len(h.starts[n]) == 0 && at.After(from) && at.Before(to) {
				lost++
			} else if len(h.starts[n]) == 0 {
				missing = append(missing, n+" of "+at.Format(time.StampMilli))
			}
		}
		return len(missing) == 0
	})
	return lost
}

// The primary is frozen, the sentinels make another one, the old one wakes up and still takes itself for the primary: workers
// and producers find the new one, everything that was stored before or after runs, nobody is taken for dead, and only what ran
// in that moment runs again.
func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	var running sync.WaitGroup // they mostly wait
	for name, open := range sentinelClients {
		running.Go(func() { t.Run(name, func(t *testing.T) { failsOver(t, open) }) })
	}
	running.Wait()
}

func failsOver(t *testing.T, open func(t *testing.T, addrs []string) driver.Client) {
	rounds, frozen := 1, 5*time.Second
	if os.Getenv("BELAY_LONG") == "1" {
		rounds, frozen = 5, 30*time.Second
	}
	w := newWatchedSite(t)
	h := &history{acked: make(map[string]time.Time), starts: make(map[string][]time.Time)}
	workers := w.workers(open, h)
	pusher, err := client.New(open(t, w.sentinels), client.Config{Prefix: w.prefix})
	require.NoError(t, err)
	producing, stop := context.WithCancel(t.Context())
	var producer sync.WaitGroup
	producer.Go(func() { h.produce(producing, pusher) })
	defer producer.Wait()
	defer stop()
	again := make(map[string]bool)
	for range rounds {
		eventually(t, "some jobs to be run", func() bool { return h.count() > 200 })
		old := w.server
		failed := time.Now()
		old.Stop()
		promoted := w.promoted()
		t.Logf("promoted %v after the primary was frozen", promoted.Sub(failed))
		resumed := h.awaitStart(promoted)
		t.Logf("jobs run again after %v", resumed.Sub(promoted))
		require.Less(t, resumed.Sub(promoted), found)
		time.Sleep(time.Until(failed.Add(frozen)))
		old.Cont()
		woken := time.Now()
		eventually(t, "the old primary to follow", func() bool {
			role, _ := w.on(old).do("ROLE").([]any)
			return role[0] == "slave" && role[3] == "connected"
		})
		settled := time.Now()
		h.awaitStart(settled)
		t.Logf("the old primary followed after %v; stored and lost: %d", settled.Sub(woken), h.rest(t, failed.Add(-replicated), settled))
		h.requireOnce(t, again, failed.Add(-replicated), settled)
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
	require.Len(t, w.set(w.keys.Alive()), len(workers), "somebody was taken for dead")
}

// workers are two, each with a client of its own.
func (w *watchedSite) workers(open func(t *testing.T, addrs []string) driver.Client, h *history) []*launcher.Launcher {
	w.t.Helper()
	var workers []*launcher.Launcher
	for range 2 {
		l, err := launcher.New(launcher.Config{Client: open(w.t, w.sentinels), Prefix: w.prefix, Concurrency: 10})
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

func (h *history) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.starts)
}

// awaitStart waits until a job that was stored after an instant has been begun, and answers when.
func (h *history) awaitStart(after time.Time) (at time.Time) {
	for deadline := time.Now().Add(patience); at.IsZero() && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		h.mu.Lock()
		for n, starts := range h.starts {
			if acked, ok := h.acked[n]; ok && acked.After(after) && (at.IsZero() || starts[0].Before(at)) {
				at = starts[0]
			}
		}
		h.mu.Unlock()
	}
	return at
}

// requireOnce holds that only what ran within a span ran more than once. again are those of rounds before.
func (h *history) requireOnce(t *testing.T, again map[string]bool, from, to time.Time) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	twice := 0
	for n, starts := range h.starts {
		if len(starts) == 1 {
			continue
		}
		twice++
		for _, at := range starts[:len(starts)-1] {
			require.True(t, at.After(from) && at.Before(to), "job %s ran at %v", n, starts)
		}
		require.False(t, again[n])
		again[n] = true
	}
	t.Logf("run more than once: %d of %d", twice, len(h.starts))
}

// forget begins a new round.
func (h *history) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.acked)
	clear(h.starts)
}
