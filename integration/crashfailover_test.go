package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/internal/drivertest"
)

// crashes is how many primaries are killed one after the other; with BELAY_LONG=1 ten.
func crashes() int {
	if os.Getenv("BELAY_LONG") == "1" {
		return 10
	}
	return 3
}

// The machine of the primary dies, again and again, and one of the sentinels with it: first it is silent, then it
// is gone. A replica takes over, the dead server comes back as its replica. Workers and producers work on within
// the promised time of each election. Nothing lies anywhere in the end, not even a lock; no process was declared
// dead; only what Redis acknowledged in the last moment of a primary may be missing, and only what was taken or
// ended in that moment ran again. What each server wrote down is the lawful history of one keyspace.
func TestPrimariesDieOneAfterTheOther(t *testing.T) {
	t.Parallel()
	for name := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lost := primariesDie(t, name, client.Config{})
			t.Logf("%d jobs were stored and lost", lost)
		})
	}
	t.Run("on both replicas", func(t *testing.T) {
		t.Parallel()
		require.Zero(t, primariesDie(t, "rueidis", client.Config{Replicas: 2}), "jobs that both replicas had")
	})
}

// primariesDie answers how many jobs were lost.
func primariesDie(t *testing.T, name string, cfg client.Config) (lost int) {
	w := newDyingSite(t)
	open := func(w *watchedSite, role check.Role) driver.Client {
		watched := w.by(w.URL())
		watched.client = name
		return watched.driverOf(role)
	}
	cfg.Prefix = w.prefix
	h := newChronicle()
	h.job = variedJob
	workers := w.workers(open, h)
	producing, stop := context.WithCancel(t.Context())
	pusher, err := client.New(open(w.watchedSite, check.RoleProducer), cfg)
	require.NoError(t, err)
	var producer sync.WaitGroup
	producer.Go(func() { h.produce(producing, pusher, 0) })
	defer producer.Wait()
	defer stop()
	var failovers []failover
	for round := range crashes() {
		h.awaitStart(t, time.Now())
		time.Sleep(time.Second + rand.N(time.Second)) // the moment is random, not the end of a wait
		failovers = append(failovers, w.primaryDies(h, round))
	}
	stop()
	producer.Wait()
	eventually(t, "every job to end", func() bool { return w.waiting() == 0 })
	lost = h.requireAccounted(t, failovers)
	require.Empty(t, w.set(w.keys.Dead()))
	require.Empty(t, texts(w.do("KEYS", w.keys.Lock("*"))), "locks that are left")
	require.Empty(t, w.set(w.keys.Unique()))
	for _, l := range workers {
		require.Contains(t, w.set(w.keys.Alive()), l.Identity())
	}
	require.Len(t, w.set(w.keys.Alive()), len(workers), "a process was declared dead")
	return lost
}

// variedJob is mostly a short job, and now and then one of each other kind.
func variedJob(n int) client.RawJob {
	j := client.RawJob{Class: "Any", ArgsJSON: fmt.Sprintf("[%d,50]", n)}
	switch n % 20 {
	case 1:
		j.In = time.Second
	case 2:
		j.Class = failsOnce
	case 3:
		j.Unique = &dedup.Rule{Until: dedup.UntilExecuted}
	case 4:
		j.Unique = &dedup.Rule{Until: dedup.UntilExecuting}
	case 5:
		j.Class, j.Unique = failsOnce, &dedup.Rule{Until: dedup.UntilExecuted}
	}
	if n%200 == 0 { // some are in hand at every instant
		j.ArgsJSON = fmt.Sprintf("[%d,3000]", n)
	}
	return j
}

// A dyingSite is a watchedSite whose servers write down every step.
type dyingSite struct {
	*watchedSite
	dirs map[*drivertest.Server]string
	news switches
}

func newDyingSite(t *testing.T) *dyingSite {
	t.Helper()
	w := &dyingSite{watchedSite: newWatchedSite(t, stepwise...), dirs: make(map[*drivertest.Server]string)}
	for _, server := range w.Servers {
		w.dirs[server] = dirOf(t, server)
	}
	for _, sentinel := range w.Sentinels {
		// It takes longer to elect another primary than the session of a worker lasts by default. When the sentinels
		// disagree they wait for twice the timeout before they elect again.
		_, err := sentinel.Do(t.Context(), "SENTINEL", "SET", drivertest.WatchedName, "failover-timeout", "2000", "down-after-milliseconds", "6000")
		require.NoError(t, err)
	}
	w.news.listen(t, w.sentinels)
	t.Cleanup(func() { // when the workers are gone
		w.server.Kill()
		w.judge(w.server)
	})
	return w
}

// dirOf is a server's directory.
func dirOf(t *testing.T, server *drivertest.Server) string {
	t.Helper()
	reply, err := server.Do(t.Context(), "CONFIG", "GET", "dir")
	require.NoError(t, err)
	return drivertest.Pairs(reply)["dir"]
}

// A failover is when a primary fell silent, and when another one was known. On a busy machine that one may seem
// silent too, and is replaced in turn: switched is when the last one was known, and silent when that was made.
type failover struct{ before, silent, switched time.Time }

