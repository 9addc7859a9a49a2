package oracle_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/internal/drivertest"
)

// Next reads what a redis-server writes: whole transactions as one step, with the second of the last
// annotation.
func TestLog(t *testing.T) {
	t.Parallel()
	a := &aof{}
	a.write(c("SELECT 0"))
	a.at(1)
	a.step(c("set k", "a\r\nb"))
	a.at(2)
	a.step(c("lpush l a"), c("rpush l b"))
	a.write(c("MULTI"))
	a.write(c("EXEC"))
	a.step(c("DEL k"))
	log, err := oracle.Open(a.save(t, ""))
	require.NoError(t, err)
	for n, want := range []struct {
		at       int64
		commands [][]string
	}{
		{start + 1, [][]string{{"SET", "k", "a\r\nb"}}},
		{start + 2, [][]string{{"LPUSH", "l", "a"}, {"RPUSH", "l", "b"}}},
		{start + 2, [][]string{{"DEL", "k"}}},
	} {
		step, err := log.Next()
		require.NoError(t, err)
		require.Equal(t, n+1, step.Number)
		require.Equal(t, time.Unix(want.at, 0), step.At)
		require.Equal(t, want.commands, step.Commands)
	}
	_, err = log.Next()
	require.ErrorIs(t, err, io.EOF)
	require.Empty(t, log.Truncated())
	require.NoError(t, log.Close())
}

// A server that is killed may leave half a step behind, whose reply was never sent.
func TestALogMayEndWithinAStep(t *testing.T) {
	t.Parallel()
	full := begin()
	full.push(payload("1"))
	full.take()
	whole := full.text.Len()
	full.settle(1, 0, c("LREM "+mine+" -1", payload("1")))
	text := full.text.String()
	for cut := whole + 1; cut < len(text); cut++ {
		a := &aof{}
		a.text.WriteString(text[:cut])
		report := a.replay(t)
		require.Empty(t, report.Violations, "cut at %d", cut)
		require.NotEmpty(t, report.Truncated, "cut at %d", cut)
		require.Contains(t, report.String(), "1 in working); the log ends within a step", "cut at %d", cut)
	}
}

// What the log begins with was there before, and is judged from then on.
func TestABaseIsWhereALogBegins(t *testing.T) {
	t.Parallel()
	base := begin()
	base.step(c("RPUSH "+queue, payload("1"), payload("2")))
	base.step(c("ZADD dead 1", payload("3")))
	a := &aof{}
	a.write(c("SELECT 0"))
	a.take()
	a.step(c("ZREM dead", payload("3")))
	report, err := oracle.Replay(a.save(t, base.text.String()))
	require.NoError(t, err)
	require.Len(t, report.Violations, 1)
	require.Equal(t, "3", report.Violations[0].JID)
	require.Equal(t, 3, report.Accepted)
	require.Equal(t, 3, report.Edges[oracle.Edge{From: oracle.Nowhere, To: oracle.Queue, Move: oracle.Restored}]+
		report.Edges[oracle.Edge{From: oracle.Nowhere, To: oracle.Dead, Move: oracle.Restored}])
}

// A rewritten log, as that of a replica with all data of its primary, begins with the keys in any order.
func TestABaseIsInNoOrder(t *testing.T) {
	t.Parallel()
	base := &aof{}
	base.write(c("SELECT 0"))
	base.step(c("SET "+lockKey, "-1\nC\n1"))
	base.step(c("PEXPIREAT " + lockKey + " " + ms(60)))
	base.step(c("RPUSH "+mine, unique("1", executed)))
	base.step(c("ZADD belay:unique " + ms(60) + " d1"))
	base.text.WriteString(begin().text.String())
	a := &aof{}
	a.write(c("SELECT 0"))
	a.at(1)
	a.settle(1, 0, append([][]string{c("LREM "+mine+" -1", unique("1", executed))}, release()...)...)
	report, err := oracle.Replay(a.save(t, base.text.String()))
	require.NoError(t, err)
	require.Empty(t, report.Violations)
	require.Equal(t, 1, report.Done)
}

