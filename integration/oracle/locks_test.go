package oracle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// lockKey is the lock of all unique jobs here.
const lockKey = "belay:lock:d1"

// unique is the payload of a job that has it.
func unique(jid, until string, fields ...string) string {
	return payload(jid, append([]string{fmt.Sprintf(`"belay_unique":{"digest":"d1","until":%q,"ttl_ms":60000,"again":true}`, until)}, fields...)...)
}

// lock is a lock's value and its end in seconds after the start, written and listed.
func lock(jid string, second float64) [][]string {
	return [][]string{c("SET "+lockKey, "-"+jid+"\nC\n1", "PXAT", ms(second)), c("ZADD belay:unique " + ms(second) + " d1")}
}

func (a *aof) pushUnique(text, jid string) {
	a.step(append(lock(jid, 60), c("SADD queues q"), c("LPUSH "+queue, text))...)
}

// release is how a lock is freed.
func release() [][]string { return [][]string{c("DEL " + lockKey), c("ZREM belay:unique d1")} }

// hold is how one is held on to.
func hold(second float64) [][]string {
	return [][]string{c("PEXPIREAT " + lockKey + " " + ms(second)), c("ZADD belay:unique " + ms(second) + " d1")}
}

func (a *aof) begins(state string) { a.step(c("SETRANGE "+lockKey+" 0", state)) }

const executed, executing = "until_executed", "until_executing"

