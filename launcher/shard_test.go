package launcher_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
)

var notPermitted = &driver.ServerError{Code: "NOPERM", Message: "NOPERM: something is not permitted"}

// A fleet is two Redis servers with a keyspace each, which workers reach through proxies.
type fleet struct {
	*rig    // shard a
	b       *rig
	proxies []*faultproxy.Proxy
	shards  []launcher.Shard
}

func eachFleet(t *testing.T, test func(t *testing.T, f *fleet)) {
	t.Helper()
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFleet(t, open))
		})
	}
}

func newFleet(t *testing.T, open func(url string) (driver.Client, error)) *fleet {
	t.Helper()
	f := &fleet{}
	for i, server := range []*drivertest.Server{drivertest.Redis(t), drivertest.Start(t)} {
		proxy := faultproxy.New(t, server.Addr())
		client, err := open(proxy.URL())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		r := newRig(t, open, server.URL(), drivertest.Prefix(t))
		f.proxies = append(f.proxies, proxy)
		f.shards = append(f.shards, launcher.Shard{Name: string(rune('a' + i)), Client: client, Prefix: r.prefix})
		f.rig, f.b = f.b, r
	}
	return f
}

// config is that of a worker over both shards.
func (f *fleet) config() launcher.Config {
	cfg := f.rig.config()
	cfg.Client, cfg.Prefix, cfg.Shards = nil, "", f.shards
	return cfg
}

// stall makes the Redis of shard b silent until the returned gate is opened.
func (f *fleet) stall() *faultproxy.Gate {
	gate := faultproxy.NewGate()
	f.t.Cleanup(gate.Open)
	f.proxies[1].Add(faultproxy.Rule{On: faultproxy.Requests, Do: faultproxy.Hold(gate)})
	return gate
}

// identity waits for the only process of the shard and returns its identity.
func (r *rig) identity() (identity string) {
	r.t.Helper()
	r.eventually("a process", func() bool {
		alive := r.set(r.keys.Alive())
		if len(alive) == 1 {
			identity = alive[0]
		}
		return len(alive) == 1
	})
	return identity
}

// processed waits until this many jobs are counted.
func (r *rig) processed(jobs int) {
	r.t.Helper()
	r.eventually(fmt.Sprint(jobs, " jobs"), func() bool { return r.counter(r.keys.Processed()) == fmt.Sprint(jobs) })
}

// tally counts runs by jid.
type tally struct {
	mu   sync.Mutex
	runs map[string]int
}

func (c *tally) run(_ context.Context, j *job.Job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = make(map[string]int)
	}
	c.runs[j.JID()]++
	return nil
}

// requireOnce requires that this many jobs ran, each once.
func (c *tally) requireOnce(t *testing.T, jobs int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Len(t, c.runs, jobs)
	for jid, runs := range c.runs {
		require.Equal(t, 1, runs, jid)
	}
}

