package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

const (
	// awayProcessors is the concurrency of the worker, and awayJob what one of its jobs takes: long enough that
	// a busy machine can keep all processors at work.
	awayProcessors, awayJob = 12, 100 * time.Millisecond
	// awayTick is between two ticks of the periodic job. Several pass within the shortest span.
	awayTick = 2 * time.Second
	// awayRest is how many jobs are kept waiting on each shard.
	awayRest = 50
)

// awayShards are three servers behind proxies, and what happens on them. The first shard has the periodic jobs,
// and is the one that goes away.
type awayShards struct {
	*site   // for the programs: its URL is the list of all
	sites   []*site
	proxies []*faultproxy.Proxy
	book    *ledger
	pusher  *client.Client
	// jids are those of all jobs that are certainly stored, by shard, with those of Ruby.
	mu   sync.Mutex
	jids [3][]string
}

var awayNames = []string{"a", "b", "c"}

// One of three shards is away for a while: silent, and then dead. The processors of the worker all work for the
// two others; pushes go to these; one with a bound key that is on the lost shard fails and names it. Afterwards
// each job of the shard runs once, and of the ticks that have passed one is made up for. BELAY_LONG=1 makes the
// while a minute and compares rates.
func TestAShardIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	span := 10 * time.Second
	long := os.Getenv("BELAY_LONG") == "1"
	if long {
		span = time.Minute
	}
	path := buildWorker(t, "./testdata/worker")
	for _, name := range []string{"go-redis", "rueidis"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAwayShards(t, name)
			worker := s.launch(path, "-redis", s.url, "-prefix", s.prefix, "-client", name, "-c", fmt.Sprint(awayProcessors), "-ttl", "3s", s.book.path)
			_, errs, code := s.belay("periodic", "add", "tick", "@every "+awayTick.String(), "Tick")
			require.Zero(t, code, errs)
			stopFeeding := s.feed(1, 2)
			stopFeedingLost := s.feed(0)
			eventually(t, "jobs and ticks of all shards to run", func() bool {
				return s.ended("a") > 0 && s.ended("b") > 0 && s.ended("c") > 0 && s.ended("Tick") > 0
			})
			bound := s.boundTo("a")
			steady := time.Now()
			time.Sleep(span) // what is compared

			began := time.Now()
			stopFeedingLost()
			s.proxies[0].Add(faultproxy.Rule{On: faultproxy.Requests, Do: faultproxy.Blackhole()})
			s.pushUntil(began.Add(span/2), bound)
			s.sites[0].server.Kill()
			s.proxies[0].CloseConns()
			s.pushUntil(began.Add(span), bound)
			ended := time.Now()
			before, while := s.othersBetween(steady, steady.Add(span)), s.othersBetween(began, began.Add(span))
			t.Logf("jobs of the two others in %v: %d before, and %d while the third was away: %.2f times", span, before, while, float64(while)/float64(before))
			if long {
				require.GreaterOrEqual(t, float64(while), 0.9*float64(before))
			}
			require.Equal(t, awayProcessors, s.mostAtOnce(began, ended), "all processors work for the others")

			s.proxies[0].Clear()
			s.sites[0].server.Restart(t)
			s.awaitTick(ended)
			stopFeeding()
			s.requireEachOnce()
			s.requireCaughtUpOnce(began, ended)
			worker.signal(syscall.SIGTERM)
			require.Zero(t, worker.wait(), worker.log())
		})
	}
}

func newAwayShards(t *testing.T, name string) *awayShards {
	t.Helper()
	s := &awayShards{book: newLedger(t)}
	servers := []*drivertest.Server{audited(t), audited(t), audited(t)}
	of := newSite(t, servers[0], servers[1:]...)
	of.client = name
	var list []string
	for n, server := range servers {
		proxy := faultproxy.New(t, server.Addr())
		s.sites, s.proxies = append(s.sites, of.on(server)), append(s.proxies, proxy)
		list = append(list, awayNames[n]+"="+proxy.URL())
	}
	s.site = of.by(withPassword(strings.Join(list, " "), "default"))
	s.pusher = s.clientOf(check.RoleProducer)
	return s
}

