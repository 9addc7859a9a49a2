package check

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A purpose says what fails if a command is denied.
type purpose string

const (
	toCall  purpose = "call"   // nothing works
	toPush  purpose = "push"   // jobs cannot be pushed
	toWork  purpose = "work"   // jobs cannot be taken or ended
	toWait  purpose = "wait"   // an idle worker must poll, or stops slowly
	toWatch purpose = "watch"  // the jobs of a killed worker come back later
	toTell  purpose = "tell"   // a worker's statistics and warnings are missing, or rare repairs are not made
	toAwait purpose = "await"  // waits for tracked jobs are slow
	toKeep  purpose = "keep"   // durable pushes do not learn how many replicas have their jobs
	toLook  purpose = "status" // an operator sees less
	toList  purpose = "list"   // an operator cannot list jobs
	toAct   purpose = "act"    // an operator cannot act on jobs
	toRead  purpose = "check"  // the check itself sees less
	toAdmin purpose = "admin"  // the check cannot see settings, which only an administrator should see
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
	case n.command == "sintercard":
		words = slices.Insert(words, 1, strconv.Itoa(len(n.keys)))
	}
	return words
}

// A sample has a name for each part of a key that differs between jobs, processes and days.
type sample struct {
	queues   []string
	patterns bool // some queues are patterns
	identity string
	digest   string
	jid      string
	bid      string // of a batch
	class    string
	name     string // of a periodic job
	gate     string
	number   int // of an idempotency scope
	at       time.Time
}

// sampleOf returns the names of no job. Permissions are asked for with these.
func sampleOf(queues []string, identity string) sample {
	return sample{
		queues: queues, patterns: slices.ContainsFunc(queues, job.IsPattern), identity: identity, digest: strings.Repeat("0", 32),
		jid: "jid", bid: "0", class: "Class", name: "nightly", gate: "limit:key", number: 1, at: time.Now(),
	}
}

// maxQueuesAsked bounds the queues whose keys are checked, because one script checks all of them. ACL rules
// are patterns: what they permit for some queues they usually permit for all.
const maxQueuesAsked = 16