func TestAWorkerRunsTheJobsOfAllShards(t *testing.T) {
	t.Parallel()
	eachFleet(t, func(t *testing.T, f *fleet) {
		l := f.build(f.config())
		var ran tally
		l.Handle("Quick", ran.run, launcher.Class{})
		began, free := make(chan string, 1), make(chan struct{})
		l.Handle("Waits", func(_ context.Context, j *job.Job) error { began <- j.JID(); <-free; return nil }, launcher.Class{})
		for range 10 {
			f.push("Quick", "[]")
			f.b.push("Quick", "[]")
		}
		w := f.start(l)
		f.processed(10)
		f.b.processed(10)
		ran.requireOnce(t, 20)

		// To operators they are sessions of one process, each with the runs of its shard.
		f.b.push("Waits", "[]")
		receive(t, "the run in shard b", began)
		processes := make(map[string]bool)
		for _, r := range []*rig{f.rig, f.b} {
			identity := r.identity()
			var info struct{ Process string }
			r.eventually("the record", func() bool {
				text, _ := r.do("HGET", r.keys.Process(identity), "info").(string)
				return json.Unmarshal([]byte(text), &info) == nil
			})
			processes[info.Process] = true
		}
		require.Len(t, processes, 1)
		require.NotContains(t, processes, "")
		require.NotEqual(t, f.identity(), f.b.identity())
		f.b.eventually("the run to be announced", func() bool { return f.b.do("HGET", f.b.keys.Process(f.b.identity()), "busy") == "1" })
		f.eventually("shard a to be announced anew", func() bool { return f.do("HGET", f.keys.Process(f.identity()), "busy") == "0" })
		close(free)
		f.b.processed(11)

		// One count for each class and queue.
		counts := make(map[string]uint64)
		for _, c := range w.Counters().Runs {
			require.NotContains(t, counts, c.Class)
			counts[c.Class] = c.Processed
		}
		require.Equal(t, map[string]uint64{"Quick": 20, "Waits": 1}, counts)
		w.Stop()
		w.wait(t)
		require.Empty(t, f.set(f.keys.Alive()))
		require.Empty(t, f.b.set(f.b.keys.Alive()))
	})
}

func TestAShardThatIsAwayStopsNoOther(t *testing.T) {
	t.Parallel()
	eachFleet(t, func(t *testing.T, f *fleet) {
		l := f.build(f.config())
		var ran tally
		l.Handle("Quick", ran.run, launcher.Class{})
		began, free := make(chan string, 2), make(chan struct{})
		l.Handle("Waits", func(ctx context.Context, j *job.Job) error {
			began <- j.JID()
			<-free
			return ran.run(ctx, j)
		}, launcher.Class{})
		w := f.start(l)
		for range 2 { // half of the processors
			f.b.push("Waits", "[]")
			receive(t, "a run in shard b", began)
		}
		gate := f.stall()
		for range 10 {
			f.b.push("Quick", "[]")
		}
		close(free) // their settles are owed from now on
		for range 50 {
			f.push("Quick", "[]")
		}
		f.processed(50)
		require.Empty(t, f.b.counter(f.b.keys.Processed()))
		f.eventually("the outage to be seen", func() bool { return !w.Ready(t.Context()).OK || w.Ready(t.Context()).Reason != "" })
		found := w.Ready(t.Context())
		require.True(t, found.OK, "it takes the jobs of shard a")
		require.Contains(t, found.Detail, "shard b: ")
		require.True(t, w.Alive(t.Context()).OK)
		gate.Open()
		f.b.processed(12)
		ran.requireOnce(t, 62)
		require.NotContains(t, f.log.String(), "ownership lost")
		f.eventually("both shards to be ready", func() bool { return w.Ready(t.Context()) == launcher.Finding{OK: true} })
	})
}

func TestAWorkerStartsWithTheFirstShardThatAnswers(t *testing.T) {
	t.Parallel()
	eachFleet(t, func(t *testing.T, f *fleet) {
		gate := f.stall()
		cfg := f.config()
		var permitted atomic.Bool
		cfg.Permitted = func(_ context.Context, shard launcher.Shard) error {
			if shard.Name == "b" && !permitted.Load() {
				return notPermitted
			}
			return nil
		}
		l := f.build(cfg)
		var ran tally
		l.Handle("Quick", ran.run, launcher.Class{})
		f.push("Quick", "[]")
		f.b.push("Quick", "[]")
		w := f.start(l)
		f.processed(1)
		found := w.Ready(t.Context())
		require.True(t, found.OK)
		require.Contains(t, found.Detail, "shard b: redis has not answered yet")
		gate.Open() // now it refuses the process
		f.eventually("the refusal", func() bool {
			return strings.Contains(f.log.String(), "not permitted") && strings.Contains(f.log.String(), `"shard":"b"`)
		})
		permitted.Store(true)
		f.b.processed(1)
		ran.requireOnce(t, 2)
	})
}