func TestLocksThatLiveAsTheirJobsDo(t *testing.T) {
	t.Parallel()
	done := func(moves ...[]string) [][]string {
		return append([][]string{c("LREM "+mine+" -1", unique("1", executed))}, moves...)
	}
	for name, history := range map[string]struct {
		history func(a *aof)
		reruns  int
		options []oracle.Option
	}{
		"until executed": {history: func(a *aof) {
			a.pushUnique(unique("1", executed), "1")
			a.take()
			a.begins("s")
			a.step(hold(70)...)
			a.settle(1, 0, done(release()...)...)
			a.pushUnique(unique("2", executed), "2")
		}},
		"a duplicate that is marked runs beside it, and leaves it the lock": {history: func(a *aof) {
			a.pushUnique(unique("1", executed), "1")
			marked := unique("2", executed, `"duplicate-of":"1"`)
			a.step(c("SADD queues q"), c("LPUSH "+queue, marked))
			a.take()
			a.begins("s")
			a.take()
			a.settle(1, 0, c("LREM "+mine+" -1", marked))
			a.settle(1, 0, done(release()...)...)
		}},
		"until executing, and again before the first has ended": {history: func(a *aof) {
			a.pushUnique(unique("1", executing), "1")
			a.take()
			a.step(release()...)
			a.pushUnique(unique("2", executing), "2")
			a.settle(1, 1, c("LREM "+mine+" -1", unique("1", executing)), c("ZADD retry 1", unique("1", executing, failed)))
		}},
		"until executing, and it goes back unrun, and waits as it did": {history: func(a *aof) {
			a.pushUnique(unique("1", executing), "1")
			a.take()
			a.step(release()...)
			a.step(lock("1", 70)...)
			a.step(append([][]string{c("LREM "+mine+" -1", unique("1", executing)), c("RPUSH "+queue, unique("1", executing))}, hold(80)...)...)
		}},
		"through a retry": {history: func(a *aof) {
			a.pushUnique(unique("1", executed), "1")
			a.take()
			a.settle(1, 1, append(done(c("ZADD retry "+fmt.Sprint(start+30), unique("1", executed, failed))), hold(90)...)...)
		}},
		"it runs out, and another takes it": {history: func(a *aof) {
			a.pushUnique(unique("1", executed), "1")
			a.take()
			a.at(60)
			a.step(append([][]string{c("DEL " + lockKey)}, append(lock("2", 120), c("LPUSH "+queue, unique("2", executed)))...)...)
			a.settle(1, 0, done()...)
		}},
		"one more run for refused duplicates": {reruns: 1, history: func(a *aof) {
			a.pushUnique(unique("1", executed), "1")
			a.take()
			a.begins("s")
			a.begins("d")
			a.settle(1, 0, done(append(lock("2", 60), c("SADD queues q"), c("LPUSH "+queue, unique("2", executed)))...)...)
		}},
		"duplicates leave positions with it": {history: func(a *aof) {
			a.pushUnique(unique("1", executed), "1")
			a.step(c("SET "+lockKey, "-1\nC\n1\nmain 9/0", "KEEPTTL"))
			a.take()
			a.begins("s")
			a.step(c("SET "+lockKey, "d1\nC\n1\nmain 10/0\nci 0/1", "KEEPTTL"))
			taken := lock("2", 60)
			taken[0][2] += "\nmain 10/0\nci 0/1"
			a.settle(1, 0, done(append(taken, c("SADD queues q"), c("LPUSH "+queue, unique("2", executed)))...)...)
		}, reruns: 1},
		"what they left is kept beside, and goes into the retry": {history: func(a *aof) {
			a.pushUnique(unique("1", executing), "1")
			a.step(c("SET "+lockKey, "-1\nC\n1\nmain 9/0", "KEEPTTL"))
			a.take()
			a.step(append(release(), c("SET belay:left:1", "\nmain 9/0", "PXAT", ms(60)))...)
			a.settle(1, 1, c("LREM "+mine+" -1", unique("1", executing)), c("ZADD retry 1", unique("1", executing, failed, `"dedup_wal_locations":{"main":"9/0"}`)))
			a.step(c("DEL belay:left:1"))
		}},
		"it comes with the promotion": {history: func(a *aof) {
			a.step(c("ZADD schedule 1", unique("1", executed)))
			a.step(append(lock("1", 60), c("ZREM schedule", unique("1", executed)),
				c("LPUSH "+queue, unique("1", executed, fmt.Sprintf(`"enqueued_at":%d`, start))))...)
		}},
		"a promotion finds it taken": {history: func(a *aof) {
			a.pushUnique(unique("2", executed), "2")
			a.step(c("ZADD schedule 1", unique("1", executed)))
			a.step(c("ZREM schedule", unique("1", executed)), c("LPUSH "+queue, unique("1", executed, fmt.Sprintf(`"enqueued_at":%d`, start))))
		}},
		"released by an operator": {options: []oracle.Option{oracle.Acts()}, history: func(a *aof) {
			a.pushUnique(unique("1", executed), "1")
			a.step(release()...)
			a.pushUnique(unique("2", executed), "2")
		}},
		"deleted with its job": {options: []oracle.Option{oracle.Acts()}, history: func(a *aof) {
			a.pushUnique(unique("1", executed), "1")
			a.step(append(release(), c("LREM "+queue+" -1", unique("1", executed)))...)
		}},
		"left by a job that Ruby's pages deleted": {options: []oracle.Option{oracle.Operators()}, history: func(a *aof) {
			a.pushUnique(unique("1", executed), "1")
			a.step(c("LREM "+queue+" -1", unique("1", executed)))
		}},
		"all is flushed": {history: func(a *aof) {
			a.pushUnique(unique("1", executed), "1")
			a.step(c("FLUSHALL"))
			a.pushUnique(unique("2", executed), "2")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := begin()
			history.history(a)
			report := a.replay(t, history.options...)
			require.Empty(t, report.Violations)
			require.Len(t, report.Follows, history.reruns)
		})
	}
}

