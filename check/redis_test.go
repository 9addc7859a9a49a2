package check

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/lua"
)

// checked is what Redis returns with each driver, which must be the same but for measurements. Its user is of
// the URL.
func checked(t *testing.T, server *drivertest.Server, user string, cfg Config) Findings {
	t.Helper()
	url := strings.Replace(server.URL(), "://", "://"+user, 1)
	var all []Findings
	for name, open := range adapters.All {
		findings, err := Redis(within(t, 20*time.Second), open(t, url), cfg)
		require.NoError(t, err, name)
		all = append(all, findings)
	}
	for i, finding := range all[0] {
		require.Equal(t, finding.Name, all[1][i].Name)
		if finding.Name != "latency" {
			require.Equal(t, finding.Severity, all[1][i].Severity, "%+v and %+v", finding, all[1][i])
		}
	}
	return all[0]
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// do sends the server one command as its administrator.
func do(t *testing.T, server *drivertest.Server, words ...string) any {
	t.Helper()
	value, err := server.Do(t.Context(), words...)
	require.NoError(t, err)
	return value
}

// badOnes are the names of bad findings.
func badOnes(findings Findings) []string {
	names := []string{}
	for _, finding := range findings {
		if finding.Severity == SeverityBad {
			names = append(names, finding.Name)
		}
	}
	return names
}

func TestCheckOnServersWithOddSettings(t *testing.T) {
	t.Parallel()
	kept := []string{"--appendonly", "yes"}
	for _, c := range []struct {
		promise string
		args    []string
		prefix  string
		bad     []string
		name    string
		says    string
	}{
		{"a_fit_one", nil, "app", []string{}, "permissions", "may do all that Belay does"},
		{"evicts", []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, "app", []string{"eviction"}, "eviction", "allkeys-lru"},
		{"keeps_nothing", []string{"--appendonly", "no"}, "app", []string{"persistence"}, "persistence", "loses all jobs"},
		{"keeps_snapshots", []string{"--appendonly", "no", "--save", "3600", "1"}, "app", []string{}, "persistence", "snapshots only"},
		{"is_full", []string{"--maxmemory", "100kb"}, "app", []string{"memory"}, "memory", "full"},
		{"wants_replicas_that_are_not_there", []string{"--min-replicas-to-write", "1"}, "app", []string{"replication"}, "replication", "refused"},
		{"is_a_replica", []string{"--replicaof", "127.0.0.1 1"}, "app", []string{"role"}, "role", "read-only replica of 127.0.0.1:1"},
		{"is_a_cluster", []string{"--cluster-enabled", "yes"}, "app", []string{"cluster"}, "cluster", "--prefix"},
		{"is_a_cluster_without_slots", []string{"--cluster-enabled", "yes"}, "{app}", []string{"cluster"}, "cluster", "CLUSTERDOWN"},
		{"wants_a_password", []string{"--requirepass", "S3cr3tCanary"}, "app", []string{"access"}, "access", "wants a password"},
		{"closes_idle_connections", []string{"--timeout", "1", "--tcp-keepalive", "0"}, "app", []string{}, "idle connections", "keepalive"},
		{"keeps_small_output_buffers", []string{"--client-output-buffer-limit", "normal 2mb 2mb 0"}, "app", []string{}, "output buffers", "2097152"},
		{"takes_short_strings", []string{"--proto-max-bulk-len", "1mb"}, "app", []string{"sizes"}, "sizes", "1048576"},
		{"has_little_room", []string{"--maxclients", "11"}, "app", []string{"clients"}, "clients", "of 11"},
		{"has_no_EVALSHA", []string{"--rename-command", "EVALSHA", ""}, "app", []string{"scripts", "permissions"}, "scripts", "EVALSHA is refused"},
		{"has_no_CONFIG", []string{"--rename-command", "CONFIG", ""}, "app", []string{}, "sight", "managed"},
	} {
		t.Run(c.promise, func(t *testing.T) {
			t.Parallel()
			findings := checked(t, drivertest.Start(t, append(kept, c.args...)...), "", Config{Prefix: c.prefix})
			finding := findings.finding(c.name)
			require.Contains(t, finding.Found+finding.Advice, c.says)
			require.Equal(t, c.bad, badOnes(findings), "%+v", findings)
		})
	}
}

func TestCheckOnAPrimaryWithAReplica(t *testing.T) {
	t.Parallel()
	primary := drivertest.Start(t)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	drivertest.Start(t, "--replicaof", host+" "+port)
	drivertest.Eventually(t, func() bool {
		return strings.Contains(do(t, primary, "INFO", "replication").(string), "connected_slaves:1")
	}, 20*time.Second, 20*time.Millisecond)
	findings := checked(t, primary, "", Config{})
	require.Contains(t, findings.finding("replication").Found, "no replica had received")
	require.Equal(t, SeverityWarn, findings.finding("persistence").Severity)
}

func TestCheckOfAUsersPermissions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		promise string
		rules   string
		bad     []string
		name    string
		says    []string
	}{
		{"all", "~* &* +@all", []string{}, "permissions", []string{"may do all"}},
		{"only_our_keys", "~app:* &app:* +@all", []string{}, "permissions", []string{"may do all"}},
		{"others_keys", "~other:* +@all", []string{"permissions"}, "permissions", []string{"app:queue:", "~app:*"}},
		{"reading", "%R~app:* +@all", []string{"permissions"}, "permissions", []string{"lpush app:queue:", "lmove"}},
		{"not_a_few_commands", "~app:* +@all -zadd -smismember", []string{"permissions"}, "permissions", []string{"zadd app:", "+zadd", "+smismember", "odd"}},
		{"not_what_status_reads", "~app:* &* +@all -hgetall", []string{}, "permissions", []string{"belay status", "hgetall app:"}},
		{"no_channels", "~app:* +@all", []string{}, "permissions", []string{"not essential", "subscribe app:belay:ended", "&app:belay:ended"}},
		{"not_what_statistics_need", "~app:* &* +@all -bitfield", []string{}, "permissions", []string{"not essential", "bitfield app:h|Class"}},
		{"not_EVALSHA", "~app:* +@all -evalsha", []string{"scripts", "permissions"}, "scripts", []string{"EVALSHA is refused", "ACL SETUSER odd +eval +evalsha"}},
		{"not_EVALSHA_is_also_a_lack", "~app:* +@all -evalsha", []string{"scripts", "permissions"}, "permissions", []string{"this user may not evalsha"}},
		{"not_EVAL", "~app:* +@all -eval", []string{"scripts"}, "scripts", []string{"scripts cannot be run", "+eval +evalsha"}},
		{"no_scripts", "~app:* +@all -eval -evalsha -zadd", []string{"scripts"}, "permissions", []string{"cannot see", "permit EVAL and EVALSHA"}},
		{"not_BLMOVE", "~app:* +@all -blmove", []string{}, "blocking", []string{"a few times a second", "+blmove ~app:*"}},
		{"not_CLIENT_UNBLOCK", "~app:* +@all -client|unblock", []string{}, "blocking", []string{"a second longer", "+client|unblock"}},
		{"no_presence", "~app:* &* +@all -pubsub", []string{}, "presence", []string{"up to 15 seconds", "+pubsub|numsub"}},
		{"no_channel_of_presence", "~app:* &app:belay:ended +@all", []string{}, "presence", []string{"subscribe app:belay:here:*", "&app:belay:here:*"}},
		{"not_CONFIG", "~app:* +@all -config", []string{}, "sight", []string{"managed"}},
		{"not_SCAN", "~app:* &* +@all -scan", []string{}, "permissions", []string{"may do all that Belay does"}},
		{"not_INFO", "~app:* +@all -info", []string{}, "sight", []string{"INFO is refused"}},
		{"not_TIME", "~app:* +@all -time", []string{"permissions"}, "permissions", []string{"this user may not time"}},
	} {
		t.Run(c.promise, func(t *testing.T) {
			t.Parallel()
			server := drivertest.Start(t, "--appendonly", "yes")
			do(t, server, append(strings.Fields("ACL SETUSER odd reset on >S3cr3tCanary"), strings.Fields(c.rules)...)...)
			findings := checked(t, server, "odd:S3cr3tCanary@", Config{Prefix: "app"})
			finding := findings.finding(c.name)
			for _, text := range c.says {
				require.Contains(t, finding.Found+"; "+finding.Advice, text, "%+v", findings)
			}
			require.Equal(t, c.bad, badOnes(findings), "%+v", findings)
			for _, finding := range findings {
				require.NotContains(t, finding.Found+finding.Advice, "S3cr3tCanary")
			}
		})
	}
	t.Run("a_wrong_password_is_a_finding", func(t *testing.T) {
		t.Parallel()
		server := drivertest.Start(t)
		do(t, server, "ACL", "SETUSER", "odd", "on", ">right", "+@all")
		findings := checked(t, server, "odd:S3cr3tCanary@", Config{})
		require.Equal(t, []string{"access"}, badOnes(findings))
		require.NotContains(t, findings[0].Found+findings[0].Advice, "S3cr3tCanary")
	})
}