// forgot is whether what the old primary acknowledged at an instant may be unknown to the new one.
func (f failover) forgot(at time.Time) bool {
	return at.After(f.before.Add(-replicated)) && at.Before(f.silent.Add(replicated))
}

// primaryDies lets the primary's machine die, and returns when new jobs run and the dead server has come back.
func (w *dyingSite) primaryDies(h *chronicle, round int) failover {
	w.t.Helper()
	old, beside := w.server, w.Sentinels[round%len(w.Sentinels)]
	f := failover{before: time.Now()}
	old.Stop()
	f.silent = time.Now()
	beside.Stop()
	inHand := h.inHand()
	time.Sleep(rand.N(2 * time.Second)) // the sentinels wait for as long, whether a server is silent or gone
	old.Kill()
	beside.Kill()
	f.switched = w.news.awaitFrom(w.t, old, f.silent)
	resumed := h.awaitStart(w.t, f.switched)
	w.t.Logf("%d jobs in hand; another primary is known after %v, new jobs run %v later", inHand,
		f.switched.Sub(f.silent), resumed.Sub(f.switched))
	require.Less(w.t, resumed.Sub(f.switched), found)
	w.judge(old)
	beside.Restart(w.t)
	w.site = w.on(w.AwaitPrimary(w.t, old))
	old.Restart(w.t)
	w.on(old).follow(w.server)
	w.awaitAgreement()
	if again := w.news.after(f.switched, old); !again.IsZero() {
		w.t.Log("the new primary was replaced in turn")
		f.silent, f.switched = again, again
	}
	return f
}

// awaitAgreement waits until the sentinels agree on a primary, which is the site's server from then on, and both
// replicas follow it.
func (w *dyingSite) awaitAgreement() {
	w.t.Helper()
	eventually(w.t, "the sentinels to agree on all servers", func() bool {
		now := w.Primary()
		if now == nil {
			return false
		}
		w.site = w.on(now)
		for _, sentinel := range w.Sentinels {
			facts := asked(sentinel, "SENTINEL", "MASTER", drivertest.WatchedName)
			if facts["flags"] != "master" || net.JoinHostPort(facts["ip"], facts["port"]) != now.Addr() ||
				facts["num-slaves"] != "2" || facts["num-other-sentinels"] != "2" {
				return false
			}
		}
		for _, server := range w.Servers {
			facts := fieldsOf(server)
			if server != now && !follows(w.t, server) || facts["aof_rewrite_in_progress"] != "0" || facts["aof_enabled"] != "1" {
				return false
			}
		}
		return true
	})
}

// judge lets the oracle judge what a dead server has written down, from when it last became a replica.
func (w *dyingSite) judge(server *drivertest.Server) {
	w.t.Helper()
	report, err := oracle.Replay(w.dirs[server], oracle.Prefixes())
	require.NoError(w.t, err)
	tellViolations(w.t, report)
}

// switches are what the sentinels said of new primaries.
type switches struct {
	mu   sync.Mutex
	said []switched
}

// switched is that a sentinel named another primary than from, at an instant.
type switched struct {
	at   time.Time
	from string
}

// listen hears the sentinels until the test ends.
func (s *switches) listen(t *testing.T, sentinels []string) {
	t.Helper()
	var hearing sync.WaitGroup
	t.Cleanup(hearing.Wait)
	for _, addr := range sentinels {
		sentinel := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2})
		said := sentinel.Subscribe(t.Context(), "+switch-master")
		_, err := said.Receive(t.Context()) // that it has subscribed
		require.NoError(t, err)
		hearing.Go(func() {
			for message := range said.Channel() {
				s.mu.Lock()
				if words := strings.Fields(message.Payload); len(words) == 5 { // NAME, the old host and port, the new ones
					s.said = append(s.said, switched{time.Now(), net.JoinHostPort(words[1], words[2])})
				}
				s.mu.Unlock()
			}
		})
		t.Cleanup(func() {
			_ = said.Close()
			_ = sentinel.Close()
		})
	}
}

// awaitFrom waits until a sentinel has named another primary than this one, and answers when the first did.
func (s *switches) awaitFrom(t *testing.T, old *drivertest.Server, since time.Time) (at time.Time) {
	t.Helper()
	eventually(t, "another primary", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, said := range s.said {
			if said.from == old.Addr() && said.at.After(since) {
				at = said.at
				return true
			}
		}
		return false
	})
	return at
}

// after is when a sentinel last named another primary since an instant, but in place of this one; zero for never.
func (s *switches) after(since time.Time, old *drivertest.Server) (at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, said := range s.said {
		if said.from != old.Addr() && said.at.After(since) {
			at = said.at
		}
	}
	return at
}

// asked is the reply of a server as pairs; empty when it gives none in time.
func asked(server *drivertest.Server, words ...string) map[string]string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	reply, _ := server.Do(ctx, words...)
	return drivertest.Pairs(reply)
}

// fieldsOf are the fields of INFO.
func fieldsOf(server *drivertest.Server) map[string]string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	reply, _ := server.Do(ctx, "INFO")
	text, _ := reply.(string)
	facts := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[name] = value
		}
	}
	return facts
}