// A snapshot may hold jobs, and none is read.
func TestASnapshotAsBaseIsRefused(t *testing.T) {
	t.Parallel()
	for _, empty := range []bool{true, false} {
		dir := t.TempDir()
		server := drivertest.Start(t, "--dir", dir, "--appendonly", "yes") // with a snapshot at its head
		if !empty {
			_, err := server.Do(t.Context(), "LPUSH", "queue:q", payload("1"))
			require.NoError(t, err)
			_, err = server.Do(t.Context(), "BGREWRITEAOF")
			require.NoError(t, err)
			drivertest.Eventually(t, func() bool {
				manifest, _ := os.ReadFile(filepath.Join(dir, "appendonlydir", "appendonly.aof.manifest"))
				return strings.Contains(string(manifest), ".2.base.rdb")
			}, 20*time.Second, 10*time.Millisecond)
		}
		server.Kill()
		_, err := oracle.Replay(dir)
		require.ErrorContains(t, err, "--aof-use-rdb-preamble no")
	}
}

func TestWhatIsNoLogIsRefused(t *testing.T) {
	t.Parallel()
	_, err := oracle.Replay(t.TempDir())
	require.ErrorContains(t, err, "--appendonly yes")
	for _, text := range []string{"nonsense\r\n", "*1\r\n$x\r\n", "*1\r\n$3\r\nabcdef", "*-1\r\n", "#TS:x\r\n", "*2\r\n$6\r\nSELECT\r\n$1\r\nx\r\n"} {
		a := &aof{}
		a.text.WriteString(text)
		_, err := oracle.Replay(a.save(t, ""))
		require.Error(t, err, "%q", text)
	}
	dir := begin().save(t, "")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "appendonlydir", "appendonly.aof.manifest"), []byte("file a seq x type i\n"), 0o600))
	_, err = oracle.Replay(dir)
	require.ErrorContains(t, err, "manifest")
	dir = begin().save(t, "*1\r\n$3\r\nab")
	_, err = oracle.Replay(dir)
	require.ErrorContains(t, err, "not the last part")
}

// A real server writes down what the interpreter knows, however it was asked.
func TestARealServersLogIsUnderstood(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := drivertest.Start(t, "--dir", dir, "--appendonly", "yes", "--appendfsync", "no", "--aof-use-rdb-preamble", "no",
		"--aof-timestamp-enabled", "yes")
	do := func(words string, args ...string) {
		t.Helper()
		_, err := server.Do(t.Context(), c(words, args...)...)
		require.NoError(t, err)
	}
	const list = "belay:working:q:w:1:cc"
	do("HSET belay:process:w:1:cc ttl_ms 1000 beat_ms 100 queues", `["q"]`)
	do("LPUSH "+queue, payload("1"))
	do("BLMOVE " + queue + " " + list + " RIGHT LEFT 1")
	waiting := make(chan error, 1)
	go func() {
		_, err := server.Do(t.Context(), c("BLMOVE "+queue+" "+list+" RIGHT LEFT 20")...)
		waiting <- err
	}()
	require.Eventually(t, func() bool {
		clients, err := server.Do(t.Context(), "CLIENT", "LIST")
		return err == nil && strings.Contains(fmt.Sprint(clients), "cmd=blmove")
	}, 20*time.Second, time.Millisecond)
	do("LPUSH "+queue, payload("2"))
	require.NoError(t, <-waiting)
	do("EVAL", `redis.call('LREM', KEYS[1], 1, ARGV[1]); redis.call('INCRBY', KEYS[2], 1); redis.call('INCRBY', KEYS[3], 1)
		redis.call('EXPIRE', KEYS[3], 100)`, "3", list, "stat:processed", "stat:processed:2027-01-15", payload("1"))
	do("EVAL", `return redis.call('LREM', KEYS[1], 1, 'nothing')`, "1", list)
	do("SET belay:claim:x y PX 1")
	server.Kill()
	report, err := oracle.Replay(dir)
	require.NoError(t, err)
	require.Empty(t, report.Violations)
	require.Contains(t, report.String(), "2 jobs, 0 violations (1 done, 1 in working)")
	require.WithinDuration(t, time.Now(), report.Last, time.Minute)
}