// feed keeps jobs waiting on shards, which their class names, as Ruby would push them. The caller stops it.
func (s *awayShards) feed(shards ...int) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, n := range shards {
				one := s.sites[n]
				waiting, err := one.server.Do(ctx, "LLEN", one.keys.Queue("default"))
				for missing := awayRest - int(toInt(waiting)); err == nil && missing > 0; missing-- {
					jid := newJID()
					payload := rubyPayload(awayNames[n], "default", jsonArgs(0, int(awayJob.Milliseconds())), jid)
					if _, err = one.server.Do(context.WithoutCancel(ctx), "LPUSH", one.keys.Queue("default"), payload); err == nil {
						s.stored(n, jid)
					}
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func toInt(reply any) int64 {
	n, _ := reply.(int64)
	return n
}

func (s *awayShards) stored(shard int, jid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jids[shard] = append(s.jids[shard], jid)
}

// boundTo returns a ShardKey of each shard but this one, and one of it, which is the first.
func (s *awayShards) boundTo(lost string) (keys []string) {
	found := make(map[string]string)
	for n := 0; len(found) < len(awayNames); n++ {
		key := fmt.Sprint("tenant", n)
		receipt, err := s.pusher.Push(s.t.Context(), client.RawJob{Class: "Bound", ShardKey: key})
		require.NoError(s.t, err)
		s.stored(slices.Index(awayNames, receipt.Shard), receipt.JID)
		found[receipt.Shard] = key
	}
	keys = []string{found[lost]}
	delete(found, lost)
	for _, key := range found {
		keys = append(keys, key)
	}
	return keys
}

// pushUntil pushes jobs until an instant, and some at least, while the first shard is away. Those without a
// bound key go to the others; when the client tries the lost shard again, the outcome of that one push may be
// unknown. Bound ones are stored on their shards, or fail.
func (s *awayShards) pushUntil(end time.Time, bound []string) {
	const some = 20
	push := func(j client.RawJob) error {
		receipt, err := s.pusher.Push(s.t.Context(), j)
		if err == nil {
			require.NotEqual(s.t, "a", receipt.Shard)
			s.stored(slices.Index(awayNames, receipt.Shard), receipt.JID)
		}
		return err
	}
	plain, unknown := 0, 0
	for time.Now().Before(end) || plain < some {
		switch err := push(client.RawJob{Class: "Plain"}); {
		case err == nil:
			plain++
		default:
			require.ErrorIs(s.t, err, client.ErrUnknown)
			require.ErrorContains(s.t, err, "shard a:")
			unknown++
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, key := range bound[1:] {
		require.NoError(s.t, push(client.RawJob{Class: "Bound", ShardKey: key}))
	}
	err := push(client.RawJob{Class: "LostBound", ShardKey: bound[0]})
	require.ErrorContains(s.t, err, "shard a:")
	require.NotErrorIs(s.t, err, client.ErrFull)
	// Each failure doubles how long the shard is left out.
	require.LessOrEqual(s.t, unknown, 7, "of %d", plain)
	s.t.Logf("%d pushes went on, and the outcome of %d is unknown", plain, unknown)
}

// ended is how many jobs of a class have ended.
func (s *awayShards) ended(class string) (n int) {
	for _, m := range s.book.ends("") {
		if m.Class == class {
			n++
		}
	}
	return n
}

// othersBetween is how many jobs of the two others ended in a span.
func (s *awayShards) othersBetween(from, to time.Time) (n int) {
	for _, m := range s.book.ends("") {
		if (m.Class == "b" || m.Class == "c") && m.At.After(from) && m.At.Before(to) {
			n++
		}
	}
	return n
}

// mostAtOnce is how many jobs of the two others ran at once, at some instant of the span.
func (s *awayShards) mostAtOnce(from, to time.Time) (most int) {
	running := make(map[string]bool)
	for _, m := range s.book.marks() {
		if m.Class == "a" || m.Class == "Tick" || m.At.After(to) {
			continue
		}
		if m.What == "start" {
			running[m.JID] = true
		} else {
			delete(running, m.JID)
		}
		if m.At.After(from) {
			most = max(most, len(running))
		}
	}
	return most
}

// ticks are the nominal times of the ticks, as the history has them, and when each was enqueued.
func (s *awayShards) ticks() (ticks []awayTicked) {
	s.t.Helper()
	out, errs, code := s.belay("periodic", "history", "tick", "--json")
	require.Zero(s.t, code, errs)
	for lines := json.NewDecoder(strings.NewReader(out)); lines.More(); {
		var tick awayTicked
		require.NoError(s.t, lines.Decode(&tick))
		ticks = append(ticks, tick)
	}
	return ticks
}

type awayTicked struct {
	TickAt time.Time `json:"tick_at"`
	At     time.Time `json:"at"`
}

// awaitTick waits until a tick was enqueued after an instant, and one whose time is after it.
func (s *awayShards) awaitTick(after time.Time) {
	eventually(s.t, "ticks to go on", func() bool {
		return slices.ContainsFunc(s.ticks(), func(tick awayTicked) bool { return tick.TickAt.After(after) })
	})
}

// requireCaughtUpOnce requires that of the ticks whose time passed while the shard was away, at most the last
// was enqueued, and that none was enqueued twice.
func (s *awayShards) requireCaughtUpOnce(began, ended time.Time) {
	seen := make(map[time.Time]bool)
	var late []awayTicked
	for _, tick := range s.ticks() {
		require.False(s.t, seen[tick.TickAt], "the tick of %v was enqueued twice", tick.TickAt)
		seen[tick.TickAt] = true
		if tick.TickAt.After(began) && tick.At.After(ended) && tick.TickAt.Before(ended) {
			late = append(late, tick)
		}
	}
	require.Less(s.t, 2*awayTick, ended.Sub(began), "several ticks have passed")
	require.LessOrEqual(s.t, len(late), 1, "ticks that were made up for: %v", late)
	first := slices.MinFunc(slices.DeleteFunc(s.ticks(), func(tick awayTicked) bool { return tick.At.Before(ended) }),
		func(a, b awayTicked) int { return a.At.Compare(b.At) })
	require.Less(s.t, first.At.Sub(first.TickAt), awayTick+resumed, "the first tick afterwards is the last that had passed")
}

// requireEachOnce requires that each job that is certainly stored runs once, and that no other runs twice.
func (s *awayShards) requireEachOnce() {
	eventually(s.t, "all queues to be empty", func() bool { return waitingIn(s.sites) == 0 })
	starts, ends := make(map[string]int), make(map[string]int)
	for _, m := range s.book.marks() {
		if m.What == "start" {
			starts[m.JID]++
		} else {
			ends[m.JID]++
		}
	}
	for jid, n := range starts {
		require.Equal(s.t, 1, n, "starts of %s", jid)
	}
	for n, jids := range s.jids {
		for _, jid := range jids {
			require.Equal(s.t, 1, ends[jid], "ends of %s on shard %s", jid, awayNames[n])
		}
		s.t.Logf("shard %s: %d jobs, each ran once", awayNames[n], len(jids))
	}
}
