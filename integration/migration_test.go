package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// The slot of a keyspace moves through a Redis Cluster key by key, for longer than the sessions of the workers last;
// a node fails over by command and one because it was killed; and meanwhile workers are killed. Work rests while the
// slot moves and goes on when it has arrived. No job is lost but for those that the killed node had acknowledged in
// its last moment, and none runs twice but for those that were in the hands of a killed worker. The steps of all
// nodes are the lawful history of one keyspace, and no node was ever asked for keys of two slots.
func TestAKeyspaceMovesThroughACluster(t *testing.T) {
	t.Parallel()
	rounds := 1
	if os.Getenv("BELAY_LONG") == "1" {
		rounds = 5
	}
	for name := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range rounds {
				if t.Run("round", func(t *testing.T) { keyspaceMoves(t, name) }); t.Failed() {
					return
				}
			}
		})
	}
}

func keyspaceMoves(t *testing.T, name string) {
	c := newClusterSite(t, name)
	c.push20aSecond()
	a := c.server
	b := c.Servers[slices.Index(c.Servers, a)+1]
	if slices.Index(c.Servers, a) == 2 { // the third is the last primary
		b = c.Servers[0]
	}
	c.kill()
	c.migrate(b, c.kill)
	c.kill()
	b = c.failOverByCommand()
	c.migrate(a, c.kill)
	c.failover = c.primaryDies()
	c.kill()
	c.migrate(b, c.kill)
	c.stopPushing()
	eventually(t, "every job to end", func() bool { return c.waiting() == 0 })
	c.workers.end()
	c.requireAccounted()
	c.requireOneSlot()
}

// A clusterSite is a keyspace in a Redis Cluster of three primaries and three replicas. Its server is the node that
// serves it.
type clusterSite struct {
	*site
	*drivertest.Cluster
	slot     int
	dirs     map[*drivertest.Server]string
	marks    map[*drivertest.Server]string // a key of a slot that stays where it is
	tenure   int
	replicas map[*drivertest.Server]*drivertest.Server // by primary, as they were at first
	book     *ledger
	workers  *supervisor
	stored   *chronicle
	stopPush func()
	killed   map[int]killing // workers, by process id
	resting  *settlement     // when the slot that moves now began to; nil when none does
	failover failover
}

func newClusterSite(t *testing.T, name string) *clusterSite {
	t.Helper()
	c := &clusterSite{
		Cluster: drivertest.StartCluster(t, 6, slices.Concat(steady, stepwise)...), book: newLedger(t), stored: newChronicle(), killed: make(map[int]killing),
		dirs: make(map[*drivertest.Server]string), marks: make(map[*drivertest.Server]string),
		replicas: make(map[*drivertest.Server]*drivertest.Server),
	}
	s := newSite(t, c.Servers[0])
	s.prefix = "{" + s.prefix + "}"
	s.client, s.url, s.keys = name, c.URL(), lua.NewKeys(s.prefix)
	s.server = c.Primary(s.keys.Queues())
	c.site, c.slot = s, c.Slot(t, s.keys.Queues())
	for i, primary := range c.Servers[:3] {
		c.replicas[primary] = c.Servers[3+i]
	}
	for _, node := range c.Servers {
		c.dirs[node] = dirOf(t, node)
	}
	for primary, replica := range c.replicas {
		for n := 0; c.marks[primary] == ""; n++ {
			key := oracle.TenureKey + strconv.Itoa(n)
			if _, err := primary.Do(t.Context(), "TYPE", key); err == nil && c.Slot(t, key) != c.slot {
				c.marks[primary], c.marks[replica] = key, key
			}
		}
	}
	t.Cleanup(c.judge)
	c.tenure = 1
	c.mark(c.server, oracle.Begins(1))
	words := []string{"-c", "5", "--heartbeat", "500ms", "--ttl", sessionTTL.String(), "--max-interruptions", "50", "--exec", c.book.exec("*")}
	c.workers = s.supervise(3, words...)
	return c
}

// steady is for nodes that are not replaced because the machine was busy for a moment.
var steady = []string{"--cluster-node-timeout", "4000"}

// sessionTTL is short enough for a migration to last longer.
const sessionTTL = 3 * time.Second

func (c *clusterSite) mark(node *drivertest.Server, value string) {
	c.t.Helper()
	_, err := node.Do(c.t.Context(), "SET", c.marks[node], value)
	require.NoError(c.t, err)
}

