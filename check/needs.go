package check

import (
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A purpose says what fails if a command is denied.
type purpose string

const (
	toWork purpose = "work"   // jobs cannot be pushed, taken or ended
	toWait purpose = "wait"   // an idle worker must poll, or stops slowly
	toLook purpose = "status" // an operator sees less
	toAct  purpose = "act"    // an operator cannot list jobs, or act on them
	toRead purpose = "check"  // the check itself sees less
)

// A need is a command that Belay calls, with its keys. Commands are spelled as in ACL rules: in lower case, a
// subcommand after a bar.
type need struct {
	purpose purpose
	command string
	keys    []string
	channel string // for messages; it is permitted like a key
}

// words returns the call as far as Redis needs it to check permissions: the command and its keys.
func (n need) words() []string {
	words := append(strings.Split(n.command, "|"), n.keys...)
	switch {
	case n.channel != "":
		words = append(words, n.channel)
	case strings.HasPrefix(n.command, "eval"):
		words = append(words, "text", "0") // the number of keys
	}
	return words
}

// maxQueuesAsked bounds the queues whose keys are checked, because one script checks all of them. ACL rules
// are patterns: what they permit for some queues they usually permit for all.
const maxQueuesAsked = 16

// needs returns all commands that Belay calls, with their keys. Tests compare it with the scripts, and run a
// worker whose user may do nothing else.
func needs(keys lua.Keys, queues []string, identity string) []need {
	list := slices.Clone(keyless)
	on := func(purpose purpose, key, commands string) {
		for _, command := range strings.Fields(commands) {
			list = append(list, need{purpose: purpose, command: command, keys: []string{key}})
		}
	}
	move := func(purpose purpose, command, from, to string) {
		list = append(list, need{purpose: purpose, command: command, keys: []string{from, to}})
	}
	lock := keys.Lock(strings.Repeat("0", 32)) // a digest that no job has
	for _, queue := range queues[:min(len(queues), maxQueuesAsked)] {
		waiting, working, quarantined := keys.Queue(queue), keys.Working(queue, identity), keys.Quarantine(queue)
		on(toWork, waiting, "type lpush rpush")
		move(toWork, "lmove", waiting, working)
		move(toWait, "blmove", waiting, working)
		on(toWork, working, "type exists llen lindex lpos lrem")
		on(toWork, quarantined, "type llen lindex lpush rpush")
		move(toWork, "lmove", quarantined, keys.QuarantineRun(identity))
		on(toWork, keys.Draining(queue), "zadd zrem zscore zcard zremrangebyscore pexpire")
		on(toWork, keys.DrainAsked(queue), "zadd zcard zremrangebyscore pexpire")
		on(toLook, waiting, "llen lindex")
		on(toAct, waiting, "type llen lrange lpos lrem lpush lindex lpop lset")
		on(toAct, quarantined, "type llen lrange lpos lrem lindex lpop lset")
	}
	on(toWork, keys.QuarantineRun(identity), "type exists llen lindex lpos lrem")
	on(toWork, keys.Queues(), "sadd")
	if slices.ContainsFunc(queues, job.IsPattern) {
		on(toWork, keys.Queues(), "sscan")
	}
	on(toWork, keys.IdempotencyScope(identity, 1), "type get set del")
	on(toWork, keys.Paused(), "smismember")
	on(toWork, lock, "type mget set setrange pexpire del")
	on(toWork, keys.Left("jid"), "mget set del")
	on(toWork, keys.Iteration("jid"), "type hmget hset hexists hdel expire del")
	on(toWork, keys.Unique(), "type zadd zrem zrangebyscore")
	on(toWork, keys.Refusals(), "incrby")
	on(toWork, keys.Schedule(), "type zadd zrem zscore zrange zrangebyscore")
	on(toWork, keys.Retry(), "type zadd zrem zscore zrange zrangebyscore")
	on(toWork, keys.Dead(), "type zadd zcard zcount zremrangebyrank")
	today := time.Now()
	for _, counter := range []string{keys.Processed(), keys.Failed(), keys.ProcessedOn(today), keys.FailedOn(today)} {
		on(toWork, counter, "incrby")
	}
	on(toWork, keys.ProcessedOn(today), "expire")
	on(toWork, keys.FailedOn(today), "expire")
	on(toWork, keys.Alive(), "zadd zrem zscore zcard zrange zrangebyscore")
	on(toWork, keys.Up(), "get set")
	on(toWork, keys.Tombstones(), "zadd zrem zscore zrangebyscore zrevrange")
	on(toWork, keys.Record(identity), "exists hget hmget hset hdel hexists del")
	for _, lease := range []string{keys.Claim(identity), keys.Poller(), keys.Sweeper()} {
		on(toWork, lease, "get pttl set del")
	}
	on(toWork, keys.Periodic(), "type zadd zrem zscore zrangebyscore")
	for _, hash := range []string{keys.PeriodicDefinitions(), keys.PeriodicLast()} {
		on(toWork, hash, "type hget hmget hset hdel")
	}
	on(toWork, keys.PeriodicSeen(), "type zadd zrem zscore zrangebyscore")
	on(toWork, keys.PeriodicUptime(), "type get incrby")
	on(toWork, keys.PeriodicRuns("nightly"), "type lpush rpop del")
	on(toAct, keys.PeriodicRuns("nightly"), "lrange")
	on(toLook, keys.Periodic(), "zrange zscore")
	on(toWork, keys.Batch("0"), "type exists hmget hset hsetnx hincrby unlink")
	for _, members := range []string{keys.BatchPending("0"), keys.BatchFailed("0"), keys.BatchDead("0")} {
		on(toWork, members, "type sadd srem scard sismember smismember unlink")
	}
	on(toWork, keys.Batches(), "type zadd zrem zscore zrangebyscore")
	on(toWork, keys.Processes(), "sadd srem")
	for _, shown := range []string{keys.Process(identity), keys.Work(identity), keys.Workers(identity)} {
		on(toWork, shown, "hset expire del")
	}
	on(toWork, keys.Signals(identity), "rpop")

	for _, set := range []string{keys.Schedule(), keys.Retry(), keys.Dead()} {
		on(toLook, set, "zcard")
		on(toAct, set, "type zcard zrange zrevrange zrank zcount zscore zrem zadd")
	}
	on(toAct, keys.Dead(), "zremrangebyrank")
	on(toAct, keys.Queues(), "sadd sismember")
	on(toAct, keys.Paused(), "sadd srem")
	on(toAct, keys.Processes(), "sismember")
	on(toAct, keys.Alive(), "zscore")
	on(toAct, keys.Signals(identity), "type lpush expire")
	on(toAct, keys.Cancelled(), "type zadd zrem zscore zrange zrank zcount zremrangebyscore expire")
	on(toAct, keys.Iteration("jid"), "hsetnx expire")
	on(toAct, lock, "type get mget pttl set pexpire del")
	on(toAct, keys.Unique(), "type zadd zrem zcount zrange zrank zscore")
	for _, counter := range []string{keys.Processed(), keys.Failed(), keys.Refusals()} {
		on(toLook, counter, "get")
		on(toAct, counter, "set")
	}
	on(toLook, keys.ProcessedOn(today), "mget")
	on(toLook, keys.FailedOn(today), "mget")
	on(toLook, keys.Queues(), "scard srandmember sscan")
	on(toLook, keys.Processes(), "scard srandmember sscan")
	on(toLook, keys.Paused(), "sismember")
	on(toLook, keys.Alive(), "zrange")
	on(toLook, keys.Process(identity), "hmget")
	on(toLook, keys.Work(identity), "hgetall")
	on(toLook, keys.Workers(identity), "hgetall")
	// Without these, waits for tracked jobs are slow, and a worker that stands by polls a moment later.
	for _, channel := range []string{keys.Ended(), keys.PollerLeft()} {
		list = append(list, need{purpose: toLook, command: "publish", channel: channel}, need{purpose: toLook, command: "subscribe", channel: channel})
	}
	// Workers run without these too: they are about the statistics of classes.
	for _, figures := range []string{keys.ClassMinute(today), keys.ClassTen(today)} {
		on(toLook, figures, "hincrby expire hgetall hmget")
	}
	for _, histogram := range []string{keys.RunHistogram("Class", today), keys.WaitHistogram("Class", today)} {
		on(toLook, histogram, "bitfield expire get")
	}
	return list
}

// keyless are the needs without a key. Redis never denies AUTH, HELLO and their kind.
var keyless = []need{
	{purpose: toWork, command: "evalsha"},
	{purpose: toWork, command: "eval"},
	{purpose: toWork, command: "time"},
	{purpose: toWork, command: "ping"},
	{purpose: toWait, command: "client|id"},
	{purpose: toWait, command: "client|unblock"},
	{purpose: toRead, command: "info"},
	{purpose: toRead, command: "config|get"},
	{purpose: toRead, command: "acl|whoami"},
}