// What docs/operations.md and SECURITY.md say that a producer's user can do, and cannot.
func TestAProducerReachesNoJobThatWaits(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	rule, err := Rule(RoleProducer, "producer", Config{Prefix: "app"})
	require.NoError(t, err)
	do(t, server, strings.Fields(rule)...)
	may := func(command string) bool {
		return do(t, server, append([]string{"ACL", "DRYRUN", "producer"}, strings.Fields(command)...)...) == "OK"
	}
	for _, command := range []string{
		"LRANGE app:queue:mail 0 -1", "RPOP app:queue:mail", "LREM app:queue:mail 1 x", "DEL app:queue:mail", "LRANGE app:belay:working:mail:p 0 -1",
		"ZRANGE app:schedule 0 -1", "ZREM app:schedule x", "ZRANGE app:retry 0 -1", "ZADD app:retry 1 x", "ZRANGE app:dead 0 -1", "ZREM app:dead x",
		"HSET app:it-jid belay_state done", "DEL app:it-jid", "SMEMBERS app:queues", "ZRANGE app:belay:batches 0 -1", "SMEMBERS app:belay:batch:b:pending",
		"DEL app:belay:batch:b", "SMEMBERS app:processes", "HGETALL app:vm:1:work", "ZRANGE app:belay:unique 0 -1", "KEYS app:*", "SCAN 0",
	} {
		require.False(t, may(command), command)
	}
	for _, command := range []string{
		"LPUSH app:queue:mail x", "HMGET app:it-jid belay_job", "HMGET app:belay:batch:b on_success", "HSET app:belay:batch:b on_success x",
		"SREM app:belay:batch:b:pending jid", "MGET app:belay:lock:0", "SET app:belay:lock:0 x",
	} {
		require.True(t, may(command), "%s: if it is denied now, the documents say too much", command)
	}
}

