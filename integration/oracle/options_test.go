package oracle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
)

// A foreign poller takes a job out in one step and pushes it in another; in between it is nowhere, but not
// for long.
func TestForeign(t *testing.T) {
	t.Parallel()
	scheduled := func() *aof {
		a := begin()
		a.step(c("ZADD schedule 1", payload("1")))
		a.step(c("ZREM schedule", payload("1")))
		return a
	}
	t.Run("what comes back in time is lawful, whatever its bytes", func(t *testing.T) {
		t.Parallel()
		a := scheduled()
		a.at(4)
		a.step(c("LPUSH "+queue, `{"jid":"1","class":"C","args":[1]}`))
		report := a.replay(t, oracle.Foreign(5*time.Second))
		require.Empty(t, report.Violations)
		require.Equal(t, 1, report.Accepted)
	})
	t.Run("what comes back late was lost", func(t *testing.T) {
		t.Parallel()
		a := scheduled()
		a.at(9)
		a.step(c("LPUSH "+queue, payload("1")))
		report := a.replay(t, oracle.Foreign(5*time.Second))
		require.Len(t, report.Violations, 1)
		require.Contains(t, report.Violations[0].String(), "nowhere for 9s, between schedule and queue")
	})
	t.Run("what never comes back is lost, unless it may be deleted", func(t *testing.T) {
		t.Parallel()
		report := scheduled().replay(t, oracle.Foreign(time.Second))
		require.Len(t, report.Violations, 1)
		require.Equal(t, oracle.Lost, report.Violations[0].Rule)
		report = scheduled().replay(t, oracle.Foreign(time.Second), oracle.Operators())
		require.Empty(t, report.Violations)
		require.Equal(t, 1, report.Deleted)
	})
	t.Run("a worker takes a job into no list, counts by itself, and may fail", func(t *testing.T) {
		t.Parallel()
		a := begin()
		a.push(payload("1"))
		a.push(payload("2"))
		a.step(c("RPOP " + queue))
		a.step(c("RPOP " + queue))
		a.step(c("ZADD retry 9", payload("1", failed)))
		a.step(c("INCRBY stat:processed 2"))
		report := a.replay(t, oracle.Foreign(time.Second))
		require.Empty(t, report.Violations)
		require.Contains(t, report.String(), "(1 abroad, 1 in retry)")
	})
	t.Run("Belay is judged as ever", func(t *testing.T) {
		t.Parallel()
		a := begin()
		a.push(payload("1"))
		a.take()
		a.step(c("LREM "+mine+" 1", payload("1")))
		require.NotEmpty(t, a.replay(t, oracle.Foreign(time.Second)).Violations)
	})
}

func TestOperatorsAndTestsMayDoWhatIsAllowed(t *testing.T) {
	t.Parallel()
	a := begin()
	a.step(c("ZADD schedule 1", payload("1")))
	a.step(c("ZINCRBY schedule 5", payload("1")))
	a.step(c("ZREM schedule", payload("1")), c("LPUSH "+queue, payload("1")))
	a.step(c("UNLINK " + queue))
	a.step(c("ZADD schedule 1", payload("2")))
	a.step(c("ZREM schedule", payload("2")), c("ZADD dead 1", payload("2")))
	a.step(c("DEL dead"))
	report := a.replay(t, oracle.Operators())
	require.Empty(t, report.Violations)
	require.Equal(t, 2, report.Deleted)
	require.Len(t, a.replay(t).Violations, 5)

	planted := begin()
	planted.step(c("RPUSH "+mine, payload("1")))
	planted.step(c("RPUSH "+mine, payload("1")))
	require.Len(t, planted.replay(t).Violations, 2)
	require.Empty(t, planted.replay(t, oracle.Allow(oracle.Nowhere, oracle.Working)).Violations)
}

func TestKeyspacesAreJudgedApart(t *testing.T) {
	t.Parallel()
	a := &aof{}
	for _, prefix := range []string{"a:", "b:"} {
		a.step(c("LPUSH "+prefix+queue, payload("1")))
	}
	a.step(c("RPOP b:" + queue))
	a.step(c("RPOP nothing"))
	require.Equal(t, "oracle: 4 steps, 2 jobs, 1 violations (1 lost, 1 in queue)", a.replay(t, oracle.Prefixes()).String())
	require.Empty(t, a.replay(t, oracle.Prefix("a")).Violations)
	require.Len(t, a.replay(t, oracle.Prefix("b")).Violations, 1)
	require.Zero(t, a.replay(t, oracle.Prefix("")).Accepted)
}

// The clock is not asked when a test sets it.
func TestClockMoves(t *testing.T) {
	t.Parallel()
	a := begin()
	a.step(c("ZADD schedule "+fmt.Sprint(start+100), payload("1")))
	a.step(c("ZREM schedule", payload("1")), c("LPUSH "+queue, payload("1", `"enqueued_at":1.5`)))
	a.look(me, 6.1)
	a.declareDead(me, 6.2)
	require.Len(t, a.replay(t).Violations, 3)
	require.Empty(t, a.replay(t, oracle.ClockMoves()).Violations)
}

func TestMostInterruptionsDecidesWhatIsQuarantined(t *testing.T) {
	t.Parallel()
	a := begin()
	a.push(payload("1"))
	a.take()
	a.recover(c("LREM "+mine+" 1", payload("1")), c("RPUSH "+quarantine, payload("1", `"interrupted_count":1`, `"interrupted_at":1.5`)))
	require.Len(t, a.replay(t).Violations, 1)
	require.Empty(t, a.replay(t, oracle.MaxInterruptions(2)).Violations)
	require.Empty(t, a.replay(t, oracle.MaxInterruptions(0)).Violations)
}

func TestLargestDecidesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	a := begin()
	a.push(payload("1"))
	a.take()
	large := "{" + job.TooLargeReason(len(payload("1")), 10, time.Now(), job.Seconds) + "," + payload("1")[1:]
	a.step(append(count(1, 1), c("LREM "+mine+" 1", payload("1")), c("ZADD dead 3", large))...)
	require.Len(t, a.replay(t).Violations, 2)
	require.Empty(t, a.replay(t, oracle.Largest(10)).Violations)
}
