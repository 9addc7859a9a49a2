package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/internal/drivertest"
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
	throughACluster(t, func(t *testing.T, name string) {
		c := newClusterSite(t, name, 0)
		k := c.keyspaces[0]
		a := k.server
		b := c.another(a)
		c.pushMany()
		c.kill()
		c.migrate(c.kill, move{k, b})
		c.kill()
		b = c.failOverByCommand(b)
		c.migrate(c.kill, move{k, a})
		c.primaryDies(a)
		c.kill()
		c.migrate(c.kill, move{k, b})
		c.finish()
	})
}

// Twelve shards lie on the three primaries of a Redis Cluster. The slots of three of them move at once, key by key
// and crosswise, and later back; one primary fails over by command, and one is killed while the slot of a shard moves
// between the two others; and meanwhile workers are killed and replaced. Jobs of each kind are pushed: plain ones,
// ones that fail once, scheduled and unique ones, and batches. The other shards work on. What holds of one keyspace
// that moves holds of each shard; and each job, each lock and each batch is on one shard.
func TestShardsMoveThroughACluster(t *testing.T) {
	t.Parallel()
	throughACluster(t, func(t *testing.T, name string) {
		c := newClusterSite(t, name, 12)
		a, b, d := c.Servers[0], c.Servers[1], c.Servers[2]
		there := []move{{c.on(a)[0], b}, {c.on(b)[0], d}, {c.on(d)[0], a}}
		last := c.on(d)[1] // before another shard comes there
		c.pushMany()
		c.kill()
		c.migrate(c.kill, there...)
		c.kill()
		a = c.failOverByCommand(a)
		c.migrate(func() { c.primaryDies(b) }, move{last, a})
		c.kill()
		b = c.replicas[b]
		c.migrate(c.kill, move{there[0].of, a}, move{there[1].of, b}, move{there[2].of, d}, move{last, d})
		c.finish()
	})
}

// throughACluster runs a test with either client, and again and again in the long mode.
func throughACluster(t *testing.T, test func(t *testing.T, name string)) {
	t.Helper()
	rounds := 1
	if os.Getenv("BELAY_LONG") == "1" {
		rounds = 5
	}
	for name := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range rounds {
				if t.Run("round", func(t *testing.T) { test(t, name) }); t.Failed() {
					return
				}
			}
		})
	}
}

// A clusterSite is a fleet over one keyspace or several shards in a Redis Cluster of three primaries and three
// replicas.
type clusterSite struct {
	*drivertest.Cluster
	t         *testing.T
	site      *site // for the programs: its server is any node
	keyspaces []*clusterSpace
	dirs      map[*drivertest.Server]string
	marks     map[*drivertest.Server]string             // a key of a slot that stays where it is
	replicas  map[*drivertest.Server]*drivertest.Server // by primary, as they were at first
	book      *ledger
	workers   *supervisor
	killed    map[int]killing // workers, by process id
	failover  failover
	lame      map[*clusterSpace]bool // what the killed node served

	mu         sync.Mutex
	stored     map[string]storing // by jid
	duplicates int
	stopPush   func()
}

// A clusterSpace is one of its keyspaces. Its server is the node that serves it.
type clusterSpace struct {
	*site
	name    string // of the shard
	slot    int
	tenure  int
	resting *settlement // when its slot, which moves now, began to, or its node was killed; nil once jobs have run again
}

// A storing is a job that Redis said it has: between what instants it said so of the job, and for a callback of its
// whole batch, and where it is.
type storing struct {
	from, to time.Time
	shard    string
}