// Workers check at each start: what a tight user is denied anyway must not fill the operator's log of
// denials.
func TestCheckCallsNothingThatIsDenied(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	rules := strings.Fields("ACL SETUSER odd reset on >x ~app:* -@all +eval +evalsha +time +srandmember +smismember")
	do(t, server, rules...)
	checked(t, server, "odd:x@", Config{Prefix: "app"})
	require.Empty(t, do(t, server, "ACL", "LOG"))
}

func TestCheckChangesNothing(t *testing.T) {
	t.Parallel()
	for _, rules := range []string{"+@all", "+@all -eval -evalsha -acl"} {
		server := drivertest.Start(t)
		do(t, server, append(strings.Fields("ACL SETUSER odd reset on >x ~*"), strings.Fields(rules)...)...)
		checked(t, server, "odd:x@", Config{})
		require.Equal(t, int64(0), do(t, server, "DBSIZE"))
		require.Contains(t, do(t, server, "INFO", "persistence"), "rdb_changes_since_last_save:0")
	}
}

// Sidekiq before version 7 reports no version, and a process that has ended is only listed.
func TestCheckSeesSidekiqsProcesses(t *testing.T) {
	t.Parallel()
	const (
		ruby64Info = `{"hostname":"vm","started_at":1795240473.9816105,"pid":2868,"tag":"app","concurrency":2,` +
			`"queues":["default","low"],"labels":["blue"],"identity":"vm:2868:027bfa1a8c5c"}`
		ruby81Info = `{"hostname":"vm","started_at":1795240473.5,"pid":7,"tag":"","labels":[],"version":"8.1.7","identity":"vm:7:aa"}`
	)
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		server, prefix := drivertest.Redis(t), strings.TrimSuffix(drivertest.Prefix(t), ":")
		keys := lua.NewKeys(prefix)
		do(t, server, "SADD", keys.Processes(), "old", "new", "gone", "ours")
		do(t, server, "HSET", keys.Process("old"), "info", ruby64Info)
		do(t, server, "HSET", keys.Process("new"), "info", ruby81Info)
		do(t, server, "HSET", keys.Process("ours"), "info", ruby81Info)
		do(t, server, "ZADD", keys.Alive(), "99999999999999", "ours")
		findings, err := Redis(within(t, 20*time.Second), open(t, server.URL()), Config{Prefix: prefix})
		require.NoError(t, err)
		require.Contains(t, findings.finding("sidekiq").Found, "(2 seen), some older than version 8")
	})
}

func TestCheckFailsOnlyWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	d := adapters.All["go-redis"](t, server.URL())
	server.Stop()
	_, err := Redis(within(t, 2*time.Second), d, Config{})
	require.ErrorContains(t, err, "timeout")
	server.Cont()
	server.Kill()
	_, err = Redis(within(t, 5*time.Second), d, Config{})
	require.Error(t, err)
	var unsent *driver.NotSentError
	require.ErrorAs(t, err, &unsent)
}

// The fake knows neither INFO's sections, CONFIG, ACL nor flags; there is still an answer.
func TestCheckOfMiniredisIsAnAnswer(t *testing.T) {
	t.Parallel()
	d := adapters.All["go-redis"](t, "redis://"+drivertest.Miniredis(t).Addr())
	findings, err := Redis(within(t, 20*time.Second), d, Config{})
	require.NoError(t, err)
	require.NotEmpty(t, findings)
}
