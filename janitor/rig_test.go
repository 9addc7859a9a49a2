package janitor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
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

// A rig is a keyspace with one registered process, the victim of most tests. The process is only what Redis
// knows of it: tests take jobs in its name and do not run them.
type rig struct {
	t      *testing.T
	ctx    context.Context
	client driver.Client
	keys   lua.Keys
	record lua.Record
	victim string
	born   int
	log    *drivertest.Buffer
}

// rigTTL is how long a process of the tests lives without a heartbeat: longer than a test takes on a busy machine.
const rigTTL = time.Minute

// patience bounds every wait and every call: far above what anything here takes, so that only a hang fails by it.
const patience = 20 * time.Second

func newRig(t *testing.T, open opener, queues ...string) *rig {
	t.Helper()
	return newRigOn(t, open, drivertest.Redis(t).Addr(), drivertest.Prefix(t), queues...)
}

func newRigOn(t *testing.T, open opener, addr, prefix string, queues ...string) *rig {
	t.Helper()
	r := &rig{
		t: t, ctx: t.Context(), client: open(t, "redis://"+addr), keys: lua.NewKeys(prefix), log: &drivertest.Buffer{},
		record: lua.Record{Queues: queues, Beat: 20 * time.Millisecond, TTL: rigTTL, Concurrency: 10},
	}
	r.enter()
	return r
}

// enter registers the victim anew.
func (r *rig) enter() {
	r.t.Helper()
	r.victim = r.register("victim", r.record)
}

func (r *rig) register(host string, record lua.Record) string {
	r.t.Helper()
	r.born++
	identity := fmt.Sprintf("%s:1:%012x", host, r.born)
	answer, err := r.keys.Register(identity, record).Do(r.ctx, r.client)
	require.NoError(r.t, err)
	require.True(r.t, answer.OK)
	return identity
}

// take takes jobs of the victim's queues in its name.
func (r *rig) take(count int) {
	r.t.Helper()
	taken, err := r.keys.Take(r.victim, r.record.Queues, count, lua.MaxBytes, lua.MaxBytes).Do(r.ctx, r.client)
	require.NoError(r.t, err)
	for _, jobs := range taken.Jobs {
		count -= len(jobs.Bytes)
	}
	require.Zero(r.t, count)
}

// lapse makes a process lapsed at once, as if it had sent no heartbeat for long.
func (r *rig) lapse(identity string) {
	r.t.Helper()
	r.do("ZADD", r.keys.Alive(), "XX", "1", identity)
}

// stay renews the victim's session.
func (r *rig) stay() {
	r.t.Helper()
	reply, err := r.keys.Heartbeat(r.victim, r.record.TTL).Do(r.ctx, r.client)
	require.NoError(r.t, err)
	require.Equal(r.t, lua.StateAlive, reply.State)
}

// A process is the one that a janitor of a test belongs to.
type process struct {
	Identity string
	ttl      time.Duration
}

// newJanitor makes a janitor of another process, which is registered.
func (r *rig) newJanitor() (*Janitor, *process) {
	r.t.Helper()
	record := r.record
	record.Beat, record.TTL, record.Formerly = 20*time.Millisecond, time.Second, ""
	j := New(Config{
		Round: patience, Client: r.client, Keys: r.keys, Log: slog.New(logbook.JSON(r.log, slog.LevelDebug)), Beat: record.Beat, TTL: record.TTL, Between: record.Beat,
		Largest: job.DefaultPayloadLimit + job.PayloadSlack,
	})
	return j, &process{Identity: r.register("janitor", record), ttl: record.TTL}
}

// look gives a janitor the reply to a heartbeat of its process.
func (r *rig) look(j *Janitor, p *process) heartbeat {
	r.t.Helper()
	sent := lua.SinceBoot()
	reply, err := r.keys.Heartbeat(p.Identity, p.ttl).Do(context.Background(), r.client)
	require.NoError(r.t, err)
	j.Look(reply, sent, lua.SinceBoot()-sent)
	return heartbeat{HeartbeatReply: reply, sinceBoot: sent}
}

// watch does the same for a janitor that has known Redis' clock for long.
func (r *rig) watch(j *Janitor, p *process) {
	r.t.Helper()
	j.since = min(j.since, r.look(j, p).sinceBoot-rigTTL)
}

// recover lets a janitor look and follow until a condition holds.
func (r *rig) recover(j *Janitor, p *process, until func() bool) {
	r.t.Helper()
	drivertest.Eventually(r.t, func() bool {
		r.watch(j, p)
		require.NoError(r.t, j.Pass(context.Background(), p.Identity))
		return until()
	}, patience, 20*time.Millisecond)
}

func (r *rig) isTombstoned(identity string) bool {
	return r.do("ZSCORE", r.keys.Tombstones(), identity) != nil
}

func (r *rig) do(words ...string) any {
	r.t.Helper()
	reply := r.client.Do(context.Background(), driver.Command(words...))[0]
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

// crashed is a payload that was in hand in so many crashes.
func crashed(queue string, crashes int) string {
	return strings.TrimSuffix(payload(queue), "}") + fmt.Sprintf(`,"interrupted_count":%d}`, crashes)
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

func (r *rig) working(queue string) []string { return r.list(r.keys.Working(queue, r.victim)) }

func (r *rig) count(key string) string {
	r.t.Helper()
	return fmt.Sprint(r.do("GET", key))
}