// A job that was cancelled while the shard refused the process is not started once the process joins.
func TestAShardThatIsJoinedLateHasItsMarksFirst(t *testing.T) {
	t.Parallel()
	eachFleet(t, func(t *testing.T, f *fleet) {
		cfg := f.config()
		cfg.Beat = time.Second // its reply, which names newer marks, comes after the first take
		cancelled := job.Draft{Class: "Quick", Queue: "default", JID: "cancelled", ArgsJSON: "[]", CreatedAt: time.Now().Add(-time.Minute)}.Encode()
		var asked atomic.Int64
		cfg.Permitted = func(_ context.Context, shard launcher.Shard) error {
			if shard.Name == "b" && asked.Add(1) == 1 {
				f.b.do("LPUSH", f.b.keys.Queue("default"), cancelled)
				f.b.mark("cancelled")
				return notPermitted
			}
			return nil
		}
		l := f.build(cfg)
		var ran tally
		l.Handle("Quick", ran.run, launcher.Class{})
		f.start(l)
		f.b.processed(1)
		ran.requireOnce(t, 0)
		require.Contains(t, f.log.String(), "job dropped before its start")
	})
}

// An order to stop that comes through each shard is one order: a running job gets the shutdown timeout.
func TestAnOrderToStopThroughEachShardIsOneOrder(t *testing.T) {
	t.Parallel()
	eachFleet(t, func(t *testing.T, f *fleet) {
		cfg := f.config()
		cfg.ShutdownTimeout = time.Hour
		l := f.build(cfg)
		began, ends, free := handleWaits(l)
		w := f.start(l)
		f.push("Waits", "[]")
		receive(t, "the run", began)
		for _, r := range []*rig{f.rig, f.b} {
			r.do("LPUSH", r.keys.Signals(r.identity()), "TERM")
		}
		f.eventually("both orders", func() bool { return strings.Count(f.log.String(), `"remote control"`) == 2 })
		close(free)
		require.NoError(t, receive(t, "the end of the run", ends), "it was cut")
		w.wait(t)
		f.processed(1)
	})
}

func TestAWorkerStopsWhileAShardHasNotAnswered(t *testing.T) {
	t.Parallel()
	eachFleet(t, func(t *testing.T, f *fleet) {
		f.stall()
		l := f.build(f.config())
		var ran tally
		l.Handle("Quick", ran.run, launcher.Class{})
		f.push("Quick", "[]")
		w := f.start(l)
		f.processed(1)
		w.Stop()
		w.wait(t)
		require.Empty(t, f.set(f.keys.Alive()))
	})
}

func TestRunEndsWithAnErrorIfAllShardsRefuseTheProcess(t *testing.T) {
	t.Parallel()
	f := newFleet(t, openers["go-redis"])
	cfg := f.config()
	cfg.Permitted = func(_ context.Context, shard launcher.Shard) error {
		return fmt.Errorf("%s: %w", shard.Prefix, notPermitted)
	}
	err := f.build(cfg).Run(t.Context())
	require.ErrorContains(t, err, "shard a: "+f.prefix)
	require.ErrorContains(t, err, "shard b: "+f.b.prefix)
}

// handleWaits makes each run of the class Waits send its identity when it begins, and the cause of its end. A
// run ends when its context does, or when free is closed.
func handleWaits(l *launcher.Launcher) (began chan string, ends chan error, free chan struct{}) {
	began, ends, free = make(chan string, 4), make(chan error, 4), make(chan struct{})
	l.Handle("Waits", func(ctx context.Context, _ *job.Job) error {
		info, _ := launcher.Info(ctx)
		began <- info.Identity
		select {
		case <-ctx.Done():
		case <-free:
		}
		ends <- context.Cause(ctx)
		return ctx.Err()
	}, launcher.Class{})
	return began, ends, free
}

