package oracle_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// tenure is a marker.
func (a *aof) tenure(value string) { a.step(c("SET "+oracle.TenureKey+"{7}", value)) }

// moved is a key that comes from another node.
func (a *aof) moved(keys ...string) {
	for _, key := range keys {
		a.step(c("RESTORE-ASKING " + key + " 0 dump"))
	}
}

// A slot that goes to another node and comes back takes the keyspace with it: the nodes' logs are one history.
func TestTenures(t *testing.T) {
	t.Parallel()
	one, two := &aof{}, &aof{}
	for _, a := range []*aof{one, two} {
		a.write(c("SELECT 0"))
	}
	one.tenure(oracle.Begins("", 1))
	one.text.WriteString(begin().text.String())
	one.push(payload("1"))
	one.tenure(oracle.Ends("", 1))
	one.take() // while all of its keys are still there
	one.step(c("DEL " + mine))
	one.step(c("UNLINK queue:other belay:process:" + me)) // as Valkey writes it
	two.moved(mine, "queue:other", "belay:process:"+me)
	for _, removes := range []string{"DEL", "UNLINK"} {
		two.step(c("RESTORE-ASKING belay:sweeper " + ms(0.5) + " dump ABSTTL"))
		two.step(c(removes + " belay:sweeper")) // it has expired
	}
	two.tenure(oracle.Begins("", 2))
	two.push(payload("2"))
	two.settle(1, 0, c("LREM "+mine+" -1", payload("1")))
	two.tenure(oracle.Ends("", 2))
	two.step(c("DEL " + queue))
	one.moved(queue)
	one.tenure(oracle.Begins("", 3))
	one.take()
	one.settle(1, 0, c("LREM "+mine+" -1", payload("2")))
	dirs := []string{two.save(t, ""), one.save(t, "")}
	report, err := oracle.ReplayTenures(dirs, []string{""}, oracle.Prefix(""))
	require.NoError(t, err)
	require.Empty(t, report.Violations)
	require.Equal(t, 2, report.Done)
	timeline, err := report.Timeline("1")
	require.NoError(t, err)
	require.Len(t, timeline, 3)

	stray := &aof{}
	stray.write(c("SELECT 0"))
	stray.push(payload("3"))
	_, err = oracle.ReplayTenures(append(dirs, stray.save(t, "")), []string{""}, oracle.Prefix(""))
	require.ErrorContains(t, err, "does not serve")
}

// What is lost on the way is a violation, as on one server.
func TestALossBetweenTenuresIsSeen(t *testing.T) {
	t.Parallel()
	one, two := begin(), &aof{}
	first := &aof{}
	first.write(c("SELECT 0"))
	first.tenure(oracle.Begins("", 1))
	first.text.WriteString(one.text.String())
	first.push(payload("1"))
	first.step(c("DEL " + queue)) // and no slot is leaving
	first.tenure(oracle.Ends("", 1))
	two.write(c("SELECT 0"))
	two.tenure(oracle.Begins("", 2))
	report, err := oracle.ReplayTenures([]string{first.save(t, ""), two.save(t, "")}, []string{""}, oracle.Prefix(""))
	require.NoError(t, err)
	require.Len(t, report.Violations, 1)
	require.Equal(t, oracle.Lost, report.Violations[0].Rule)
}

// shardOf is a step in the keyspace of a shard: its keys, which the names in these logs stand for, get its prefix.
func shardOf(prefix string, commands ...[]string) [][]string {
	prefixed := regexp.MustCompile(`^(queues?(:|$)|belay:|stat:)`)
	for _, command := range commands {
		for at := range command {
			if at > 0 && prefixed.MatchString(command[at]) && !strings.HasPrefix(command[at], "{") {
				command[at] = prefix + ":" + command[at]
			}
		}
	}
	return commands
}

// Two shards whose slots cross each other on two nodes are two histories, and each is judged by itself.
func TestTheShardsOfAClusterAreJudgedApart(t *testing.T) {
	t.Parallel()
	const x, y = "{app:0}", "{app:1}"
	push := func(a *aof, shard, jid string) {
		a.step(shardOf(shard, c("SADD queues q"), c("LPUSH "+queue, payload(jid)))...)
	}
	nodes := func() (one, two *aof) {
		one, two = &aof{}, &aof{}
		for a, shard := range map[*aof]string{one: x, two: y} {
			a.write(c("SELECT 0"))
			a.tenure(oracle.Begins(shard, 1))
			push(a, shard, "of "+shard)
		}
		one.tenure(oracle.Ends(x, 1))
		two.moved(x+":queues", x+":"+queue)
		push(two, y, "meanwhile")
		one.step(c("DEL " + x + ":" + queue))
		two.tenure(oracle.Ends(y, 1))
		one.moved(y + ":" + queue)
		one.tenure(oracle.Begins(y, 2))
		two.step(c("DEL " + y + ":" + queue))
		two.tenure(oracle.Begins(x, 2))
		push(one, y, "later")
		push(two, x, "later too")
		return one, two
	}
	replay := func(one, two *aof) *oracle.Report {
		report, err := oracle.ReplayTenures([]string{one.save(t, ""), two.save(t, "")}, []string{x, y}, oracle.OneFleet())
		require.NoError(t, err)
		return report
	}
	report := replay(nodes())
	require.Empty(t, report.Violations)
	require.Equal(t, 5, report.Accepted)
	require.Equal(t, 5, report.Waiting[oracle.Queue])

	one, two := nodes()
	push(one, y, "of "+x)
	report = replay(one, two)
	require.Len(t, report.Violations, 1)
	require.Equal(t, oracle.Shards, report.Violations[0].Rule)

	one, two = nodes()
	two.step(shardOf(x, c("DEL "+queue))...) // its slot is not about to leave
	report = replay(one, two)
	require.Len(t, report.Violations, 2)
	require.Equal(t, oracle.Lost, report.Violations[0].Rule)
}

// What must be in one place for all jobs with it is on one shard.
func TestABoundKeyIsOnOneShard(t *testing.T) {
	t.Parallel()
	for name, step := range map[string][]string{
		"a lock":  c("SET belay:lock:d1", "-1\nC\n1", "PXAT", ms(60)),
		"a batch": c("HSET belay:batch:b created 1 total 0"),
		"a gate":  c("HSET belay:gates", "mail:\nr", "0"),
		"a tick":  c("HSET belay:periodic:last nightly 2027-01-15T00:00:00Z"),
		"a job":   c("LPUSH "+queue, payload("1")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := func(shards ...string) (texts []string) {
				a := &aof{}
				a.write(c("SELECT 0"))
				for _, shard := range shards {
					a.step(shardOf(shard, slices.Clone(step))...)
				}
				for _, violation := range a.replay(t, oracle.Prefixes(), oracle.OneFleet()).Violations {
					if violation.Rule == oracle.Shards {
						texts = append(texts, violation.Text)
					}
				}
				return texts
			}
			require.Empty(t, found("{app:0}", "{app:0}"))
			require.Len(t, found("{app:0}", "{app:1}"), 1)
		})
	}
}