func newClusterSite(t *testing.T, name string, shards int) *clusterSite {
	t.Helper()
	args := slices.Concat(steady, stepwise)
	if shards > 0 {
		args = append(args, "--cluster-require-full-coverage", "no") // the other shards work on
	}
	c := &clusterSite{
		Cluster: drivertest.StartCluster(t, 6, args...), t: t, book: newLedger(t), killed: make(map[int]killing),
		dirs: make(map[*drivertest.Server]string), marks: make(map[*drivertest.Server]string), lame: make(map[*clusterSpace]bool),
		replicas: make(map[*drivertest.Server]*drivertest.Server), stored: make(map[string]storing),
	}
	c.site = newSite(t, c.Servers[0])
	c.site.client, c.site.url = name, withPassword(c.URL(), "default")
	if shards == 0 {
		c.site.prefix = "{" + c.site.prefix + "}"
		c.keyspaces = []*clusterSpace{c.space("", c.site.prefix)}
	} else {
		c.site.url += "?shards=" + strconv.Itoa(shards)
		c.spread(shards)
	}
	for i, primary := range c.Servers[:3] {
		c.replicas[primary] = c.Servers[3+i]
	}
	for _, node := range c.Servers {
		c.dirs[node] = dirOf(t, node)
	}
	for primary, replica := range c.replicas {
		for n := 0; c.marks[primary] == ""; n++ {
			key := oracle.TenureKey + strconv.Itoa(n)
			if _, err := primary.Do(t.Context(), "TYPE", key); err == nil && !c.moves(c.Slot(t, key)) {
				c.marks[primary], c.marks[replica] = key, key
			}
		}
	}
	t.Cleanup(c.judge)
	of := check.Config{}
	for _, k := range c.keyspaces {
		of.Shards = append(of.Shards, k.prefix)
	}
	c.site.users = newUsers(t, of, c.Servers...)
	for _, k := range c.keyspaces {
		c.mark(k.server, oracle.Begins(k.prefix, k.tenure))
	}
	worker := buildWorker(t, "./testdata/worker")
	c.workers = c.site.superviseBy(3, func() *process {
		return c.site.launch(worker, "-redis", c.site.url, "-client", name, "-prefix", c.site.prefix, "-c", "8", "-ttl", sessionTTL.String(), "-beat", "500ms", c.book.path)
	})
	return c
}

// steady is for nodes that are not replaced because the machine was busy for a moment.
var steady = []string{"--cluster-node-timeout", "4000"}

// sessionTTL is short enough for a migration to last longer.
const sessionTTL = 3 * time.Second

// space is a keyspace of the site.
func (c *clusterSite) space(shard, prefix string) *clusterSpace {
	k := &clusterSpace{site: c.site.by(c.site.url), name: shard, tenure: 1}
	k.prefix, k.keys = prefix, lua.NewKeys(prefix)
	k.server, k.slot = c.Primary(k.keys.Queues()), c.Slot(c.t, k.keys.Queues())
	return k
}

// spread chooses the prefix of the shards so that each primary has two of them at least: where they lie is chance.
func (c *clusterSite) spread(shards int) {
	for n, base := 0, c.site.prefix; ; n++ {
		c.site.prefix, c.keyspaces = base+strconv.Itoa(n), nil
		for _, shard := range client.Shards(shards) {
			c.keyspaces = append(c.keyspaces, c.space(shard.Name, shard.PrefixIn(c.site.prefix)))
		}
		if !slices.ContainsFunc(c.Servers[:3], func(node *drivertest.Server) bool { return len(c.on(node)) < 2 }) {
			return
		}
	}
}

// moves is whether a slot is that of a keyspace.
func (c *clusterSite) moves(slot int) bool {
	return slices.ContainsFunc(c.keyspaces, func(k *clusterSpace) bool { return k.slot == slot })
}

// on are the keyspaces that a node serves.
func (c *clusterSite) on(node *drivertest.Server) []*clusterSpace {
	return slices.DeleteFunc(slices.Clone(c.keyspaces), func(k *clusterSpace) bool { return k.server != node })
}

// another is another primary than this one.
func (c *clusterSite) another(than *drivertest.Server) *drivertest.Server {
	if than != c.Servers[0] {
		return c.Servers[0]
	}
	return c.Servers[1]
}

