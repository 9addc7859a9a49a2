package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// healthy is a Redis of which nothing can be said.
func healthy() *facts {
	return &facts{
		cfg:         Config{Prefix: "app"}.withDefaults(),
		trips:       []trip{{200 * time.Microsecond, 0}, {100 * time.Microsecond, 0}, {time.Second, 0}},
		Permissions: Permissions{permissions: permissions{user: "worker", known: true}},
		info: map[string]string{
			"redis_version": "7.0.15", "role": "master", "connected_slaves": "0", "cluster_enabled": "0", "loading": "0",
			"maxmemory_policy": "noeviction", "maxmemory": "1000000000", "used_memory": "1000000", "total_system_memory": "4000000000",
			"aof_enabled": "1", "rdb_last_bgsave_status": "ok", "aof_last_write_status": "ok", "connected_clients": "10", "maxclients": "10000",
		},
		config: map[string]string{
			"appendonly": "yes", "appendfsync": "everysec", "save": "", "stop-writes-on-bgsave-error": "yes",
			"min-replicas-to-write": "0", "min-replicas-max-lag": "10", "maxmemory-policy": "noeviction", "timeout": "0",
			"tcp-keepalive": "300", "proto-max-bulk-len": "536870912", "client-query-buffer-limit": "1073741824",
			"client-output-buffer-limit": "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
		},
	}
}

// finding is that of a name; a Finding without a severity if there is none.
func (f Findings) finding(name string) Finding {
	for _, finding := range f {
		if finding.Name == name {
			return finding
		}
	}
	return Finding{}
}

