package driver_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
)

// A seeker is a client with a lane and a waiter that must find the server of its keys again and again. It
// counts in a key of its own.
type seeker struct {
	name, key    string
	client, lane driver.Client
	waiter       driver.Waiter
	counted      int
	doubtful     int // calls whose reply was lost
}

func newSeeker(t *testing.T, name, prefix string, client driver.Client) *seeker {
	t.Helper()
	w := &world{}
	s := &seeker{name: name, key: prefix + ":" + name, client: client, lane: w.lane(t, client, 1)}
	s.waiter = w.waiter(t, s.lane)
	return s
}

// count counts once with the client and once with the lane, in a script, and has the waiter move an entry. It
// reports whether all succeeded. Each failure is one that waiting cures, and a redirection is one that is
// certain.
func (s *seeker) count(t *testing.T) bool {
	t.Helper()
	ok := true
	note := func(err error) {
		if err == nil {
			return
		}
		ok = false
		require.True(t, driver.Outage(err), "%s: %v", s.name, err)
	}
	for _, client := range []driver.Client{s.client, s.lane} {
		switch err := client.Do(t.Context(), driver.Call{Script: counting(s.key, "seek"), Keys: []string{s.key}})[0].Err; {
		case err == nil:
			s.counted++
		case !driver.Certain(err):
			s.doubtful++
			note(err)
		default:
			note(err)
		}
	}
	_, _, err := s.waiter.Wait(t.Context(), s.key+":from", s.key+":to", time.Millisecond)
	note(err)
	return ok
}

// at returns what the server has counted. A failover may lose counts, but none is there twice.
func (s *seeker) at(t *testing.T, server *drivertest.Server) int {
	t.Helper()
	value, err := server.Do(t.Context(), "GET", s.key)
	require.NoError(t, err, s.name)
	text, _ := value.(string)
	n, _ := strconv.Atoi(text)
	require.LessOrEqual(t, n, s.counted+s.doubtful, "%s: a call was executed twice", s.name)
	return n
}

// find waits until every connection of every seeker is at the server.
func find(t *testing.T, seekers []*seeker, server *drivertest.Server) {
	t.Helper()
	for _, s := range seekers {
		began := time.Now()
		drivertest.Eventually(t, func() bool {
			before := s.at(t, server)
			return s.count(t) && s.at(t, server) == before+2
		}, 30*time.Second, 20*time.Millisecond, s.name)
		t.Logf("%s is there after %v", s.name, time.Since(began).Round(time.Millisecond))
	}
}

// A primary that is replaced, frozen or killed is left, by every connection of both clients and of users' own
// Sentinel clients.
func TestClientsFollowSentinels(t *testing.T) {
	t.Parallel()
	servers := drivertest.StartSentinel(t)
	var seekers []*seeker
	for name, open := range adapters.All {
		seekers = append(seekers, newSeeker(t, name, "s", open(t, servers.URL()+"?client_name=seeker")))
	}
	addrs := make([]string, len(servers.Sentinels))
	for i, sentinel := range servers.Sentinels {
		addrs[i] = sentinel.Addr()
	}
	users := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: drivertest.WatchedName, SentinelAddrs: addrs})
	defer func() { require.NoError(t, users.Close()) }()
	own, err := rueidisdriver.New(rueidis.ClientOption{InitAddress: addrs, Sentinel: rueidis.SentinelOption{MasterSet: drivertest.WatchedName}})
	require.NoError(t, err)
	defer func() { require.NoError(t, own.Close()) }()
	seekers = append(seekers, newSeeker(t, "rueidis' own", "s", own))
	ours := len(seekers)
	seekers = append(seekers, newSeeker(t, "go-redis' own", "s", goredisdriver.New(users)))

	find(t, seekers, servers.Primary())
	servers.Sentinels[0].Stop() // a silent one costs a share of the time
	now := servers.Primary()
	_, err = servers.Sentinels[1].Do(t.Context(), "SENTINEL", "FAILOVER", drivertest.WatchedName)
	require.NoError(t, err)
	now = servers.AwaitPrimary(t, now)
	find(t, seekers[:ours], now)
	servers.Sentinels[0].Cont()
	find(t, seekers[ours:], now) // go-redis' own asks none but the frozen one, if that is the one that it has chosen

	now.Stop()
	next := servers.AwaitPrimary(t, now)
	now.Cont()
	drivertest.Eventually(t, func() bool { return slices.Index([]any{"slave"}, role(now)) == 0 }, 30*time.Second, 20*time.Millisecond, "the old primary follows")
	find(t, seekers, next)
}