func (c *clusterSite) mark(node *drivertest.Server, value string) {
	c.t.Helper()
	_, err := node.Do(c.t.Context(), "SET", c.marks[node], value)
	require.NoError(c.t, err)
}

// producers push ten jobs a second each, at most.
const producers = 3

// pushMany stores jobs until finish is called, as ordinary producers do.
func (c *clusterSite) pushMany() {
	c.t.Helper()
	pusher := c.site.clientOf(check.RoleProducer)
	producing, stop := context.WithCancel(c.t.Context())
	var all sync.WaitGroup
	for first := range producers {
		all.Go(func() {
			for n := first; producing.Err() == nil; n += producers {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(producing), time.Second)
				c.push(ctx, pusher, n)
				cancel()
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	c.stopPush = func() { stop(); all.Wait() }
	c.t.Cleanup(c.stopPush)
	eventually(c.t, "jobs of each shard to end", func() bool {
		ended := c.endedOn()
		return !slices.ContainsFunc(c.keyspaces, func(k *clusterSpace) bool { return ended[k.name] < 3 })
	})
}

// push stores the nth job, or the nth batch. What is not stored for sure is not pushed again. A unique job has a
// duplicate, which comes while the job waits or runs.
func (c *clusterSite) push(ctx context.Context, pusher *client.Client, n int) {
	j, jids := client.RawJob{Class: "Any", ArgsJSON: jsonArgs(n, 300)}, []string{fmt.Sprintf("job-%d", n)}
	switch n % 10 {
	case 1, 2:
		j.In = time.Second
	case 3:
		j.Class = failsOnce
	case 4, 5, 6:
		same := n % 31
		j.ArgsJSON, j.Unique = jsonArgs(same, 300), &dedup.Rule{Until: dedup.UntilExecuted}
		if same%2 == 0 {
			j.ShardKey = fmt.Sprintf("customer %d", same)
		}
		jids = append(jids, jids[0]+"-again")
	case 7:
		c.pushBatch(ctx, pusher, n)
		return
	}
	for _, j.JID = range jids {
		began := time.Now()
		receipt, err := pusher.Push(ctx, j)
		c.note(j.JID, receipt, err, began)
	}
}

// callback is how the jid of a batch's callback ends.
const callback = "-complete"

// pushBatch stores a batch of three members with a callback.
func (c *clusterSite) pushBatch(ctx context.Context, pusher *client.Client, n int) {
	began, id := time.Now(), fmt.Sprintf("batch-%d", n)
	b, err := pusher.NewBatch(ctx, client.BatchConfig{ID: id, OnComplete: client.RawJob{Class: "Any", JID: id + callback}})
	if err != nil {
		return
	}
	var receipt client.Receipt
	for member := range 3 {
		jid := fmt.Sprintf("%s-%d", id, member)
		receipt, err = pusher.Push(ctx, client.RawJob{Class: "Any", ArgsJSON: jsonArgs(n, 300), JID: jid, Batch: b})
		c.note(jid, receipt, err, began)
		if err != nil {
			return
		}
	}
	c.note(id+callback, receipt, b.Seal(ctx), began)
}

func (c *clusterSite) note(jid string, receipt client.Receipt, err error, began time.Time) {
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if receipt.Status == client.StatusDuplicate {
		c.duplicates++
		return
	}
	c.stored[jid] = storing{began, time.Now(), receipt.Shard}
}

// endedOn counts the runs that have ended on each shard.
func (c *clusterSite) endedOn() map[string]int {
	ends := c.book.ends("")
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := make(map[string]int)
	for _, end := range ends {
		if at, known := c.stored[end.JID]; known {
			counts[at.shard]++
		}
	}
	return counts
}

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
			k := killing{settled: make(map[string]settlement)}
			for _, space := range c.keyspaces {
				k.settled[space.name] = space.settled()
			}
			k.at = time.Now()
			c.killed[start.Worker] = k
			_ = syscall.Kill(start.Worker, syscall.SIGKILL)
			return
		}
	}
	require.FailNow(c.t, "no worker lives that has started a job")
}

