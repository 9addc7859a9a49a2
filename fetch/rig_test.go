package fetch

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

type opener = adapters.Opener

// clients are both ways to Redis, and eachClient runs a test with each.
var (
	clients    = adapters.All
	eachClient = adapters.Each
)

// A rig is one process without processors: the test says what runs and how it ends. Jobs go through a proxy, beats do not.
type rig struct {
	t       *testing.T
	ctx     context.Context
	proxy   *faultproxy.Proxy
	direct  driver.Client
	keys    lua.Keys
	clock   *lua.Clock
	queues  []string
	record  lua.Record
	loop    *Loop
	k       *Keyspace
	session *Session
	running []*Run
	log     *drivertest.Buffer
}

// rigTTL is so long that no session lapses by itself: a test on a busy machine may take long between two heartbeats.
const rigTTL = time.Minute

// rigPatience bounds every wait: far above what anything here takes, so that only a hang fails by it.
const rigPatience = 20 * time.Second

func newRig(t *testing.T, open opener, concurrency int, queues ...string) *rig {
	t.Helper()
	server := drivertest.Redis(t)
	return newRigOn(t, open, server.Addr(), drivertest.Prefix(t), concurrency, queues...)
}

func newRigOn(t *testing.T, open opener, addr, prefix string, concurrency int, queues ...string) *rig {
	t.Helper()
	r := &rig{
		t: t, ctx: t.Context(), proxy: faultproxy.New(t, addr), direct: open(t, "redis://"+addr), keys: lua.NewKeys(prefix),
		clock: &lua.Clock{}, queues: queues, log: &drivertest.Buffer{},
		record: lua.Record{Queues: queues, Beat: rigTTL / 4, TTL: rigTTL, Concurrency: concurrency},
	}
	shares := []Share{{Order: strictly(t, queues...), Concurrency: concurrency}}
	r.open(Space{Client: open(t, r.proxy.URL()), Keys: r.keys, Clock: r.clock}, Config{
		Log: slog.New(logbook.JSON(r.log, slog.LevelDebug)), Shares: shares,
		Largest: job.DefaultPayloadLimit + job.PayloadSlack, CallTimeout: time.Second,
	})
	r.enter()
	return r
}

// strictly is the strict order of these queues.
func strictly(t *testing.T, queues ...string) *QueueOrder {
	t.Helper()
	named := make([]Queue, len(queues))
	for i, queue := range queues {
		named[i].Name = queue
	}
	order, err := NewQueueOrder(named, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	return order
}

// open makes the loop, in whose stead pump turns.
func (r *rig) open(at Space, cfg Config) {
	r.t.Helper()
	r.loop = NewLoop(cfg)
	var err error
	r.k, err = r.loop.Open(at)
	require.NoError(r.t, err)
	r.t.Cleanup(func() {
		r.loop.beQuiet()
		r.pump("the waits to end", func() bool { return r.k.openWaits() == 0 && r.k.inFlight == 0 })
		require.NoError(r.t, r.loop.Close())
	})
}

// finish ends a run.
func (r *rig) finish(run *Run, outcome job.Outcome) { r.loop.end(Result{Run: run, Outcome: outcome}) }

// enter begins a session.
func (r *rig) enter() {
	session, err := Register(context.Background(), context.Background(), r.direct, r.keys, r.clock, "rig", r.record)
	require.NoError(r.t, err)
	r.session = session
	r.k.enter(session)
}

// beat beats once, and looks as a process does after a confirmed beat.
func (r *rig) beat() HeartbeatReply {
	reply := r.heartbeat()
	if reply.State == lua.StateAlive {
		r.k.handleHeartbeat(reply)
	}
	return reply
}

func (r *rig) heartbeat() HeartbeatReply {
	r.t.Helper()
	beat, err := r.session.Beat(context.Background(), r.direct, r.keys, r.clock, r.k.Watched(r.session)...)
	require.NoError(r.t, err)
	return beat
}

// stay renews the lease and does nothing else, where a busy machine may have been at something for as long as that lasts.
func (r *rig) stay() {
	r.t.Helper()
	require.Equal(r.t, lua.StateAlive, r.heartbeat().State)
}

// pump lets the fetcher work until a condition holds. Jobs that become ready are noted as running.
func (r *rig) pump(what string, until func() bool) {
	r.t.Helper()
	r.pumpFor(rigPatience, what, until)
}

func (r *rig) pumpFor(limit time.Duration, what string, until func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		r.running = r.k.startReady(r.running)
		wake := r.loop.turn(time.Now())
		if until() {
			return
		}
		if time.Now().After(deadline) {
			require.FailNow(r.t, "waited in vain for "+what, "log:\n%s", r.log.String())
		}
		pause := 20 * time.Millisecond
		if !wake.IsZero() {
			pause = min(pause, max(time.Until(wake), time.Millisecond))
		}
		select {
		case event := <-r.loop.events:
			r.loop.handle(event)
		case <-time.After(pause):
		}
	}
}

// end ends all runs with one outcome and waits until that is confirmed.
func (r *rig) end(outcome func(*Run) job.Outcome) {
	r.t.Helper()
	for _, held := range r.running {
		r.finish(held, outcome(held))
	}
	r.running = nil
	r.settled()
}

func (r *rig) settled() {
	r.t.Helper()
	r.pump("everything to be settled", func() bool {
		return r.k.ledger.count(finished) == 0 && r.k.ledger.count(unacked) == 0 && r.k.inFlight == 0
	})
}

func done(*Run) job.Outcome { return job.Done() }

func (r *rig) do(words ...string) any {
	r.t.Helper()
	reply := r.direct.Do(context.Background(), driver.Command(words...))[0]
	require.NoError(r.t, reply.Err)
	return reply.Value
}

// push stores jobs as a foreign producer would, and answers their bytes.
func (r *rig) push(queue string, count int) []string {
	r.t.Helper()
	payloads := make([]string, count)
	for i := range payloads {
		payloads[i] = payload(queue)
		r.do("LPUSH", r.keys.Queue(queue), payloads[i])
	}
	return payloads
}

func payload(queue string) string {
	return job.Draft{Class: "Test", Queue: queue, CreatedAt: time.Now(), EnqueuedAt: time.Now()}.Encode()
}

func (r *rig) list(key string) []string {
	r.t.Helper()
	parts, _ := r.do("LRANGE", key, "0", "-1").([]any)
	entries := make([]string, len(parts))
	for i, part := range parts {
		entries[i] = part.(string)
	}
	return entries
}

func (r *rig) working(queue string) []string {
	return r.list(r.keys.Working(queue, r.session.Identity))
}

func (r *rig) count(key string) string {
	r.t.Helper()
	return fmt.Sprint(r.do("GET", key))
}

func bytesOf(held []*Run) []string {
	all := make([]string, len(held))
	for i, h := range held {
		all[i] = h.Bytes
	}
	return all
}