// needs returns all commands that Belay calls, with their keys. Tests compare it with the scripts, and run a
// worker whose user may do nothing else.
func needs(keys lua.Keys, names sample) []need {
	list := slices.Clone(keyless)
	on := func(purpose purpose, key, commands string) {
		for _, command := range strings.Fields(commands) {
			list = append(list, need{purpose: purpose, command: command, keys: []string{key}})
		}
	}
	pair := func(purpose purpose, command, one, other string) {
		list = append(list, need{purpose: purpose, command: command, keys: []string{one, other}})
	}
	lock := keys.Lock(names.digest)
	for _, queue := range names.queues[:min(len(names.queues), maxQueuesAsked)] {
		waiting, working, quarantined := keys.Queue(queue), keys.Working(queue, names.identity), keys.Quarantine(queue)
		on(toPush, waiting, "type lpush")
		on(toWork, waiting, "rpush")
		pair(toWork, "lmove", waiting, working)
		pair(toWait, "blmove", waiting, working)
		on(toWork, working, "type exists llen lindex lpos lrem")
		on(toWork, quarantined, "type llen lindex lpush rpush")
		pair(toWork, "lmove", quarantined, keys.QuarantineRun(names.identity))
		on(toWork, keys.Draining(queue), "zadd zrem zscore zcard zremrangebyscore pexpire")
		on(toWork, keys.DrainAsked(queue), "zadd zcard zremrangebyscore pexpire")
		on(toTell, waiting, "lindex")
		for _, list := range []string{waiting, working, quarantined} {
			on(toTell, list, "llen lrange") // see scheduler.TickLocks, here and below
		}
		on(toLook, waiting, "llen lindex")
		on(toLook, quarantined, "llen lindex")
		on(toLook, working, "llen lindex")
		on(toList, waiting, "type lrange")
		on(toList, quarantined, "type lrange")
		on(toAct, waiting, "lrem lpush lpop lset")
		on(toAct, quarantined, "lrem lpush lpop lset")
	}
	on(toWork, keys.QuarantineRun(names.identity), "type exists llen lindex lpos lrem")
	on(toTell, keys.QuarantineRun(names.identity), "lrange")
	on(toLook, keys.QuarantineRun(names.identity), "lindex")
	on(toPush, keys.Queues(), "sadd")
	on(toTell, keys.Queues(), "sscan sismember")
	if names.patterns {
		on(toWork, keys.Queues(), "sscan")
	}
	on(toPush, keys.IdempotencyScope(names.identity, names.number), "get set del")
	on(toWork, keys.Paused(), "type smismember sismember")
	on(toPush, lock, "mget set")
	on(toWork, lock, "type setrange pexpire del")
	on(toTell, lock, "get")
	on(toWork, keys.Left(names.jid), "mget set del")
	on(toAwait, keys.Iteration(names.jid), "hmget")
	on(toWork, keys.Iteration(names.jid), "type hmget hset hexists hdel expire del")
	on(toPush, keys.Unique(), "zadd")
	on(toWork, keys.Unique(), "type zrem zrangebyscore")
	on(toPush, keys.Refusals(), "incrby")
	for _, purpose := range []purpose{toPush, toAct} {
		on(purpose, keys.Shard(), "type exists hmget hset")
	}
	on(toLook, keys.Shard(), "hmget")
	on(toPush, keys.Schedule(), "type zadd")
	on(toWork, keys.Schedule(), "zrem zscore zrange zrangebyscore")
	on(toWork, keys.Retry(), "type zadd zrem zscore zrange zrangebyscore")
	on(toWork, keys.Dead(), "type zadd zcard zcount zremrangebyrank")
	for _, counter := range []string{keys.Processed(), keys.Failed(), keys.ProcessedOn(names.at), keys.FailedOn(names.at)} {
		on(toWork, counter, "incrby")
	}
	on(toWork, keys.ProcessedOn(names.at), "expire")
	on(toWork, keys.FailedOn(names.at), "expire")
	on(toPush, keys.Alive(), "zrangebyscore")
	on(toPush, keys.Record(names.identity), "hget")
	on(toWork, keys.Alive(), "zadd zrem zscore zcard zcount zrange")
	for _, set := range []string{keys.Alive(), keys.Schedule(), keys.Retry()} {
		on(toTell, set, "type zcount zrank")
	}
	on(toWork, keys.Up(), "get set")
	on(toWork, keys.Tombstones(), "zadd zrem zscore zrangebyscore zrevrange")
	on(toWork, keys.Record(names.identity), "exists hmget hset hdel hexists del")
	for _, lease := range []string{keys.Claim(names.identity), keys.Poller(), keys.Sweeper(), keys.Watcher(), keys.Deputy()} {
		on(toWork, lease, "get pttl set del exists")
	}
	// Operators change periodic jobs by the scripts of the poller.
	for _, purpose := range []purpose{toWork, toAct} {
		on(purpose, keys.Periodic(), "type zadd zrem zscore zrangebyscore")
		for _, hash := range []string{keys.PeriodicDefinitions(), keys.PeriodicLast()} {
			on(purpose, hash, "type hget hmget hset hdel")
		}
		on(purpose, keys.PeriodicSeen(), "type zadd zrem zscore zrangebyscore")
		on(purpose, keys.PeriodicUptime(), "type get incrby")
		on(purpose, keys.PeriodicRuns(names.name), "type lpush rpop del")
	}
	on(toList, keys.PeriodicRuns(names.name), "lrange")
	for _, plan := range []string{keys.Periodic(), keys.Waiting(), keys.Leases()} { // whether the poller must read them
		on(toWork, plan, "exists")
	}
	on(toLook, keys.Periodic(), "zrange zscore")
	// A producer makes and seals batches, and the script that seals one may end it, as an operator's acts may.
	members := []string{keys.BatchPending(names.bid), keys.BatchFailed(names.bid), keys.BatchDead(names.bid)}
	for _, purpose := range []purpose{toPush, toAct} {
		on(purpose, keys.Batch(names.bid), "type exists hmget hset hsetnx hincrby")
		for _, set := range members {
			on(purpose, set, "type sadd srem scard sismember smismember")
		}
		on(purpose, keys.BatchNested(names.bid), "type sadd")
		on(purpose, keys.Batches(), "type zadd zscore")
		on(purpose, keys.Ended(), "type") // the scripts get the name of the channel as a key
	}
	// Operators move waiting jobs, and change sizes and counts of limits.
	list = append(list, limitNeeds(keys, names)...)
	for _, purpose := range []purpose{toWork, toAct} {
		for _, key := range append(members, keys.Batch(names.bid), keys.BatchNested(names.bid)) {
			on(purpose, key, "unlink")
		}
		on(purpose, keys.Batches(), "zrem")
	}
	on(toPush, keys.Cancelled(), "zscore") // the mark of a batch
	on(toWork, keys.Batches(), "zrangebyscore")
	on(toLook, keys.Batches(), "zcard")
	on(toList, keys.Batches(), "type zrange zrank zcount zscore")
	on(toList, keys.Batch(names.bid), "hmget")
	for _, set := range members {
		on(toList, set, "sscan scard sismember")
	}
	// Without these, nested batches count as failed members.
	for _, set := range []string{keys.BatchFailed(names.bid), keys.BatchDead(names.bid)} {
		pair(toAwait, "sintercard", keys.BatchNested(names.bid), set)
		pair(toLook, "sintercard", keys.BatchNested(names.bid), set)
	}
	on(toLook, keys.BatchNested(names.bid), "smismember")
	on(toWork, keys.Classes(), "hscan")
	on(toWork, keys.Limits(), "type hget hset hsetnx hdel hexists hscan")
	on(toWork, keys.Gates(), "type hmget hset hincrby hdel")
	on(toWork, keys.Slots(names.identity), "type exists hlen hmget hset hdel hrandfield")
	on(toWork, keys.Admitted(), "type exists hget hmget hset hsetnx hdel hrandfield")
	on(toWork, keys.Waiting(), "type zadd zrem zmscore zrange zrevrange")
	on(toWork, keys.WaitingList(names.gate), "type exists llen lindex lpush rpush rpop")
	on(toTell, keys.Waiting(), "zcount zrank")
	on(toTell, keys.WaitingList(names.gate), "lrange")
	on(toWork, keys.Rate(names.gate), "type exists llen lindex lpush lpop rpop get set pexpire del")
	on(toWork, keys.Stop(names.gate), "exists pttl set")
	on(toWork, keys.Leases(), "type zadd zrem zscore zrangebyscore")
	on(toLook, keys.PeriodicDefinitions(), "hmget")
	on(toLook, keys.PeriodicLast(), "hmget")
	on(toWork, keys.Processes(), "sadd srem")
	for _, shown := range []string{keys.Process(names.identity), keys.Work(names.identity), keys.Workers(names.identity)} {
		on(toWork, shown, "hset expire del")
	}
	on(toWork, keys.Signals(names.identity), "rpop exists")
	on(toWork, keys.Cancelled(), "type exists zadd zrem zscore zrange zrank zcount zremrangebyscore")

	for _, set := range []string{keys.Schedule(), keys.Retry(), keys.Dead()} {
		on(toLook, set, "zcard")
		on(toList, set, "type zrange zrevrange zrank zcount zscore")
		on(toAct, set, "zrem zadd")
	}
	on(toAct, keys.Dead(), "zremrangebyrank")
	on(toAct, keys.Queues(), "sadd")
	on(toAct, keys.Paused(), "sadd srem")
	on(toAct, keys.Processes(), "sismember")
	on(toAct, keys.Signals(names.identity), "type lpush expire")
	on(toList, keys.Cancelled(), "zscore")
	on(toAct, keys.Cancelled(), "type zadd zrem zscore zcount zremrangebyscore expire")
	on(toList, keys.Iteration(names.jid), "hmget")
	on(toAct, keys.Iteration(names.jid), "type hmget hset hsetnx hdel expire del")
	on(toList, lock, "get mget pttl")
	on(toAct, lock, "type set pexpire del")
	on(toList, keys.Unique(), "type zcount zrange zrank zscore")
	on(toAct, keys.Unique(), "zadd zrem")
	for _, counter := range []string{keys.Processed(), keys.Failed(), keys.Refusals()} {
		on(toLook, counter, "get")
		on(toAct, counter, "set")
	}
	on(toLook, keys.ProcessedOn(names.at), "mget")
	on(toLook, keys.FailedOn(names.at), "mget")
	on(toLook, keys.Queues(), "scard srandmember sscan sismember")
	on(toLook, keys.Processes(), "scard srandmember sscan")
	on(toTell, keys.Processes(), "srandmember") // which versions of Sidekiq run
	on(toLook, keys.Paused(), "smismember sismember")
	on(toLook, keys.Alive(), "zcount zrange zscore")
	on(toLook, keys.Up(), "get")
	on(toLook, keys.Record(names.identity), "hget hmget")
	on(toLook, keys.Process(names.identity), "hmget")
	on(toLook, keys.Work(names.identity), "hgetall")
	on(toLook, keys.Workers(names.identity), "hgetall")
	send := func(purpose purpose, command, channel string) {
		list = append(list, need{purpose: purpose, command: command, channel: channel})
	}
	send(toAwait, "subscribe", keys.Ended())
	send(toAwait, "publish", keys.Ended())
	send(toAct, "publish", keys.Ended())
	send(toWatch, "subscribe", keys.Presence("*")) // as a pattern: each session has a channel of its own
	// Without these a worker that stands by polls a moment later.
	send(toTell, "publish", keys.PollerLeft())
	send(toTell, "subscribe", keys.PollerLeft())
	// Workers run without these too: they are about the statistics of classes and queues.
	for _, figures := range []string{keys.ClassMinute(names.at), keys.ClassTen(names.at)} {
		on(toTell, figures, "hincrby expire")
		on(toLook, figures, "hgetall hmget")
	}
	on(toTell, keys.QueueMinute(names.at), "hincrby expire")
	on(toLook, keys.QueueMinute(names.at), "hmget")
	on(toTell, keys.Samples(), "type zadd expire zrange zremrangebyrank")
	on(toLook, keys.Samples(), "type zrange")
	for _, purpose := range []purpose{toTell, toAct} {
		on(purpose, keys.Completed(), "zadd expire pttl zcount zremrangebyrank")
	}
	for _, histogram := range []string{keys.RunHistogram(names.class, names.at), keys.WaitHistogram(names.class, names.at)} {
		on(toTell, histogram, "bitfield expire")
		on(toLook, histogram, "get")
	}
	return list
}