// A killing is when a worker was killed, and what was settled for sure of what it had ended, by shard.
type killing struct {
	at      time.Time
	settled map[string]settlement
}

// A settlement says which ends of runs have been settled: those before at, but for the jobs that were in hand then.
type settlement struct {
	at     time.Time
	inHand map[string]bool // by jid
}

// rest says that from now on nothing is settled for sure.
func (k *clusterSpace) rest() {
	s := k.settled()
	k.resting = &s
}

// settled is the settlement of now, or of when the keyspace began to rest.
func (k *clusterSpace) settled() settlement {
	k.t.Helper()
	if k.resting != nil {
		return *k.resting
	}
	s := settlement{at: time.Now(), inHand: make(map[string]bool)}
	for _, key := range texts(k.do("KEYS", k.keys.Working("default", "*"))) {
		for _, payload := range k.list(key) {
			j, err := job.Parse(payload)
			require.NoError(k.t, err)
			s.inHand[j.JID()] = true
		}
	}
	return s
}

// A move is that of a keyspace to another node.
type move struct {
	of *clusterSpace
	to *drivertest.Server
}

// migrate moves slots to other nodes at once, key by key, slower than a session lasts. midway is called in the
// middle.
func (c *clusterSite) migrate(midway func(), moves ...move) {
	t := c.t
	t.Helper()
	began, before, most := time.Now(), len(c.book.starts("")), int64(0)
	for _, m := range moves {
		m.of.rest()
		c.mark(m.of.server, oracle.Ends(m.of.prefix, m.of.tenure))
		slot := strconv.Itoa(m.of.slot)
		m.of.site.on(m.to).do("CLUSTER", "SETSLOT", slot, "IMPORTING", m.of.server.Node(t))
		m.of.do("CLUSTER", "SETSLOT", slot, "MIGRATING", m.to.Node(t))
		count, _ := m.of.do("CLUSTER", "COUNTKEYSINSLOT", slot).(int64)
		require.Greater(t, count, int64(8))
		most = max(most, count)
	}
	for moved, left := int64(0), moves; len(left) > 0; moved++ {
		left = slices.DeleteFunc(slices.Clone(left), func(m move) bool { return !m.key(t) })
		time.Sleep((sessionTTL + 2*time.Second) / time.Duration(most)) // the pace of a resharding
		if moved == most/2 {
			midway()
		}
	}
	for _, m := range moves {
		m.of.tenure++
		c.mark(m.to, oracle.Begins(m.of.prefix, m.of.tenure))
		for _, node := range append([]*drivertest.Server{m.to, m.of.server}, c.Servers...) {
			other := m.of.site.on(node)
			if parts, _ := other.do("ROLE").([]any); parts[0] == "master" {
				other.do("CLUSTER", "SETSLOT", strconv.Itoa(m.of.slot), "NODE", m.to.Node(t))
			}
		}
		m.of.site = m.of.site.on(m.to)
	}
	t.Logf("%d slots of at most %d keys moved in %v, in which %d jobs started", len(moves), most, time.Since(began), len(c.book.starts(""))-before)
	var of []*clusterSpace
	for _, m := range moves {
		of = append(of, m.of)
	}
	c.runOn("the migration", of...)
}