func TestCheckOfAHealthyRedisFindsNothing(t *testing.T) {
	t.Parallel()
	findings := healthy().findings()
	require.Equal(t, SeverityOK, findings.Worst(), "%+v", findings)
	require.Equal(t, len(findings), findings.Count(SeverityOK))
	for _, finding := range findings {
		require.NotEmpty(t, finding.Found, finding.Name)
		require.Empty(t, finding.Advice, finding.Name)
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	info := func(pairs ...string) func(*facts) {
		return func(f *facts) {
			for i := 0; i < len(pairs); i += 2 {
				f.info[pairs[i]] = pairs[i+1]
			}
		}
	}
	config := func(pairs ...string) func(*facts) {
		return func(f *facts) {
			for i := 0; i < len(pairs); i += 2 {
				f.config[pairs[i]] = pairs[i+1]
			}
		}
	}
	denied := func(commands ...string) func(*facts) {
		return func(f *facts) {
			for _, n := range needs(lua.NewKeys("app"), sampleOf(f.cfg.Queues, "host:1:aa")) {
				for _, command := range commands {
					if n.command == command {
						f.permissions.denied = append(f.permissions.denied, n)
					}
				}
			}
		}
	}
	refusal := func(text string) error { return driver.NewServerError(text) }
	noperm := refusal("NOPERM this user has no permissions")
	ahead := func(by time.Duration) func(*facts) {
		return func(f *facts) { f.trips = []trip{{time.Second, 0}, {10 * time.Millisecond, by}} }
	}
	both := func(changes ...func(*facts)) func(*facts) {
		return func(f *facts) {
			for _, change := range changes {
				change(f)
			}
		}
	}
	blind := func(f *facts) { f.config = nil }
	for _, c := range []struct {
		promise string
		change  func(*facts)
		name    string
		want    Severity // none: nothing is said
		says    string
	}{
		{"no password", func(f *facts) { f.refused = driver.NewServerError("NOAUTH Authentication required.") }, "access", SeverityBad, "wants a password"},
		{"a wrong password", func(f *facts) { f.refused = driver.NewServerError("WRONGPASS no") }, "access", SeverityBad, "user and password"},
		{"no such database", func(f *facts) { f.refused = driver.NewServerError("ERR DB index is out of range") }, "access", SeverityBad, "DB index"},
		{"too many clients", func(f *facts) { f.refused = driver.NewServerError("ERR max number of clients reached") }, "access", SeverityBad, "no more connections"},

		{"Redis 7", info(), "version", SeverityOK, "7.0.15"},
		{"Redis 6", info("redis_version", "6.2.14"), "version", SeverityBad, "too old"},
		{"Redis 10", info("redis_version", "10.0"), "version", SeverityOK, "10.0"},
		{"Valkey", info("server_name", "valkey", "valkey_version", "8.1.0", "redis_version", "7.2.4"), "version", SeverityOK, "Valkey 8.1.0"},
		{"KeyDB", info("mvcc_depth", "0", "redis_version", "6.3.4"), "version", SeverityBad, "KeyDB 6.3.4"},
		{"Dragonfly", info("dragonfly_version", "df-1.30", "redis_version", "7.4.0"), "version", SeverityWarn, "acl_check_cmd"},
		{"a version without INFO", func(f *facts) { f.info, f.version = nil, "7.2.4" }, "version", SeverityOK, "7.2.4"},
		{"no version", func(f *facts) { f.info = nil }, "version", SeverityWarn, "cannot see"},

		{"an unverified certificate", func(f *facts) { f.unverified = true }, "certificate", SeverityWarn, "skip_verify"},
		{"no TLS, or a verified certificate", info(), "certificate", "", ""},

		{"a replica", info("role", "slave", "master_host", "10.0.0.1", "master_port", "6379"), "role", SeverityBad, "read-only replica of 10.0.0.1:6379"},
		{"a writable replica", info("role", "slave", "slave_read_only", "0"), "role", SeverityBad, "lost"},
		{"loading", info("loading", "1"), "role", SeverityBad, "loading"},
		{"no role", info("role", ""), "role", "", ""},

		{"a Cluster", info("cluster_enabled", "1"), "cluster", SeverityBad, "hash tag"},
		{"a Cluster by its answer", func(f *facts) { f.info, f.key = nil, refusal("MOVED 1 h:1") }, "cluster", SeverityBad, "hash tag"},
		{"a Cluster and a tag", both(info("cluster_enabled", "1"), func(f *facts) { f.cfg.Prefix = "{app}" }), "cluster", SeverityOK, "one slot"},
		{"a Cluster and an empty tag", both(info("cluster_enabled", "1"), func(f *facts) { f.cfg.Prefix = "{}app}" }), "cluster", SeverityBad, "hash tag"},
		{"a slot elsewhere", both(info("cluster_enabled", "1"), func(f *facts) { f.cfg.Prefix, f.key = "{app}", refusal("MOVED 1 10.0.0.9:1") }), "cluster", SeverityBad, "10.0.0.9:1"},
		{"a Cluster that is down", both(info("cluster_enabled", "1"), func(f *facts) { f.cfg.Prefix, f.key = "{app}", refusal("CLUSTERDOWN Hash slot not served") }), "cluster", SeverityBad, "not served"},

		{"no EVALSHA", func(f *facts) { f.byAddress = noperm }, "scripts", SeverityBad, "EVALSHA is refused"},
		{"no EVAL", func(f *facts) { f.byText = noperm }, "scripts", SeverityBad, "EVAL is refused"},
		{"no scripts", func(f *facts) { f.byText, f.byAddress = noperm, noperm }, "scripts", SeverityBad, "cannot be run"},
		{"no flags", func(f *facts) { f.byText = refusal("ERR Error compiling script (new function)") }, "scripts", SeverityBad, "allow-oom"},
		{"a busy server", func(f *facts) { f.byText, f.byAddress = refusal("BUSY Redis is busy"), refusal("BUSY") }, "scripts", SeverityBad, "at the moment"},

		{"a denied command", denied("zadd"), "permissions", SeverityBad, "zadd app:"},
		{"a command that only status needs", denied("hgetall"), "permissions", SeverityOK, "hgetall app:host:1:aa:work"},
		{"a command that workers can do without", denied("bitfield"), "permissions", SeverityWarn, "bitfield app:h|Class"},
		{"no WAIT", denied("wait"), "permissions", SeverityWarn, "may not wait"},
		{"permissions that cannot be read", func(f *facts) { f.permissions.known = false }, "permissions", SeverityWarn, "cannot see"},
		{"permissions to wait that cannot be read", func(f *facts) { f.permissions.known = false }, "blocking", "", ""},
		{"no BLMOVE", denied("blmove"), "blocking", SeverityWarn, "blmove app:queue:default"},
		{"no BLMOVE is no lack of permission to work", denied("blmove"), "permissions", SeverityOK, ""},
		{"no CLIENT UNBLOCK", denied("client|unblock"), "blocking", SeverityWarn, "client unblock: idle waits end by themselves"},

		{"allkeys-lru", info("maxmemory_policy", "allkeys-lru"), "eviction", SeverityBad, "whole queues"},
		{"allkeys-lru without a limit", info("maxmemory_policy", "allkeys-lru", "maxmemory", "0"), "eviction", SeverityBad, "as soon as"},
		{"volatile-ttl", info("maxmemory_policy", "volatile-ttl"), "eviction", SeverityBad, "No job has one"},
		{"a policy that only CONFIG tells", both(info("maxmemory_policy", ""), config("maxmemory-policy", "allkeys-lfu")), "eviction", SeverityBad, "whole queues"},
		{"no policy", both(func(f *facts) { f.info = nil }, blind), "eviction", SeverityWarn, "cannot see"},

		{"full", info("used_memory", "1000000000"), "memory", SeverityBad, "full"},
		{"almost full", info("used_memory", "900000000"), "memory", SeverityWarn, "858 MB of 953 MB"},
		{"no limit", info("maxmemory", "0"), "memory", SeverityOK, "no maxmemory"},
		{"no limit and little left", info("maxmemory", "0", "used_memory", "3900000000"), "memory", SeverityWarn, "kill Redis"},

		{"AOF, always", config("appendfsync", "always"), "persistence", SeverityOK, "loses nothing"},
		{"AOF, every second", config(), "persistence", SeverityOK, "about a second"},
		{"AOF without fsync", config("appendfsync", "no"), "persistence", SeverityWarn, "30 seconds"},
		{"snapshots", config("appendonly", "no", "save", "3600 1"), "persistence", SeverityWarn, "snapshots only"},
		{"nothing", config("appendonly", "no"), "persistence", SeverityBad, "loses all jobs"},
		{"nothing but replicas", both(config("appendonly", "no"), info("connected_slaves", "1")), "persistence", SeverityWarn, "comes back empty"},
		{"AOF by INFO alone", blind, "persistence", SeverityOK, "AOF"},
		{"no AOF by INFO alone", both(blind, info("aof_enabled", "0")), "persistence", SeverityWarn, "snapshots cannot be seen"},
		{"no persistence to be seen", both(blind, func(f *facts) { f.info = nil }), "persistence", SeverityWarn, "cannot see"},

		{"a failed snapshot", info("rdb_last_bgsave_status", "err"), "disk", SeverityBad, "refused"},
		{"a failed snapshot that stops nothing", both(info("rdb_last_bgsave_status", "err"), config("stop-writes-on-bgsave-error", "no")), "disk", SeverityWarn, "failed"},
		{"a failed write", info("aof_last_write_status", "err"), "disk", SeverityBad, "AOF"},
		{"no failure", info(), "disk", "", ""},

		{"no replicas", info(), "replication", SeverityOK, "no replicas"},
		{"replicas that need not keep up", info("connected_slaves", "2"), "replication", SeverityWarn, "min-replicas-to-write is off"},
		{"replicas that must keep up", both(info("connected_slaves", "2", "min_slaves_good_slaves", "2"), config("min-replicas-to-write", "1")), "replication", SeverityOK, "1 must keep up within 10"},
		{"replicas that may lag for ever", both(info("connected_slaves", "2"), config("min-replicas-to-write", "1", "min-replicas-max-lag", "0")), "replication", SeverityWarn, "min-replicas-to-write is off"},
		{"too few replicas", both(info("min_slaves_good_slaves", "0"), config("min-replicas-to-write", "1")), "replication", SeverityBad, "writes are refused"},
		{"replicas without CONFIG", both(blind, info("connected_slaves", "1")), "replication", SeverityOK, "min-replicas-to-write is off or cannot be seen"},
		{"replicas that must keep up, without CONFIG", both(blind, info("connected_slaves", "2", "min_slaves_good_slaves", "1")), "replication", SeverityOK, "min-replicas-to-write is on: 1 keep up"},

		{"clocks that agree", ahead(0), "clock", SeverityOK, "agree within 5ms"},
		{"a clock ahead", ahead(time.Hour), "clock", SeverityWarn, "1h0m0s ahead of"},
		{"a clock behind", ahead(-2 * time.Second), "clock", SeverityWarn, "2s behind"},
		{"an offset within what a trip leaves open", ahead(tolerableOffset + 5*time.Millisecond), "clock", SeverityOK, ""},
		{"an offset beyond it", ahead(tolerableOffset + 6*time.Millisecond), "clock", SeverityWarn, ""},
		{"no TIME", func(f *facts) { f.trips = nil }, "clock", "", ""},

		{"one slow trip of many", info(), "latency", SeverityOK, "takes 200µs (100µs to 1s)"},
		{"slow trips", func(f *facts) { f.trips = []trip{{time.Second, 0}} }, "latency", SeverityWarn, "1s"},

		{"no room for clients", info("connected_clients", "9990"), "clients", SeverityBad, "9990 of 10000"},
		{"little room for clients", info("connected_clients", "9500"), "clients", SeverityWarn, "9500 of 10000"},
		{"a timeout that is too short", config("timeout", "5"), "idle connections", SeverityWarn, "5 seconds"},
		{"a timeout", config("timeout", "300"), "idle connections", SeverityOK, "300"},
		{"no keepalive", config("tcp-keepalive", "0"), "idle connections", SeverityWarn, "vanished"},
		{"short strings", config("proto-max-bulk-len", "1048576"), "sizes", SeverityBad, "1048576"},
		{"a small output buffer", config("client-output-buffer-limit", "normal 2097152 0 0 slave 0 0 0"), "output buffers", SeverityWarn, "2097152"},
		{"a small output buffer after a while", config("client-output-buffer-limit", "slave 0 0 0 normal 0 1048576 10"), "output buffers", SeverityWarn, "1048576"},
		{"large output buffers", config("client-output-buffer-limit", "normal 67108864 33554432 10"), "output buffers", SeverityOK, "leaves room"},
		{"output buffers unseen", blind, "output buffers", "", ""},
		{"a small buffer", config("client-query-buffer-limit", "1048576"), "sizes", SeverityWarn, "query-buffer"},

		{"no Sidekiq", info(), "sidekiq", "", ""},
		{"Sidekiq 8", func(f *facts) { f.sidekiqs, f.cfg.Unit = []string{"8.1.0"}, job.Millis }, "sidekiq", SeverityOK, "newer"},
		{"Sidekiq 6 and seconds", func(f *facts) { f.sidekiqs = []string{"8.1.0", ""} }, "sidekiq", SeverityOK, "seconds"},
		{"Sidekiq 7 and milliseconds", func(f *facts) { f.sidekiqs, f.cfg.Unit = []string{"7.3.9"}, job.Millis }, "sidekiq", SeverityBad, "misread"},

		{"no CONFIG", blind, "sight", SeverityWarn, "managed"},
		{"no INFO", func(f *facts) { f.info = nil }, "sight", SeverityWarn, "INFO"},
		{"neither", both(blind, func(f *facts) { f.info = nil }), "sight", SeverityWarn, "INFO and CONFIG"},
		{"both", info(), "sight", "", ""},
	} {
		f := healthy()
		c.change(f)
		finding := f.findings().finding(c.name)
		require.Equal(t, c.want, finding.Severity, "%s: %+v", c.promise, finding)
		require.Contains(t, finding.Found, c.says, c.promise)
		require.Equal(t, c.want == SeverityWarn || c.want == SeverityBad, finding.Advice != "", "%s: a warning says what to do: %+v", c.promise, finding)
	}
}

// A managed service that denies everything but work is never worse than a warning.
func TestCheckWithoutSightIsNoFailure(t *testing.T) {
	t.Parallel()
	f := &facts{cfg: Config{}.withDefaults()}
	require.Equal(t, SeverityWarn, f.findings().Worst())
	require.Zero(t, f.findings().Count(SeverityBad))
}

func TestAdviceIsARuleThatPermits(t *testing.T) {
	t.Parallel()
	list := []need{{command: "lpush", keys: []string{"app:queue:a"}}, {command: "lpush", keys: []string{"app:queue:b"}}, {command: "client|id"}}
	require.Equal(t, "ACL SETUSER worker +lpush +client|id ~app:*", permissions{user: "worker"}.permit("app", list))
	require.Equal(t, "ACL SETUSER USER +lpush +client|id ~*", permissions{}.permit("", list))
	require.Equal(t, "ACL SETUSER USER +client|id", permissions{}.permit("app", list[2:]))
}