// role returns the role of a server, nil if it does not answer.
func role(server *drivertest.Server) any {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	reply, _ := server.Do(ctx, "ROLE")
	if parts, _ := reply.([]any); len(parts) > 0 {
		return parts[0]
	}
	return nil
}

// The slot of the prefix fails over, is frozen, moves to another primary key by key, and the only node of the
// URL goes: every connection is at the right node soon, and no redirection is followed.
func TestClientsFollowACluster(t *testing.T) {
	t.Parallel()
	const prefix = "{shop}"
	cluster := drivertest.StartCluster(t, 6)
	owner := cluster.AwaitPrimary(t, prefix, nil)
	// The URL names a node that never serves the slot.
	seed := cluster.Servers[slices.IndexFunc(cluster.Servers, func(s *drivertest.Server) bool { return s != owner && role(s) == "master" })]
	var seekers []*seeker
	for name, open := range adapters.For(prefix) {
		client, err := open("redis+cluster://" + seed.Addr())
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close()) }()
		seekers = append(seekers, newSeeker(t, name, prefix, client))
	}
	find(t, seekers, owner)

	replica := cluster.Servers[slices.IndexFunc(cluster.Servers, func(s *drivertest.Server) bool { return follows(s, owner) })]
	drivertest.Eventually(t, func() bool { _, err := replica.Do(t.Context(), "CLUSTER", "FAILOVER"); return err == nil }, 30*time.Second, 100*time.Millisecond)
	next := cluster.AwaitPrimary(t, prefix, owner)
	require.Same(t, replica, next)
	find(t, seekers, next)

	next.Stop()
	again := cluster.AwaitPrimary(t, prefix, next)
	find(t, seekers, again)
	next.Cont()
	drivertest.Eventually(t, func() bool { return role(next) == "slave" }, 30*time.Second, 20*time.Millisecond, "the old primary follows")

	moveSlot(t, cluster, prefix, again, seed, seekers)
	find(t, seekers, seed)

	// The clients know the other nodes by now.
	other := cluster.Servers[slices.IndexFunc(cluster.Servers, func(s *drivertest.Server) bool { return follows(s, seed) })]
	seed.Kill()
	last := cluster.AwaitPrimary(t, prefix, seed)
	require.Same(t, other, last)
	find(t, seekers, last)
}

// follows reports whether a server is a replica of another one.
func follows(server, primary *drivertest.Server) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	reply, _ := server.Do(ctx, "ROLE")
	_, port, _ := net.SplitHostPort(primary.Addr())
	parts, _ := reply.([]any)
	return len(parts) > 2 && parts[0] == "slave" && strconv.FormatInt(asInt(parts[2]), 10) == port
}

func asInt(v any) int64 { n, _ := v.(int64); return n }

