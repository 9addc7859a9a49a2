package oracle_test

import (
	"testing"

	"github.com/belayq/belay/integration/oracle"
)

func TestBatches(t *testing.T) {
	t.Parallel()
	const info, pending, failedSet, dead = "belay:batch:b", "belay:batch:b:pending", "belay:batch:b:failed", "belay:batch:b:dead"
	const nested = "belay:batch:b:nested"
	member := payload("1", `"belay_batch":"b/calls"`)
	callback := `{"queue":"calls","class":"Done","args":[],"jid":"cb"`
	open := func(a *aof) {
		a.step(c("HSET "+info+" created 1 total 0 on_success", callback), c("SADD "+pending, "not sealed"), c("ZADD belay:batches 9 b"))
	}
	join := func(a *aof) {
		a.step(c("LPUSH "+queue, member), c("SADD queues q"), c("SADD "+pending+" 1"), c("HINCRBY "+info+" total 1"))
	}
	seal := func(a *aof) { a.step(c("SREM "+pending, "not sealed")) }
	taken := func(a *aof) { open(a); join(a); seal(a); a.take() }
	gone := c("LREM "+mine+" -1", member)
	complete, success, call := c("HSETNX "+info+" complete_at 1"), c("HSETNX "+info+" success_at 1"), c("LPUSH queue:calls", callback+`,"enqueued_at":1800000000}`)
	done := c("SREM " + pending + " 1")
	judgeEach(t, map[string]judged{
		"over in the step that ends its last member": {history: func(a *aof) { taken(a); a.settle(1, 0, gone, done, complete, success, call) }},
		"over later": {history: func(a *aof) {
			taken(a)
			a.settle(1, 0, gone, done)
			a.step(complete, success, call)
		}, rules: []oracle.Rule{oracle.Batches, oracle.Batches}},
		"over without its callback": {history: func(a *aof) { taken(a); a.settle(1, 0, gone, done, complete, success) }, rules: []oracle.Rule{oracle.Batches}},
		"complete too early":        {history: func(a *aof) { taken(a); a.step(complete) }, rules: []oracle.Rule{oracle.Batches}},
		"called twice": {history: func(a *aof) {
			taken(a)
			a.settle(1, 0, gone, done, complete, success, call)
			a.step(complete)
		}, rules: []oracle.Rule{oracle.Batches}},
		"a member that has ended and is pending": {history: func(a *aof) { taken(a); a.settle(1, 0, gone) }, rules: []oracle.Rule{oracle.Batches}},
		"a member that is not counted":           {history: func(a *aof) { open(a); a.push(member) }, rules: []oracle.Rule{oracle.Batches}},
		"a member that counts and is not stored in the total": {history: func(a *aof) {
			open(a)
			a.step(c("LPUSH "+queue, member), c("SADD "+pending+" 1"))
		}, rules: []oracle.Rule{oracle.Batches}},
		"dead and not failed":    {history: func(a *aof) { taken(a); a.step(c("SADD "+dead+" 1"), c("HSETNX "+info+" death_at 1")) }, rules: []oracle.Rule{oracle.Batches}},
		"failed and not pending": {history: func(a *aof) { taken(a); a.step(c("SADD " + failedSet + " 2")) }, rules: []oracle.Rule{oracle.Batches}},
		"nested, and failed until it is over": {history: func(a *aof) {
			open(a)
			a.step(c("SADD "+pending+" 2 3"), c("SADD "+failedSet+" 3"), c("SADD "+nested+" 3"), c("HINCRBY "+info+" total 2"))
		}},
		"nested, and not failed": {history: func(a *aof) {
			open(a)
			a.step(c("SADD "+pending+" 2 3"), c("SADD "+nested+" 3"), c("HINCRBY "+info+" total 2"))
		}, rules: []oracle.Rule{oracle.Batches}},
		"failed, and not counted": {history: func(a *aof) {
			taken(a)
			a.settle(1, 1, gone, c("ZADD retry 1", payload("1", `"belay_batch":"b/calls"`, failed)))
		}, rules: []oracle.Rule{oracle.Batches}},
		"over, and kept for more than a day": {history: func(a *aof) {
			taken(a)
			a.settle(1, 0, gone, done, complete, success, call)
			a.step(c("ZADD belay:batches 86402 b"))
		}, rules: []oracle.Rule{oracle.Batches}},
		"over, and deleted with its entry": {history: func(a *aof) {
			taken(a)
			a.settle(1, 0, gone, done, complete, success, call, c("ZADD belay:batches 86400 b"))
			a.step(c("ZREM belay:batches b"), c("UNLINK "+info))
		}},
		"not listed": {history: func(a *aof) {
			a.step(c("HSET "+info+" created 1 total 0"), c("SADD "+pending, "not sealed"))
		}, rules: []oracle.Rule{oracle.Batches}},
		"deleted, and still listed": {history: func(a *aof) {
			taken(a)
			a.step(c("UNLINK " + info + " " + pending))
		}, rules: []oracle.Rule{oracle.Batches}},
		"deleted, and a set of it is not": {history: func(a *aof) {
			taken(a)
			a.step(c("UNLINK "+info), c("ZREM belay:batches b"))
		}, rules: []oracle.Rule{oracle.Batches}},
		"counted after its end": {history: func(a *aof) { a.step(c("SADD " + dead + " 1")) }, rules: []oracle.Rule{oracle.Batches}},
		"deleted, and its member runs": {history: func(a *aof) {
			taken(a)
			a.step(c("UNLINK "+info+" "+pending+" "+failedSet+" "+dead), c("ZREM belay:batches b"))
			a.settle(1, 0, gone)
		}},
	})
}