// key moves one key of the slot, and reports whether there was one.
func (m move) key(t *testing.T) bool {
	t.Helper()
	host, port, err := net.SplitHostPort(m.to.Addr())
	require.NoError(t, err)
	keys := texts(m.of.do("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(m.of.slot), "1"))
	if len(keys) == 0 {
		return false
	}
	require.Contains(t, []any{"OK", "NOKEY"}, m.of.do("MIGRATE", host, port, keys[0], "0", "10000")) // it may expire just then
	return true
}

// arrived is within what time of the end of a migration work goes on. The promise is two seconds; a machine that is
// busy with other tests needs longer to start the handlers.
func arrived() time.Duration {
	if os.Getenv("BELAY_LONG") == "1" {
		return 2 * time.Second
	}
	return 10 * time.Second
}

// runOn makes sure that jobs of keyspaces start in time, from now on.
func (c *clusterSite) runOn(after string, spaces ...*clusterSpace) {
	c.t.Helper()
	from := time.Now()
	for _, k := range spaces { // a client may have left the shard out of its turns, for half a minute at most
		c.note(k.push("Any", "default", jsonArgs(0, 300)), client.Receipt{Shard: k.name}, nil, from)
	}
	first := make(map[string]time.Time)
	eventually(c.t, "jobs to run after "+after, func() bool {
		starts := c.book.starts("")
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, start := range starts {
			if at, known := c.stored[start.JID]; known && first[at.shard].IsZero() && start.At.After(from) {
				first[at.shard] = start.At
			}
		}
		return !slices.ContainsFunc(spaces, func(k *clusterSpace) bool { return first[k.name].IsZero() })
	})
	for _, k := range spaces {
		k.resting = nil
		c.t.Logf("a job of %s started %v after %s", k.prefix, first[k.name].Sub(from), after)
		require.Less(c.t, first[k.name].Sub(from), arrived(), "after %s", after)
	}
	before := c.endedOn()
	eventually(c.t, "more jobs to run", func() bool {
		now := c.endedOn()
		return !slices.ContainsFunc(spaces, func(k *clusterSpace) bool { return now[k.name] < before[k.name]+20/len(c.keyspaces)+1 })
	})
}

// takeOver waits until another node serves what a node served, and answers what that is.
func (c *clusterSite) takeOver(old *drivertest.Server) (of []*clusterSpace) {
	c.t.Helper()
	for _, k := range c.keyspaces {
		if k.server == old {
			k.site = k.site.on(c.AwaitPrimary(c.t, k.keys.Queues(), old))
			require.Same(c.t, c.replicas[old], k.server)
			of = append(of, k)
		}
	}
	return of
}

// failOverByCommand makes the replica of a node its primary, as for an upgrade.
func (c *clusterSite) failOverByCommand(old *drivertest.Server) *drivertest.Server {
	c.t.Helper()
	c.site.on(c.replicas[old]).do("CLUSTER", "FAILOVER")
	of := c.takeOver(old)
	eventually(c.t, "the old primary to follow", func() bool { return follows(c.t, old) })
	c.runOn("the failover by command", of...)
	return c.replicas[old]
}

// primaryDies kills a node. Its replica takes over, and it comes back as a replica. Meanwhile the keyspaces on other
// nodes that do not rest are worked on.
func (c *clusterSite) primaryDies(old *drivertest.Server) {
	c.t.Helper()
	c.requireOneSlot() // while it counts
	for _, k := range c.keyspaces {
		if k.server == old {
			k.rest()
		}
	}
	f := failover{before: time.Now()}
	old.Kill()
	f.silent = time.Now()
	var others []*clusterSpace
	for _, k := range c.keyspaces {
		switch {
		case k.server == old:
			c.lame[k] = true
		case k.resting == nil:
			others = append(others, k)
		}
	}
	before := c.endedOn()
	of := c.takeOver(old)
	f.switched = time.Now()
	c.failover = f
	now := c.endedOn()
	for _, k := range others {
		require.Greater(c.t, now[k.name], before[k.name], "%s rested while another node was away", k.prefix)
	}
	c.t.Logf("a replica took over %v after its primary was killed", f.switched.Sub(f.silent))
	c.runOn("the failover", of...)
	old.Restart(c.t)
	eventually(c.t, "the killed node to follow", func() bool { return follows(c.t, old) })
}

// finish lets all jobs end, and holds what must hold then.
func (c *clusterSite) finish() {
	c.t.Helper()
	c.stopPush()
	for _, k := range c.keyspaces {
		eventually(c.t, "every job to end", func() bool { return k.waiting() == 0 })
	}
	c.workers.end()
	c.requireAccounted()
	c.requireOneSlot()
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

// lapsed is whether something of a shard happened, from an instant to another, while its node was being killed or
// just before, so that the node that took over may not know it; or, until, later.
func (c *clusterSite) lapsed(shard string, from, to, until time.Time) bool {
	for k := range c.lame {
		if k.name == shard {
			return to.After(c.failover.before.Add(-replicated)) && from.Before(until)
		}
	}
	return false
}

// forgot is lapsed for what the killed node acknowledged.
func (c *clusterSite) forgot(shard string, from, to time.Time) bool {
	return c.lapsed(shard, from, to, c.failover.silent.Add(replicated))
}

// requireAccounted holds that each stored job has been done, and ran again only if it had failed, if its worker was
// killed or if the killed node had not passed on that it had been taken or settled.
func (c *clusterSite) requireAccounted() {
	t := c.t
	t.Helper()
	type attempt struct{ jid, retry string }
	starts, ends := make(map[attempt][]mark), make(map[string]mark) // the latter by run
	done := make(map[string]bool)
	for _, m := range c.book.marks() {
		if m.What == "start" {
			starts[attempt{m.JID, m.RetryCount}] = append(starts[attempt{m.JID, m.RetryCount}], m)
			continue
		}
		ends[m.Run] = m
		done[m.JID] = done[m.JID] || m.Class != failsOnce || m.RetryCount != ""
	}
	lost, twice, batches := 0, 0, 0
	for jid, at := range c.stored {
		if done[jid] && strings.HasSuffix(jid, callback) {
			batches++
		}
		if !done[jid] {
			lost++
			require.True(t, c.forgot(at.shard, at.from, at.to), "job %s of shard %q, stored at %v, is not done", jid, at.shard, at.to)
		}
	}
	for of, runs := range starts {
		shard := c.stored[of.jid].shard
		for i, run := range runs[:len(runs)-1] {
			twice++
			kill, killed := c.killed[run.Worker]
			end, ended := ends[run.Run]
			inHand := killed && run.At.Before(kill.at) && (!ended || kill.settled[shard].inHand[of.jid] || end.At.After(kill.settled[shard].at))
			require.True(t, inHand || c.lapsed(shard, run.At, run.At, c.failover.switched) || ended && c.forgot(shard, end.At, end.At),
				"job %s of shard %q ran at %v, ended at %v, and ran again at %v; its worker was killed at %v, and had settled what had ended at %v",
				of.jid, shard, run.At, end.At, runs[i+1].At, kill.at, kill.settled[shard].at)
		}
	}
	t.Logf("%d jobs stored, %d of them lost; %d duplicates refused, %d batches over; %d workers killed, %d runs repeated", len(c.stored), lost,
		c.duplicates, batches, len(c.killed), twice)
	require.Positive(t, batches)
	require.Positive(t, c.duplicates)
}

// judge lets the oracle judge the histories of the keyspaces, when their workers are gone. A replica whose primary
// fails over to it has all that either has written down.
func (c *clusterSite) judge() {
	if c.t.Failed() {
		return
	}
	var dirs, prefixes []string
	for _, replica := range c.replicas {
		dirs = append(dirs, c.dirs[replica])
	}
	for _, k := range c.keyspaces {
		prefixes = append(prefixes, k.prefix)
	}
	for _, node := range c.Servers {
		node.Kill()
	}
	report, err := oracle.ReplayTenures(dirs, prefixes, oracle.OneFleet(), oracle.MaxInterruptions(programCrashes))
	require.NoError(c.t, err)
	tellViolations(c.t, report)
}