// moveSlot moves the slot of a prefix from one primary to another, and checks what is refused meanwhile.
func moveSlot(t *testing.T, cluster *drivertest.Cluster, prefix string, from, to *drivertest.Server, seekers []*seeker) {
	t.Helper()
	slot := strconv.Itoa(cluster.Slot(t, prefix))
	do := func(server *drivertest.Server, words ...string) any {
		value, err := server.Do(t.Context(), words...)
		require.NoError(t, err)
		return value
	}
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.Node(t))
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.Node(t))
	both := driver.NewScript("both", "#!lua\nreturn redis.call('EXISTS', KEYS[1], KEYS[2])")
	for _, s := range seekers {
		for code, keys := range map[string][]string{"ASK": {prefix + ":gone"}, "TRYAGAIN": {s.key, prefix + ":gone"}} {
			words := append([]string{"EXISTS"}, keys...)
			calls := []driver.Call{driver.Command(words...)}
			if code == "TRYAGAIN" {
				calls = append(calls, driver.Call{Script: both, Keys: keys})
			}
			for _, reply := range s.client.Do(t.Context(), calls...) {
				var refused *driver.ServerError
				require.ErrorAs(t, reply.Err, &refused)
				require.Equal(t, code, refused.Code)
				require.True(t, driver.Certain(reply.Err))
				require.True(t, driver.Outage(reply.Err))
				require.Empty(t, driver.Denial(reply.Err))
			}
		}
	}
	host, port, err := net.SplitHostPort(to.Addr())
	require.NoError(t, err)
	for _, s := range seekers {
		do(from, "MIGRATE", host, port, s.key, "0", "5000")
		refused := s.client.Do(t.Context(), driver.Command("INCR", s.key))[0].Err
		require.ErrorContains(t, refused, "ASK ")
	}
	for _, node := range []*drivertest.Server{to, from} {
		do(node, "CLUSTER", "SETSLOT", slot, "NODE", to.Node(t))
	}
	// The first one is refused by the old node, which is left then.
	for _, s := range seekers {
		refused := s.client.Do(t.Context(), driver.Command("GET", s.key))[0].Err
		require.ErrorContains(t, refused, "MOVED ")
		require.True(t, driver.Certain(refused) && driver.Outage(refused))
	}
}

// Sentinels and servers want passwords, which are different ones. Clients give the sentinels theirs, as the default
// user or as one that may ask for the primary and do nothing else, and follow a failover. A wrong one, or none, is a
// denial that says so and shows no password.
func TestSentinelsThatWantAPassword(t *testing.T) {
	t.Parallel()
	servers := drivertest.StartSentinel(t)
	const ofServers, ofSentinels, ofFinder = "S3cretOfServers", "S3cretOfSentinels", "S3cretOfFinder"
	do := func(server *drivertest.Server, words ...string) {
		_, err := server.Do(t.Context(), words...)
		require.NoError(t, err, words[0])
	}
	for _, sentinel := range servers.Sentinels {
		do(sentinel, "SENTINEL", "SET", drivertest.WatchedName, "auth-pass", ofServers)
		do(sentinel, "SENTINEL", "CONFIG", "SET", "sentinel-pass", ofSentinels)
		do(sentinel, "ACL", "SETUSER", "finder", "on", ">"+ofFinder, "-@all", "+sentinel|get-master-addr-by-name")
		do(sentinel, "ACL", "SETUSER", "default", "resetpass", ">"+ofSentinels)
	}
	for _, server := range servers.Servers {
		do(server, "CONFIG", "SET", "masterauth", ofServers)
		do(server, "CONFIG", "SET", "requirepass", ofServers)
	}
	file := func(password string) string {
		name := filepath.Join(t.TempDir(), "password")
		require.NoError(t, os.WriteFile(name, []byte(password+"\n"), 0o600))
		return name
	}
	withPassword := strings.Replace(servers.URL(), "://", "://:"+ofServers+"@", 1)
	open := func(name, query string) driver.Client { return adapters.All[name](t, withPassword+query) }
	var clients []driver.Client
	for name := range adapters.All {
		clients = append(clients, open(name, "?sentinel_password_file="+file(ofSentinels)), open(name, "?sentinel_user=finder&sentinel_password_file="+file(ofFinder)))
		for _, query := range []string{"", "?sentinel_password_file=" + file("wrong"), "?sentinel_user=finder&sentinel_password_file=" + file(ofSentinels)} {
			err := open(name, query).Do(t.Context(), driver.Command("PING"))[0].Err
			require.NotEmpty(t, driver.Denial(err), "%s %s: %v", name, query, err)
			require.ErrorContains(t, err, "by its sentinels")
			require.NotContains(t, err.Error()+driver.Denial(err), "S3cret")
		}
	}
	at := func(client driver.Client) string { // the address of the server, if it is a primary
		replies := client.Do(t.Context(), driver.Command("SET", "k", "v"), driver.Command("CLIENT", "INFO"))
		info, _ := replies[1].Value.(string)
		_, addr, _ := strings.Cut(info, " laddr=")
		addr, _, _ = strings.Cut(addr, " ")
		if replies[0].Err != nil {
			return ""
		}
		return addr
	}
	first := servers.Servers[0].Addr()
	for _, client := range clients {
		require.Equal(t, first, at(client))
	}
	sentinel := adapters.All["go-redis"](t, "redis://:"+ofSentinels+"@"+servers.Sentinels[0].Addr())
	drivertest.Eventually(t, func() bool {
		return sentinel.Do(t.Context(), driver.Command("SENTINEL", "FAILOVER", drivertest.WatchedName))[0].Err == nil
	}, 30*time.Second, 100*time.Millisecond, "a sentinel agrees to fail over")
	for _, client := range clients {
		drivertest.Eventually(t, func() bool { addr := at(client); return addr != "" && addr != first }, 30*time.Second, 20*time.Millisecond)
	}
}

