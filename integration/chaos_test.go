package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	court "github.com/belayq/belay/integration/verdict"
	"github.com/belayq/belay/internal/drivertest"
)

// chaosSpan is how long things go wrong in the ordinary run; with the rest it takes about 40 s.
const chaosSpan = 15 * time.Second

// Workers of both clients and pushers are killed, frozen, stopped and cut off, Redis likewise, and its clock is
// set, all by a plan that one number decides; meanwhile jobs of all kinds are pushed. In the end each job has
// been done or is dead for a reason, none started without a take, too early or, after a kill, too late, and
// every step that Redis wrote down was lawful.
//
// BELAY_SEED is the number; a new one is drawn without it. BELAY_CHAOS is how long things go wrong,
// BELAY_CHAOS_SETTINGS is fast, default or kills, BELAY_SHARDS is over how many shards of the Redis all of them
// work, and BELAY_CHAOS_OUT is a file to which a line of JSON about the run is added.
//
// It runs alone: on a busy machine a healthy process looks dead.
func TestChaos(t *testing.T) {
	seed, err := chaosSeed()
	require.NoError(t, err)
	span := chaosSpan
	if text := os.Getenv("BELAY_CHAOS"); text != "" {
		span, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	name := os.Getenv("BELAY_CHAOS_SETTINGS")
	settings, ok := chaosplan.Named(cmp.Or(name, "fast"), span)
	require.True(t, ok, "BELAY_CHAOS_SETTINGS=%s", name)
	plan := chaosplan.New(seed, settings)
	t.Logf("seed %d, %s settings, plan %s: %d jobs, %d faults in %v; again: BELAY_SEED=%d BELAY_CHAOS=%v BELAY_CHAOS_SETTINGS=%s go test -count=1 -run '^TestChaos$' -v ./integration",
		seed, settings.Name, plan.Digest(), len(plan.Jobs), len(plan.Acts), span, seed, span, settings.Name)
	r := newChaos(t, plan)
	r.rage()
	r.drain()
	r.judge()
}

// chaosSeed is BELAY_SEED, or a new one.
func chaosSeed() (uint64, error) {
	if text := os.Getenv("BELAY_SEED"); text != "" {
		return strconv.ParseUint(text, 10, 64)
	}
	return uint64(time.Now().UnixNano()) % 1_000_000, nil
}

// chaos is one run.
type chaos struct {
	t    *testing.T
	plan *chaosplan.Plan
	// dir has the plan, the histories and the logs, and redis the server's file. It is kept when the test
	// fails.
	dir, redis string
	program    string
	clock      *wallClock
	site       *site
	shards     []*site // its keyspaces; itself without shards
	book       *history.Writer
	began      time.Duration
	workers    []*slot
	pushers    []*slot
	ends       atomic.Int64 // of processes
}

func newChaos(t *testing.T, plan *chaosplan.Plan) *chaos {
	t.Helper()
	r := &chaos{t: t, plan: plan}
	var err error
	r.program, err = chaosWorker()
	require.NoError(t, err)
	r.dir, err = os.MkdirTemp("", "belay-chaos-")
	require.NoError(t, err)
	r.redis = filepath.Join(r.dir, "redis")
	require.NoError(t, os.Mkdir(r.redis, 0o700))
	require.NoError(t, plan.Save(r.dir))
	r.book, err = history.Create(r.dir, "nemesis")
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = r.book.Close()
		if t.Failed() {
			t.Logf("everything that is known of the run is in %s", r.dir)
			return
		}
		_ = os.RemoveAll(r.dir)
	})
	// What it has acknowledged survives it, whenever it is killed.
	r.clock = clocked(t, r.redis, "--appendfsync", "always")
	r.site = siteOf(t, "chaos", r.clock.server)
	r.shards = overShards(r.site, askedShards(t))
	return r
}

// chaosClients are those of even and odd workers and pushers.
var chaosClients = [...]string{"go-redis", "rueidis"}

func (r *chaos) newWorker(n int) *slot {
	return r.newSlot(check.RoleWorker, "w"+strconv.Itoa(n), chaosClients[n%2])
}

func (r *chaos) newPusher(n int) *slot {
	return r.newSlot(check.RoleProducer, "p"+strconv.Itoa(n), chaosClients[n%2], "--push", strconv.Itoa(n), "--began", r.began.String())
}