// push20aSecond stores jobs until stopPushing is called, as an ordinary producer does.
func (c *clusterSite) push20aSecond() {
	c.t.Helper()
	redis, err := adapters.For(c.prefix)[c.client](c.url)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = redis.Close() })
	pusher, err := client.New(redis, client.Config{Prefix: c.prefix})
	require.NoError(c.t, err)
	c.stored.every = 50 * time.Millisecond
	c.stored.job = func(n int) client.RawJob {
		return client.RawJob{Class: "Any", ArgsJSON: jsonArgs(n, 300), JID: jidOf(strconv.Itoa(n))}
	}
	producing, stop := context.WithCancel(c.t.Context())
	var producer sync.WaitGroup
	producer.Go(func() { c.stored.produce(producing, pusher, 0) })
	c.stopPush = func() { stop(); producer.Wait() }
	c.t.Cleanup(c.stopPush)
	eventually(c.t, "jobs to run", func() bool { return len(c.book.ends("")) > 20 })
}

func (c *clusterSite) stopPushing() { c.stopPush() }

// jidOf is the jid of a numbered job.
func jidOf(n string) string { return fmt.Sprintf("%024s", n) }

// kill kills the living worker that has started a job last; another one is started in its place.
func (c *clusterSite) kill() {
	c.t.Helper()
	c.workers.mu.Lock()
	living := make(map[int]bool)
	for _, w := range c.workers.all {
		living[w.pid] = !w.ended()
	}
	c.workers.mu.Unlock()
	for _, start := range slices.Backward(c.book.starts("")) {
		if living[start.Worker] {
			c.killed[start.Worker] = killing{settled: c.settled(), at: time.Now()}
			_ = syscall.Kill(start.Worker, syscall.SIGKILL)
			return
		}
	}
	require.FailNow(c.t, "no worker lives that has started a job")
}

// A killing is when a worker was killed, and what was settled for sure of what it had ended.
type killing struct {
	at      time.Time
	settled settlement
}

// A settlement says which ends of runs have been settled: those before at, but for the jobs that were in hand then.
type settlement struct {
	at     time.Time
	inHand map[string]bool // by jid
}

// settled is the settlement of now, or of when the slot began to move: from then on nothing is settled for sure.
func (c *clusterSite) settled() settlement {
	c.t.Helper()
	if c.resting != nil {
		return *c.resting
	}
	s := settlement{at: time.Now(), inHand: make(map[string]bool)}
	for _, key := range texts(c.do("KEYS", c.keys.Working("default", "*"))) {
		for _, payload := range c.list(key) {
			j, err := job.Parse(payload)
			require.NoError(c.t, err)
			s.inHand[j.JID()] = true
		}
	}
	return s
}

// migrate moves the slot to another node key by key, slower than a session lasts. midway is called in the middle.
func (c *clusterSite) migrate(to *drivertest.Server, midway func()) {
	t, from, slot := c.t, c.server, strconv.Itoa(c.slot)
	t.Helper()
	host, port, err := net.SplitHostPort(to.Addr())
	require.NoError(t, err)
	rests := c.settled()
	c.resting = &rests
	c.mark(from, oracle.Ends(c.tenure))
	other := c.on(to)
	other.do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Node(t))
	c.do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Node(t))
	before := len(c.book.starts(""))
	count, _ := c.do("CLUSTER", "COUNTKEYSINSLOT", slot).(int64)
	require.Greater(t, count, int64(8))
	for moved := 0; ; moved++ {
		keys := texts(c.do("CLUSTER", "GETKEYSINSLOT", slot, "1"))
		if len(keys) == 0 {
			break
		}
		require.Contains(t, []any{"OK", "NOKEY"}, c.do("MIGRATE", host, port, keys[0], "0", "10000")) // it may expire just then
		time.Sleep((sessionTTL + 2*time.Second) / time.Duration(count))                               // the pace of a resharding
		if moved == int(count)/2 {
			midway()
		}
	}
	c.tenure++
	c.mark(to, oracle.Begins(c.tenure))
	for _, node := range append([]*drivertest.Server{to, from}, c.Servers...) {
		if parts, _ := c.on(node).do("ROLE").([]any); parts[0] == "master" {
			c.on(node).do("CLUSTER", "SETSLOT", slot, "NODE", to.Node(t))
		}
	}
	c.site = other
	t.Logf("%d keys moved in %v, in which %d jobs started", count, time.Since(rests.at), len(c.book.starts(""))-before)
	c.runsOn("the migration")
	c.resting = nil
}

// arrived is within what time of the end of a migration work goes on. The promise is two seconds; a machine that is
// busy with other tests needs longer to start the handlers.
func arrived() time.Duration {
	if os.Getenv("BELAY_LONG") == "1" {
		return 2 * time.Second
	}
	return 10 * time.Second
}