func TestABreachOfALockIsSeen(t *testing.T) {
	t.Parallel()
	pushed := func(a *aof) { a.pushUnique(unique("1", executed), "1") }
	running := func(a *aof) { pushed(a); a.take(); a.begins("s") }
	ended := c("LREM "+mine+" -1", unique("1", executed))
	for name, breach := range map[string]struct {
		breach func(a *aof)
		says   []string
	}{
		"lock, then push": {func(a *aof) {
			a.step(lock("1", 60)...)
			a.step(c("LPUSH "+queue, unique("1", executed)))
		}, []string{"does not store the job"}},
		"push, then lock": {func(a *aof) {
			a.step(c("LPUSH "+queue, unique("1", executed)))
			a.step(lock("1", 60)...)
		}, []string{"accepted without its lock", "does not store the job"}},
		"a push that asks no lock": {func(a *aof) { pushed(a); a.step(c("LPUSH "+queue, unique("2", executed))) }, []string{"accepted without its lock"}},
		"a mark that names another job": {func(a *aof) {
			pushed(a)
			a.step(c("LPUSH "+queue, unique("2", executed, `"duplicate-of":"3"`)))
		}, []string{`as a duplicate of "3", which has none`}},
		"a mark, and no lock": {func(a *aof) { a.step(c("LPUSH "+queue, unique("2", executed, `"duplicate-of":"1"`))) },
			[]string{`as a duplicate of "1", which has none`}},
		"no TTL": {func(a *aof) {
			a.step(c("SET "+lockKey, "-1\nC\n1"), c("ZADD belay:unique 1 d1"), c("LPUSH "+queue, unique("1", executed)))
		}, []string{"never ends"}},
		"its TTL is lost": {func(a *aof) { pushed(a); a.step(c("SET "+lockKey, "-1\nC\n1")) }, []string{"never ends"}},
		"what is left gives it to another": {func(a *aof) { pushed(a); a.step(c("SET "+lockKey, "-2\nC\n1\nmain 9/0", "KEEPTTL")) },
			[]string{"something is left with the lock d1"}},
		"a position is compared as text": {func(a *aof) {
			pushed(a)
			a.step(c("SET "+lockKey, "-1\nC\n1\nmain 10/0", "KEEPTTL"))
			a.step(c("SET "+lockKey, "-1\nC\n1\nmain 9/0", "KEEPTTL"))
		}, []string{"forgets a position of main"}},
		"a position is forgotten": {func(a *aof) {
			pushed(a)
			a.step(c("SET "+lockKey, "-1\nC\n1\nmain 9/0\nci 0/1", "KEEPTTL"))
			a.step(c("SET "+lockKey, "-1\nC\n1\nmain 9/0", "KEEPTTL"))
		}, []string{"forgets a position of ci"}},
		"the one more run does not get the positions": {func(a *aof) {
			running(a)
			a.step(c("SET "+lockKey, "d1\nC\n1\nmain 9/0", "KEEPTTL"))
			a.settle(1, 0, append(lock("2", 60), ended, c("LPUSH "+queue, unique("2", executed)))...)
		}, []string{"forgets a position of main"}},
		"not listed": {func(a *aof) {
			a.step(lock("1", 60)[0], c("LPUSH "+queue, unique("1", executed)))
		}, []string{"is listed until 0"}},
		"another lock than the payload's": {func(a *aof) {
			a.step(append(lock("1", 60), c("LPUSH "+queue, strings.Replace(unique("1", executed), `"d1"`, `"d2"`, 1)))...)
		}, []string{"is not the one that its payload names", "accepted without its lock d2"}},
		"left behind":      {func(a *aof) { running(a); a.settle(1, 0, ended) }, []string{"left behind"}},
		"left by the dead": {func(a *aof) { running(a); a.settle(1, 1, ended, c("ZADD dead 1", unique("1", executed, failed))) }, []string{"left behind"}},
		"released on failure": {func(a *aof) {
			running(a)
			a.settle(1, 1, append(release(), ended, c("ZADD retry 1", unique("1", executed, failed)))...)
		}, []string{"the job lives on"}},
		"released at a start": {func(a *aof) { pushed(a); a.take(); a.step(release()...) }, []string{"the job lives on"}},
		"released before its start": {func(a *aof) {
			a.pushUnique(unique("1", executing), "1")
			a.step(release()...)
		}, []string{"the job lives on"}},
		"another job's is released": {func(a *aof) {
			pushed(a)
			a.take()
			a.at(60)
			a.step(append([][]string{c("DEL " + lockKey)}, append(lock("2", 120), c("LPUSH "+queue, unique("2", executed)))...)...)
			a.settle(1, 0, append(release(), ended)...)
		}, []string{"the job lives on"}},
		"deleted before its time": {func(a *aof) { running(a); a.step(c("DEL " + lockKey)) }, []string{"before it runs out"}},
		"taken over while it stands": {func(a *aof) {
			running(a)
			a.step(append(lock("2", 60), c("LPUSH "+queue, unique("2", executed)))...)
		}, []string{"is given to 2"}},
		"not held for the delay of a retry": {func(a *aof) {
			running(a)
			a.settle(1, 1, ended, c("ZADD retry "+fmt.Sprint(start+30), unique("1", executed, failed)))
		}, []string{"after the job is due"}},
		"the rerun is forgotten": {func(a *aof) {
			running(a)
			a.begins("d")
			a.settle(1, 0, append(release(), ended)...)
		}, []string{"the run is not there"}},
		"a rerun that no push asked for": {func(a *aof) {
			running(a)
			a.settle(1, 0, append(lock("2", 60), ended, c("LPUSH "+queue, unique("2", executed)))...)
		}, []string{"no duplicate asked for"}},
		"the mark is cleared, then the rerun comes": {func(a *aof) {
			running(a)
			a.begins("d")
			a.settle(1, 0, append(release(), ended)...)
			a.pushUnique(unique("2", executed), "2")
		}, []string{"the run is not there"}},
		"the rerun comes without the lock": {func(a *aof) {
			running(a)
			a.begins("d")
			a.settle(1, 0, append(release(), ended, c("LPUSH "+queue, unique("2", executed)))...)
		}, []string{"the run is not there", "accepted without its lock"}},
		"the rerun is of another job": {func(a *aof) {
			running(a)
			a.begins("d")
			a.settle(1, 0, append(lock("2", 60), ended, c("LPUSH "+queue, strings.Replace(unique("2", executed), "1.0", "1", 1)))...)
		}, []string{"for which it runs once more"}},
		"the rerun has a past": {func(a *aof) {
			running(a)
			a.begins("d")
			a.settle(1, 0, append(lock("2", 60), ended, c("LPUSH "+queue, unique("2", executed, `"retry_count":0`)))...)
		}, []string{"for which it runs once more"}},
		"begun before it is in hand":       {func(a *aof) { pushed(a); a.begins("s") }, []string{`from state "-" to "s"`}},
		"dirty before it began":            {func(a *aof) { pushed(a); a.take(); a.begins("d") }, []string{`from state "-" to "d"`}},
		"dirty no more":                    {func(a *aof) { running(a); a.begins("d"); a.begins("s") }, []string{`from state "d" to "s"`}},
		"released by none that may":        {func(a *aof) { pushed(a); a.step(release()...) }, []string{"the job lives on"}},
		"a command that is not understood": {func(a *aof) { pushed(a); a.step(c("PERSIST " + lockKey)) }, []string{"is not understood"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := begin()
			breach.breach(a)
			report := a.replay(t)
			require.Len(t, report.Violations, len(breach.says), "%v", report.Violations)
			for _, says := range breach.says {
				require.Contains(t, fmt.Sprint(report.Violations), says)
			}
		})
	}
}

