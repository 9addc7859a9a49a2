package oracle_test

import (
	"crypto/sha1" //nolint:gosec // as the scripts
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

func sum(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// looks are as many looks of a poller at what waits for it.
func looks(a *aof, poller string, count int) {
	for range count {
		a.step(c("SET belay:ticker " + poller + " PXAT 9"))
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	const gate, list, ledger = "l:k", "belay:waiting:l:k", "belay:slots:" + me
	one, two := payload("1"), payload("2")
	size := c("HSET belay:limits l", "1 none 0 0 code 1")
	count := func(field, by string) []string { return c("HINCRBY belay:gates", gate+"\n"+field, by) }
	hold := func(text string) []string { return c("HSET "+ledger+" "+sum(text), gate) }
	index, unindex := c("ZADD belay:waiting 1 "+gate), c("ZREM belay:waiting "+gate)
	start := func(a *aof) {
		a.step(size)
		a.push(one)
		a.push(two)
		a.take()
		a.take()
		a.step(c("LREM "+mine+" -1", two), c("LPUSH "+list, "q\n"+two), index, hold(one), count("r", "1"))
	}
	gone, free := c("LREM "+mine+" -1", one), [][]string{c("HDEL " + ledger + " " + sum(one)), count("r", "-1"), c("HDEL belay:gates", gate+"\nr")}
	admits := [][]string{
		c("LPUSH "+queue, two), c("RPOP " + list), c("HSETNX belay:admitted "+sum(two), "1\n"+gate+"\nq"), count("a", "1"), unindex,
	}
	begins := [][]string{c("HDEL belay:admitted " + sum(two)), count("a", "-1"), c("HDEL belay:gates", gate+"\na"), hold(two), count("r", "1")}
	join := func(steps ...[][]string) (all [][]string) {
		for _, step := range steps {
			all = append(all, step...)
		}
		return all
	}
	broken := []oracle.Rule{oracle.Gates}
	judgeEach(t, map[string]judged{
		"one runs, one waits, and is admitted by the end": {history: func(a *aof) {
			start(a)
			a.settle(1, 0, join([][]string{gone}, free, admits)...)
			a.take()
			a.step(begins...)
		}},
		"freed before it ends": {history: func(a *aof) { start(a); a.step(free...) }, rules: broken},
		"too many":             {history: func(a *aof) { start(a); a.step(admits...) }, rules: broken},
		"a slot stays":         {history: func(a *aof) { start(a); a.settle(1, 0, gone) }, rules: broken},
		"a count is wrong":     {history: func(a *aof) { start(a); a.settle(1, 0, join([][]string{gone}, free[:1])...) }, rules: broken},
		"admitted to the head": {history: func(a *aof) {
			start(a)
			a.settle(1, 0, join([][]string{gone}, free, [][]string{c("RPUSH "+queue, two)}, admits[1:])...)
		}, rules: []oracle.Rule{oracle.WrongEnd}},
		"admitted to another queue": {history: func(a *aof) {
			start(a)
			a.settle(1, 0, join([][]string{gone}, free, [][]string{c("LPUSH queue:r", two)}, admits[1:])...)
		}, rules: []oracle.Rule{oracle.IllegalEdge}},
		"admitted, and stays": {history: func(a *aof) {
			start(a)
			a.settle(1, 0, join([][]string{gone}, free, [][]string{admits[2], admits[3]})...)
		}, rules: broken},
		"the index forgets a gate":          {history: func(a *aof) { start(a); a.step(unindex) }, rules: broken},
		"a slot of a job that is not there": {history: func(a *aof) { a.step(c("HSET belay:limits l", "5 none 0 0 code 1"), hold(one), count("r", "1")) }, rules: broken},
		"a lease counts until it ends": {history: func(a *aof) {
			a.step(size, c("ZADD belay:leases 1", gate+"\nh"), count("r", "1"))
			a.step(c("ZADD belay:leases 2", gate+"\nh"))
			a.step(c("ZREM belay:leases", gate+"\nh"), count("r", "-1"), c("HDEL belay:gates", gate+"\nr"))
		}},
		"a lease ends and is counted": {history: func(a *aof) {
			a.step(size, c("ZADD belay:leases 1", gate+"\nh"), count("r", "1"))
			a.step(c("ZREM belay:leases", gate+"\nh"))
		}, rules: broken},
		"room, and a waiter that nobody lets in": {history: func(a *aof) {
			start(a)
			a.settle(1, 0, join([][]string{gone}, free)...)
			looks(a, me, 4)
		}, rules: broken},
		"room for no longer than the poller needs": {history: func(a *aof) {
			start(a)
			looks(a, me, 9) // without room
			a.settle(1, 0, join([][]string{gone}, free)...)
			looks(a, me, 3)
			looks(a, other, 3) // the first one has died
			a.step(admits...)
			looks(a, other, 9)
		}},
		"room at a gate that stops": {history: func(a *aof) {
			start(a)
			a.settle(1, 0, append(join([][]string{gone}, free), c("SET belay:stop:"+gate+" 1 PXAT "+ms(60)))...)
			looks(a, me, 9)
		}},
		"a start during a stop": {history: func(a *aof) {
			start(a)
			a.settle(1, 0, append(join([][]string{gone}, free, admits), c("SET belay:stop:"+gate+" 1 PXAT "+ms(60)))...)
			a.take()
			a.step(begins...)
		}, rules: broken},
		"a start after a stop": {history: func(a *aof) {
			start(a)
			a.settle(1, 0, append(join([][]string{gone}, free, admits), c("SET belay:stop:"+gate+" 1 PXAT "+ms(2)))...)
			a.take()
			a.at(3)
			a.step(begins...)
		}},
		"a rate makes room, and nobody lets the waiter in": {history: func(a *aof) {
			a.step(c("HSET belay:limits l", "- window 1 3000 code 1"))
			a.push(one)
			a.push(two)
			a.take()
			a.step(hold(one), count("r", "1"))
			a.take()
			a.step(c("LREM "+mine+" -1", two), c("LPUSH "+list, "q\n"+two), index)
			looks(a, me, 4) // one of them before the second in which there may be room
			a.at(4)
			looks(a, me, 9) // and these
			a.at(5)
			looks(a, me, 4)
		}, rules: broken},
		"too many starts": {history: func(a *aof) {
			a.step(c("HSET belay:limits l", "- window 1 9000 code 1"))
			for _, job := range []string{one, two} {
				a.push(job)
				a.take()
				a.step(hold(job), count("r", "1"))
				a.at(5)
			}
		}, rules: broken},
		"too many starts in a window of Redis": {history: func(a *aof) {
			a.step(c("HSET belay:limits l", "- window 2 900 code 1"))
			for _, at := range []string{"1000", "1400", "1901"} {
				a.step(c("LPUSH belay:rate:"+gate, at))
			}
			a.step(c("LPUSH belay:rate:"+gate, "2300", "2803"))
		}, rules: broken},
		"starts that are far enough apart": {history: func(a *aof) {
			a.step(c("HSET belay:limits l", "- window 1 9000 code 1"))
			for _, job := range []string{one, two} {
				a.push(job)
				a.take()
				a.step(hold(job), count("r", "1"))
				a.at(10)
			}
		}},
	})
}

// A janitor from before the slots recovers the job of a dead process, whose ledger keeps the slot.
func TestOldJanitorsLeaveSlots(t *testing.T) {
	t.Parallel()
	const gate = "l:k"
	one := payload("1")
	a := begin()
	a.step(c("HSET belay:limits l", "1 none 0 0 code 1"))
	a.push(one)
	a.take()
	a.step(c("HSET belay:slots:"+me+" "+sum(one), gate), c("HINCRBY belay:gates", gate+"\nr", "1"))
	a.recover(c("LREM "+mine+" -1", one), c("RPUSH "+queue, payload("1", `"interrupted_count":1`)))
	require.NotEmpty(t, a.replay(t).Violations)
	require.Empty(t, a.replay(t, oracle.OldJanitors()).Violations)
}