// The node that takes in a slot dies while the slot moves key by key. Its replica knows nothing of the migration, so
// the keyspace rests, with refusals that are certain, until an operator has made the replica the new target. Nothing
// that had reached the replica is lost.
func TestTheTargetOfAMigrationDies(t *testing.T) {
	t.Parallel()
	const prefix, keys = "{shop}", 8
	cluster := drivertest.StartCluster(t, 6)
	from := cluster.AwaitPrimary(t, prefix, nil)
	to := cluster.Servers[slices.IndexFunc(cluster.Servers, func(s *drivertest.Server) bool { return s != from && role(s) == "master" })]
	replica := cluster.Servers[slices.IndexFunc(cluster.Servers, func(s *drivertest.Server) bool { return follows(s, to) })]
	slot := strconv.Itoa(cluster.Slot(t, prefix))
	do := func(server *drivertest.Server, words ...string) any {
		value, err := server.Do(t.Context(), words...)
		require.NoError(t, err)
		return value
	}
	for n := range keys {
		do(from, "SET", prefix+strconv.Itoa(n), "kept")
	}
	clients := map[string]driver.Client{}
	all := make([]driver.Call, keys)
	for n := range keys {
		all[n] = driver.Command("GET", prefix+strconv.Itoa(n))
	}
	for name, open := range adapters.For(prefix) {
		client, err := open("redis+cluster://" + from.Addr())
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close()) }()
		clients[name] = client
		require.NoError(t, client.Do(t.Context(), all[0])[0].Err)
	}
	move := func(target *drivertest.Server, most int) {
		do(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.Node(t))
		drivertest.Eventually(t, func() bool { // it learns a moment later that the target is a primary now
			_, err := from.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "MIGRATING", target.Node(t))
			return err == nil
		}, 30*time.Second, 20*time.Millisecond)
		host, port, err := net.SplitHostPort(target.Addr())
		require.NoError(t, err)
		for range most {
			left, _ := do(from, "CLUSTER", "GETKEYSINSLOT", slot, "1").([]any)
			if len(left) == 0 {
				return
			}
			do(from, "MIGRATE", host, port, left[0].(string), "0", "10000")
		}
	}
	move(to, keys/2)
	drivertest.Eventually(t, func() bool { // else the last keys are nowhere: the one node has sent them, and the other is dead
		return do(replica, "CLUSTER", "COUNTKEYSINSLOT", slot) == int64(keys/2)
	}, 30*time.Second, 20*time.Millisecond)
	to.Kill()
	drivertest.Eventually(t, func() bool { return role(replica) == "master" }, time.Minute, 20*time.Millisecond, "the replica takes over")
	for name, client := range clients {
		refused := 0
		for _, reply := range client.Do(t.Context(), all...) {
			if reply.Err != nil {
				refused++
				require.True(t, driver.Outage(reply.Err) && driver.Certain(reply.Err), "%s: %v", name, reply.Err)
			}
		}
		require.GreaterOrEqual(t, refused, keys/2, name)
	}

	move(replica, keys)
	for _, node := range []*drivertest.Server{replica, from} {
		do(node, "CLUSTER", "SETSLOT", slot, "NODE", replica.Node(t))
	}
	for name, client := range clients {
		drivertest.Eventually(t, func() bool {
			for _, reply := range client.Do(t.Context(), all...) {
				if reply.Value != "kept" {
					return false
				}
			}
			return true
		}, 30*time.Second, 20*time.Millisecond, name)
	}
}