// pusher says whether a slot's name is that of one.
func (r *chaos) pusher(name string) bool { return strings.HasPrefix(name, "p") }

// rage runs the fleet through the plan.
func (r *chaos) rage() {
	for n := range r.plan.Settings.Workers {
		r.workers = append(r.workers, r.newWorker(n))
	}
	r.phase("chaos")
	r.began = history.Now()
	for n := range r.plan.Settings.Pushers {
		r.pushers = append(r.pushers, r.newPusher(n))
	}
	r.nemesis()
}

func (r *chaos) phase(name string) { r.book.Append(history.Event{Kind: history.Phase, Text: name}) }

const (
	// pushing is how long pushers may need for what they could not push before.
	pushing = 60 * time.Second
	// stopping is how much longer than its shutdown timeout a worker takes to stop at most: three seconds when
	// Redis is away, and the rest is for a busy machine.
	stopping = 15 * time.Second
)

// drain lets a calm fleet, two fresh workers among it, end all that there is to do, and stops it.
func (r *chaos) drain() {
	r.phase("drain")
	for n := range 2 {
		r.workers = append(r.workers, r.newWorker(r.plan.Settings.Workers+n))
	}
	// On a busy machine nothing may have been calm for long enough so far. The first shard has the periodic jobs.
	drivertest.Eventually(r.t, func() bool { return len(r.shards[0].list(r.shards[0].keys.PeriodicRuns(chaosplan.Ticks))) > 0 },
		time.Minute, 50*time.Millisecond, "a periodic job runs")
	r.order("ZADD", r.shards[0].keys.Periodic(), "XX", "+inf", chaosplan.Ticks) // paused: it would never be drained
	for _, p := range r.pushers {
		if !p.ended(pushing) {
			r.t.Errorf("%s does not come to its end", p.name)
		}
	}
	// What was pushed for later while Redis' clock was ahead is due by that clock.
	ahead := r.plan.Ahead()
	r.shift(history.Begin, ahead)
	if r.drained() {
		r.phase("drained")
	} else {
		r.phase("undrained")
	}
	r.shift(history.End, -ahead)
	for _, w := range r.workers {
		w.end(syscall.SIGTERM)
	}
	for _, w := range r.workers {
		if !w.ended(r.plan.Settings.ShutdownTimeout + stopping) {
			r.t.Errorf("%s does not stop", w.name)
			w.end(syscall.SIGKILL)
			w.ended(stopping)
		}
	}
}

// drained waits until no job lies anywhere but among the dead: the time in which the jobs of the killed run
// again, and that of the last retry, and as much as quarantined jobs may have to wait for each other.
func (r *chaos) drained() bool {
	s := r.plan.Settings
	bound := s.Recovery + chaosplan.MaxBackoff + s.Ahead + 30*time.Second + 4*time.Duration(s.Longest*float64(s.TTL))
	for deadline := time.Now().Add(bound); waitingIn(r.shards) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// calm is a plan without jobs and faults.
func calm(*testing.T) *chaosplan.Plan {
	return &chaosplan.Plan{Settings: chaosplan.Fast(0)}
}

// A summary is the line of JSON about a run.
type summary struct {
	Seed       uint64             `json:"seed"`
	Settings   string             `json:"settings"`
	Shards     int                `json:"shards"`
	Plan       string             `json:"plan"`
	Seconds    float64            `json:"seconds"`
	Jobs       map[string]int     `json:"jobs"`
	Faults     int                `json:"faults"`
	Ends       int64              `json:"process_ends"`
	Kills      int                `json:"kills"`
	Steps      int                `json:"oracle_steps"`
	Violations int                `json:"oracle_violations"`
	Lawful     bool               `json:"lawful"`
	Breaches   map[court.Rule]int `json:"breaches,omitempty"`
	Lost       int                `json:"lost"`
	Verdict    string             `json:"verdict"`
}

// write adds the summary to the file that BELAY_CHAOS_OUT names.
func (s *summary) write(t *testing.T) {
	t.Helper()
	path := os.Getenv("BELAY_CHAOS_OUT")
	if path == "" {
		return
	}
	line, err := json.Marshal(s)
	require.NoError(t, err)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	_, err = fmt.Fprintf(file, "%s\n", line)
	require.NoError(t, err)
}