// limitNeeds returns what operators need for limits.
func limitNeeds(keys lua.Keys, names sample) (list []need) {
	on := func(purpose purpose, key, commands string) {
		for _, command := range strings.Fields(commands) {
			list = append(list, need{purpose: purpose, command: command, keys: []string{key}})
		}
	}
	line, slots := keys.WaitingList(names.gate), keys.Slots(names.identity)
	on(toLook, keys.Waiting(), "zrange")
	on(toLook, line, "llen lindex")
	on(toLook, keys.Stop(names.gate), "pttl")
	on(toList, keys.Waiting(), "type zrange zrank zcount zscore zcard")
	on(toList, line, "type lrange")
	on(toList, keys.Classes(), "hscan")
	on(toList, keys.Limits(), "hget hscan")
	on(toList, keys.Gates(), "type hscan hmget")
	on(toList, keys.Admitted(), "type hscan hget hlen hvals")
	on(toList, slots, "type hget hrandfield exists hlen hvals")
	on(toList, keys.Leases(), "type zrange zrank zcount zscore zcard")
	on(toList, keys.Tombstones(), "type zrange zrank zcount zscore")
	on(toAct, line, "lrem lpop lset exists")
	on(toAct, keys.Waiting(), "zadd zrem")
	on(toAct, keys.Gates(), "type hset hincrby hdel")
	on(toAct, keys.Admitted(), "type exists hmget hdel")
	on(toAct, keys.Classes(), "type hget hset hdel hlen")
	on(toAct, keys.Limits(), "type hget hset hdel")
	return list
}

// keyless are the needs without a key. Redis never denies AUTH, HELLO and their kind.
var keyless = []need{
	{purpose: toCall, command: "evalsha"},
	{purpose: toCall, command: "eval"},
	{purpose: toCall, command: "time"},
	{purpose: toCall, command: "ping"},
	{purpose: toWait, command: "client|id"},
	{purpose: toWait, command: "client|unblock"},
	{purpose: toWatch, command: "pubsub|numsub"},
	{purpose: toKeep, command: "wait"},
	{purpose: toRead, command: "info"},
	{purpose: toRead, command: "acl|whoami"},
	{purpose: toAdmin, command: "config|get"},
}