// runsOn makes sure that jobs start in time, from now on.
func (c *clusterSite) runsOn(after string) {
	c.t.Helper()
	ended := time.Now()
	var first time.Time
	eventually(c.t, "jobs to run after "+after, func() bool {
		starts := c.book.starts("")
		first = starts[len(starts)-1].At
		return first.After(ended)
	})
	c.t.Logf("a job started %v after %s", first.Sub(ended), after)
	require.Less(c.t, first.Sub(ended), arrived(), "after %s", after)
	before := len(c.book.ends(""))
	eventually(c.t, "more jobs to run", func() bool { return len(c.book.ends("")) > before+20 })
}

// failOverByCommand makes the replica of the node that serves the keyspace its primary, as for an upgrade.
func (c *clusterSite) failOverByCommand() *drivertest.Server {
	c.t.Helper()
	old, replica := c.server, c.replicas[c.server]
	c.on(replica).do("CLUSTER", "FAILOVER")
	c.site = c.on(c.AwaitPrimary(c.t, c.keys.Queues(), old))
	require.Same(c.t, replica, c.server)
	eventually(c.t, "the old primary to follow", func() bool { return follows(c.t, old) })
	c.runsOn("the failover by command")
	return replica
}

// primaryDies kills the node that serves the keyspace. Its replica takes over, and it comes back as a replica.
func (c *clusterSite) primaryDies() failover {
	c.t.Helper()
	old, replica := c.server, c.replicas[c.server]
	c.requireOneSlot() // while it counts
	f := failover{before: time.Now()}
	old.Kill()
	f.silent = time.Now()
	c.site = c.on(c.AwaitPrimary(c.t, c.keys.Queues(), old))
	f.switched = time.Now()
	require.Same(c.t, replica, c.server)
	c.t.Logf("a replica took over %v after its primary was killed", f.switched.Sub(f.silent))
	c.runsOn("the failover")
	old.Restart(c.t)
	eventually(c.t, "the killed node to follow", func() bool { return follows(c.t, old) })
	return f
}

// requireOneSlot holds that no node was ever asked for keys of two slots, by what the nodes count of their errors.
func (c *clusterSite) requireOneSlot() {
	c.t.Helper()
	refused := 0
	for _, node := range c.Servers {
		facts := fieldsOf(node)
		require.NotContains(c.t, facts, "errorstat_CROSSSLOT")
		if facts["errorstat_ASK"] != "" || facts["errorstat_TRYAGAIN"] != "" || facts["errorstat_MOVED"] != "" {
			refused++
		}
	}
	require.Positive(c.t, refused, "no node counts its errors")
}

// requireAccounted holds that each stored job has been done, and ran again only if its worker was killed or if the
// killed node had not passed on that it had been taken or settled.
func (c *clusterSite) requireAccounted() {
	t := c.t
	t.Helper()
	starts, ends := make(map[string][]mark), make(map[string][]mark)
	for _, m := range c.book.marks() {
		where := starts
		if m.What == "end" {
			where = ends
		}
		where[m.JID] = append(where[m.JID], m)
	}
	lost, twice := 0, 0
	for n, at := range c.stored.acked {
		if len(ends[jidOf(n)]) == 0 {
			lost++
			require.True(t, c.failover.forgot(at), "job %s, stored at %v, is not done", n, at)
		}
	}
	for jid, runs := range starts {
		for i, run := range runs[:len(runs)-1] {
			twice++
			kill, killed := c.killed[run.Worker]
			end := slices.IndexFunc(ends[jid], func(m mark) bool { return m.PID == run.PID })
			inHand := killed && run.At.Before(kill.at) && (end < 0 || kill.settled.inHand[jid] || ends[jid][end].At.After(kill.settled.at))
			forgotten := run.At.After(c.failover.before.Add(-replicated)) && run.At.Before(c.failover.switched) ||
				end >= 0 && c.failover.forgot(ends[jid][end].At)
			require.True(t, inHand || forgotten, "job %s ran at %v, and again at %v", jid, run.At, runs[i+1].At)
		}
	}
	t.Logf("%d jobs stored, %d of them lost; %d workers killed, %d runs repeated", len(c.stored.acked), lost, len(c.killed), twice)
}

// judge lets the oracle judge the history of the keyspace, when its workers are gone. A replica whose primary fails
// over to it has all that either has written down.
func (c *clusterSite) judge() {
	if c.t.Failed() {
		return
	}
	var dirs []string
	for _, replica := range c.replicas {
		dirs = append(dirs, c.dirs[replica])
	}
	for _, node := range c.Servers {
		node.Kill()
	}
	report, err := oracle.ReplayTenures(dirs, oracle.Prefix(c.prefix), oracle.MaxInterruptions(50))
	require.NoError(c.t, err)
	tellViolations(c.t, report)
}