// The lock of a key outlives its job, and no payload names it.
func TestKeptLocks(t *testing.T) {
	t.Parallel()
	keep := func(a *aof, also ...[]string) {
		a.step(append([][]string{c("SET "+lockKey, "k1\nC\n1", "PXAT", ms(60)), c("ZADD belay:unique " + ms(60) + " d1")}, also...)...)
	}
	stored := c("LPUSH "+queue, payload("1"))
	run := func(a *aof) { a.take(); a.settle(1, 0, c("LREM "+mine+" -1", payload("1"))) }
	for name, history := range map[string]struct {
		history func(a *aof)
		wrong   int
	}{
		"it outlives its job":     {history: func(a *aof) { keep(a, stored); run(a) }},
		"its time is over":        {history: func(a *aof) { keep(a, stored); run(a); a.at(61); a.step(c("DEL " + lockKey)) }},
		"an operator releases it": {history: func(a *aof) { keep(a, stored); a.step(release()...) }},
		"it has no job":           {history: func(a *aof) { keep(a) }, wrong: 1},
		"it is freed too early":   {history: func(a *aof) { keep(a, stored); a.step(c("DEL " + lockKey)) }, wrong: 1},
		"it begins":               {history: func(a *aof) { keep(a, stored); a.begins("s") }, wrong: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := begin()
			history.history(a)
			require.Len(t, a.replay(t).Violations, history.wrong)
		})
	}
}