// Two shards may have jobs with one jid.
func TestAMarkBindsTheJobsOfItsShardOnly(t *testing.T) {
	t.Parallel()
	eachFleet(t, func(t *testing.T, f *fleet) {
		l := f.build(f.config())
		began, ends, free := handleWaits(l)
		w := f.start(l)
		payload := f.push("Waits", "[]")
		f.b.do("LPUSH", f.b.keys.Queue("default"), payload)
		require.ElementsMatch(t, []string{f.identity(), f.b.identity()}, []string{receive(t, "a run", began), receive(t, "a run", began)})
		f.mark(jidOf(t, payload))
		require.ErrorIs(t, receive(t, "the end of the cancelled run", ends), launcher.ErrCancelled)
		f.processed(1)

		// A job with this mark that waits: only shard a drops it.
		f.do("LPUSH", f.keys.Queue("default"), payload)
		f.eventually("the job to be dropped", func() bool { return strings.Contains(f.log.String(), "job dropped before its start") })
		f.b.do("LPUSH", f.b.keys.Queue("default"), job2(t, payload))
		require.Equal(t, f.b.identity(), receive(t, "a run in shard b", began))
		require.Len(t, w.Running(), 2)
		close(free)
		f.b.processed(2)
		for range 2 {
			require.NoError(t, receive(t, "an end", ends))
		}
	})
}

// job2 returns another payload with the same jid.
func job2(t *testing.T, payload string) string {
	t.Helper()
	parsed, err := job.Parse(payload)
	require.NoError(t, err)
	return parsed.Patch(job.Edit{Name: "copy", JSON: "2"})
}

func TestAProcessThatIsLostInOneShardLivesInTheOther(t *testing.T) {
	t.Parallel()
	eachFleet(t, func(t *testing.T, f *fleet) {
		l := f.build(f.config())
		began, ends, free := handleWaits(l)
		f.start(l)
		lost, kept := f.identity(), f.b.identity()
		payload := f.push("Waits", "[]")
		receive(t, "a run in shard a", began)
		f.b.push("Waits", "[]")
		receive(t, "a run in shard b", began)
		f.declareDead(lost, payload)
		require.ErrorIs(t, receive(t, "the end of the lost run", ends), fetch.ErrOwnershipLost)
		next := receive(t, "the run under the new identity", began)
		require.NotEqual(t, lost, next)
		require.Equal(t, kept, f.b.identity())
		close(free)
		f.processed(1)
		f.b.processed(1)
	})
}

// A process that was killed is declared dead in each shard, and its jobs run again.
func TestTheJobsOfADeadProcessAreRecoveredInEachShard(t *testing.T) {
	t.Parallel()
	eachFleet(t, func(t *testing.T, f *fleet) {
		var jids []string
		for _, r := range []*rig{f.rig, f.b} {
			dead, err := fetch.Register(context.Background(), t.Context(), r.client, r.keys, &lua.Clock{}, "dead", lua.Record{
				Queues: []string{"default"}, Beat: 50 * time.Millisecond, TTL: 200 * time.Millisecond, Concurrency: 1,
			})
			require.NoError(t, err)
			payload := r.push("Quick", "[]")
			r.do("LMOVE", r.keys.Queue("default"), r.keys.Working("default", dead.Identity), "RIGHT", "LEFT")
			jids = append(jids, jidOf(t, payload))
		}
		cfg := f.config()
		cfg.Beat, cfg.TTL = 100*time.Millisecond, 4*time.Second
		l := f.build(cfg)
		var ran tally
		l.Handle("Quick", ran.run, launcher.Class{})
		w := f.start(l)
		f.processed(1)
		f.b.processed(1)
		ran.requireOnce(t, 2)
		for _, jid := range jids {
			require.Contains(t, ran.runs, jid)
		}
		require.Equal(t, uint64(2), w.Counters().Recovered)
	})
}
