package lua

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

// A move is a script that moves jobs, and a call of it that makes it do all that it can do.
type move struct {
	script string
	// begin makes the keyspace in which the call is made, and answers the call. jobs are all that there are
	// in it.
	begin func(w *world) call
	jobs  []string
	// once says that a call that was heeded must not be made again: it would mean something else.
	once bool
}

// A call may fail. It names these keys.
type call struct {
	make func() error
	keys []string
}

func try[T any](w *world, a Ask[T]) call {
	return call{keys: a.Call.Keys, make: func() error {
		_, err := a.Do(w.Context(), w.client)
		return err
	}}
}

const (
	tooLarge  = `{"is":"too large to be run"}`
	toldLarge = `{"error_class":"Large","is":"too large to be run"}`
)

// tooLarge is what becomes of that entry, which lies first in key.
func (w *world) tooLarge(key string) TooLarge {
	return TooLarge{Large: LargeOf(tooLarge), Key: key, Reason: `"error_class":"Large"`, Around: `"retry":0`, Today: w.today}
}

var moves = []move{
	{script: "push", jobs: []string{"now", "later"}, once: true, begin: func(w *world) call {
		return try(w, w.keys.Push(nil, []NewJob{{Queue: "q", Job: "now"}, {Job: "later", In: time.Hour}}))
	}},
	{script: "push", jobs: []string{"now", "later"}, begin: func(w *world) call {
		key := &IdempotencyKey{Scope: w.keys.IdempotencyScope("client", 0), Number: 1, Mark: "mark", Remember: time.Hour}
		return try(w, w.keys.Push(key, []NewJob{{Queue: "q", Job: "now"}, {Job: "later", In: time.Hour}}))
	}},
	{script: "tick", jobs: []string{"tick"}, begin: func(w *world) call {
		w.define(Registrar{}, "n", "a", "s")
		return try(w, w.keys.Tick(Plan{Name: "n", Digest: "a", State: PlanRunning, Expected: w.lastTick("n"), Last: "t", Next: "9"},
			&TickJob{Queue: "q", JID: "j", Nominal: "t", Bytes: "tick"}))
	}},
	{script: "kill_large", jobs: []string{tooLarge, toldLarge}, begin: func(w *world) call {
		return try(w, w.keys.KillLarge(w.tooLarge(w.keys.Working("q", w.hold(tooLarge)))))
	}},
	{script: "kill_large", jobs: []string{tooLarge, toldLarge}, begin: func(w *world) call {
		w.dueAt(w.keys.Retry(), time.Hour, tooLarge)
		large := w.tooLarge(w.keys.Retry())
		large.Sorted = true
		return try(w, w.keys.KillLarge(large))
	}},
	{script: "take", jobs: []string{"job a", "job b", tooLarge}, begin: func(w *world) call {
		identity := w.process("q", "r")
		w.push("q", "job a", tooLarge)
		w.push("r", "job b")
		return try(w, w.keys.Take(identity, []string{"q", "r"}, 5, MaxBytes, len("job a")))
	}},
	{script: "take_quarantined", jobs: []string{"quarantined"}, begin: func(w *world) call {
		identity := w.process("q")
		w.quarantine("q", "quarantined")
		return try(w, w.keys.TakeQuarantined(identity, []string{"q"}, nil))
	}},
	{script: "settle", jobs: []string{"done", "fails", "dies", "snoozes", "goes back"}, once: true, begin: func(w *world) call {
		identity := w.hold("done", "fails", "dies", "snoozes", "goes back")
		return try(w, w.keys.Settle(w.settlement(identity, 1, end("q", "done", job.Done()), end("q", "fails", job.Retried("fails", time.Hour)),
			end("q", "dies", job.Died("dies")), end("q", "snoozes", job.Snoozed("snoozes", time.Hour)), end("q", "goes back", job.Requeued()))))
	}},
	{script: "settle", jobs: []string{"refused"}, once: true, begin: func(w *world) call {
		identity := w.process("q")
		w.quarantine("q", "refused")
		w.takeAlone(identity, "q")
		refused := Settled{Queue: "q", Quarantined: true, Bytes: "refused", Outcome: job.Requeued(), Last: true}
		return try(w, w.keys.Settle(w.settlement(identity, 1, refused)))
	}},
	{script: "recover", jobs: []string{"good", "bad", "quarantined"}, begin: func(w *world) call {
		identity := w.hold("good", "bad", "quarantined")
		w.lapse(identity)
		return try(w, w.keys.Recover(identity, []string{"q"}, []Orphans{{Queue: "q", Entries: []Orphan{
			{Old: "quarantined", New: "quarantined", Home: HomeQuarantine}, {Old: "bad", New: "bad", Home: HomeDead}, {Old: "good", New: "good"},
		}}}, w.today))
	}},
	{script: "recover_gitlab", jobs: []string{"good", "bad"}, begin: func(w *world) call {
		return try(w, w.foreign(Orphans{Queue: "q", Entries: []Orphan{{Old: "bad", New: "bad", Home: HomeDead}, {Old: "good", New: "good"}}}, "good", "bad"))
	}},
	{script: "promote", jobs: []string{"due", "bad", "quarantined"}, begin: func(w *world) call {
		w.dueAt(w.keys.Schedule(), time.Hour, "due", "bad", "quarantined")
		return try(w, w.keys.Promote(w.keys.Schedule(), []Promotions{
			{Queue: "q", Jobs: []Promotion{{Old: "due", New: "due"}}},
			{Queue: "q", Jobs: []Promotion{{Old: "bad", New: "bad"}}, Dead: true},
			{Queue: "q", Jobs: []Promotion{{Old: "quarantined", New: "quarantined"}}, Quarantine: true},
		}, w.today))
	}},
	{script: "promote", jobs: []string{"a", "plain"}, begin: func(w *world) call {
		w.dueAt(w.keys.Schedule(), time.Hour, "a", "plain")
		return try(w, w.keys.Promote(w.keys.Schedule(), []Promotions{
			{Queue: "q", Jobs: []Promotion{{Old: "a", New: "a", Owned: Owned{Lock: lockOf("a")}}, {Old: "plain", New: "plain"}}},
		}, w.today))
	}},
	{script: "promote_large", jobs: []string{tooLarge}, begin: func(w *world) call {
		w.dueAt(w.keys.Schedule(), time.Hour, tooLarge)
		return try(w, w.keys.PromoteLarge(w.keys.Schedule(), "q", LargeOf(tooLarge)))
	}},
	{script: "due", jobs: []string{"due", tooLarge}, begin: func(w *world) call {
		w.dueAt(w.keys.Schedule(), time.Hour, "due", tooLarge)
		return try(w, w.keys.Due(w.keys.Schedule(), 0, MaxBytes, len("due")))
	}},
	{script: "entries", jobs: []string{"job", tooLarge}, begin: func(w *world) call {
		identity := w.hold("job", tooLarge)
		return try(w, w.keys.Entries(w.keys.Working("q", identity), 0, MaxBytes, len("job")))
	}},
	{script: "deregister", jobs: []string{"job"}, begin: func(w *world) call {
		return try(w, w.keys.Deregister(w.hold("job"), []string{"q"}))
	}},
	{script: "act", jobs: []string{"retried", "killed", "deleted"}, once: true, begin: func(w *world) call {
		w.dueAt(w.keys.Retry(), time.Hour, "retried", "killed", "deleted")
		return try(w, w.keys.Act(Source{Key: w.keys.Retry()}, eachDestination()))
	}},
	{script: "act", jobs: []string{"retried", "killed", "deleted"}, once: true, begin: func(w *world) call {
		w.quarantine("r", "retried", "killed", "deleted")
		return try(w, w.keys.Act(Source{Key: w.keys.Quarantine("r"), List: true, Orderly: 10_000}, eachDestination()))
	}},
	{script: "act", jobs: []string{"oldest", "middle", "youngest"}, once: true, begin: func(w *world) call {
		w.push("r", "oldest", "middle", "youngest")
		return try(w, w.keys.Act(Source{Key: w.keys.Queue("r"), List: true, Orderly: 1, Near: 1}, groupTo(DestinationDead, "middle")))
	}},
	{script: "act", jobs: []string{"a", "plain", "last"}, once: true, begin: func(w *world) call {
		w.dueAt(w.keys.Dead(), time.Hour, "plain", "a", "last")
		return try(w, w.keys.Act(Source{Key: w.keys.Dead()}, ofLock(DestinationQueue, false, nil)))
	}},
	{script: "act", jobs: []string{"retried"}, once: true, begin: func(w *world) call {
		w.dueAt(w.keys.Dead(), time.Hour, "retried")
		groups := groupTo(DestinationQueue, "retried")
		groups[0].Queue, groups[0].Unmarked = "q", new(int64)
		return try(w, w.keys.Act(Source{Key: w.keys.Dead()}, groups))
	}},
	{script: "act", jobs: []string{"a", "plain", "last", "a2"}, once: true, begin: func(w *world) call {
		w.unique("a")
		w.settle(w.begin(false), 1, locked(job.Retried("a", time.Hour), nil))
		w.unique("b")
		w.dueAt(w.keys.Retry(), -time.Hour, "plain", "last")
		return try(w, w.keys.Act(Source{Key: w.keys.Retry()}, ofLock(DestinationDead, false, onceMore)))
	}},
	{script: "settle", jobs: []string{row("1"), row("2"), row("3"), row("4")}, once: true, begin: func(w *world) call {
		identity := w.batchOf("1", "2", "3", "4")
		return try(w, w.keys.Settle(w.settlement(identity, 1, memberEnd("1", job.Done(), MemberDone),
			memberEnd("2", job.Retried(row("2"), time.Hour), MemberFailed), memberEnd("3", job.Died(row("3")), MemberDied),
			memberEnd("4", job.Cancelled(), MemberRemoved))))
	}},
	{script: "settle", jobs: []string{row("1"), row("2"), row("3"), row("4")}, once: true, begin: func(w *world) call {
		return try(w, w.keys.Settle(w.settlement(w.batchOf("1", "2", "3", "4"), 1, memberEnd("1", job.Done(), MemberDone)))) // far from its end
	}},
	{script: "settle", jobs: []string{row("1"), row("2"), row("3"), row("4")}, once: true, begin: func(w *world) call {
		identity := w.batchOf("1", "2", "3", "4")
		w.redis("SADD", w.keys.BatchFailed("b1"), "1")
		return try(w, w.keys.Settle(w.settlement(identity, 1, memberEnd("1", job.Done(), MemberDone))))
	}},
	{script: "settle", jobs: []string{"done", "next a", "next b"}, once: true, begin: func(w *world) call {
		done := endWith("done", job.Done(), [2]string{"r", "next a"}, [2]string{"s", "next b"})
		return try(w, w.keys.Settle(w.settlement(w.hold("done"), 1, done)))
	}},
	{script: "recover", jobs: []string{row("1")}, begin: func(w *world) call {
		identity := w.batchOf("1")
		w.lapse(identity)
		died := Orphan{Old: row("1"), New: row("1"), Home: HomeDead, Owned: Owned{Member: memberOf(row("1"), MemberDied)}}
		return try(w, w.keys.Recover(identity, []string{"q"}, []Orphans{{Queue: "q", Entries: []Orphan{died}}}, w.today))
	}},
	{script: "act", jobs: []string{row("1")}, once: true, begin: func(w *world) call {
		w.batchOf("1")
		w.dueAt(w.keys.Retry(), time.Hour, row("1"))
		group := ActGroup{Destination: DestinationNone, Jobs: []Promotion{{Old: row("1"), Owned: Owned{Member: memberOf(row("1"), MemberRemoved)}}}}
		return try(w, w.keys.Act(Source{Key: w.keys.Retry()}, []ActGroup{group}))
	}},
	{script: "push_unique", jobs: []string{row("1"), row("2")}, begin: func(w *world) call {
		require.Equal(w, BatchNew, w.newBatch("b1", nil))
		return try(w, w.keys.PushUnique(nil, rows("b1", "1", "2")))
	}},
	{script: "push_unique", jobs: []string{"a", "b"}, begin: func(w *world) call {
		keyed := func(jid string) NewJob {
			key := &Lock{Digest: "key of " + jid, Owner: OwnerOf(jid, "Mail"), Hold: time.Hour, Kept: true}
			return NewJob{Queue: jid, Job: jid, Lock: &Lock{Digest: "lock of " + jid, Owner: key.Owner, Hold: time.Minute}, Key: key}
		}
		return try(w, w.keys.PushUnique(nil, []NewJob{keyed("a"), keyed("b")}))
	}},
	{script: "batch_new", begin: func(w *world) call {
		require.Equal(w, BatchNew, w.newBatch("b1", nil))
		b := NewBatch{Batch: Batch{"b2", "calls"}}
		nested(&b)
		return try(w, w.keys.NewBatch(b))
	}},
	{script: "batch_seal", begin: func(w *world) call {
		require.Equal(w, BatchNew, w.newBatch("b1", nil))
		return try(w, w.keys.SealBatch(Batch{"b1", "calls"}))
	}},
	{script: "batch_nested", begin: func(w *world) call {
		w.endMember(w.family(), 1, rowOf("b3", "1"), job.Died("x"), MemberDied)
		return try(w, w.keys.CountNested("b3", w.batch("b3")))
	}},
	{script: "batch_drop", once: true, begin: func(w *world) call {
		require.Equal(w, BatchNew, w.newBatch("b1", nil))
		require.Equal(w, BatchNew, w.newBatch("b2", nested))
		w.seal("b1")
		return try(w, w.keys.DropBatch("b2", w.batch("b2"), false))
	}},
	{script: "start", jobs: []string{"a1", "a2", "a3", "a4"}, once: true, begin: func(w *world) call {
		gate := gateOf("l:k", 2)
		identity := w.halfOpen(gate)
		w.holdMore(identity, "q", "a3", "a4")
		return try(w, w.keys.Start(identity, startsOf("q", gate, "a3", "a4")))
	}},
	{script: "start", jobs: []string{"a1", "a2", "a3"}, once: true, begin: func(w *world) call {
		gate := gateOf("l:k", 2)
		identity := w.halfOpen(gate)
		ask(w, w.keys.ChangeLimits(LimitSet, []LimitChange{{Name: "l", Size: Size{Concurrency: 5}}}))
		w.redis("SET", w.keys.Stop("l:k"), "1", "PX", "60000")
		w.holdMore(identity, "q", "a3")
		w.redis("LMOVE", w.keys.Queue("other"), w.keys.Working("q", identity), "RIGHT", "LEFT")
		return try(w, w.keys.Start(identity, startsOf("q", gate, "a1", "a3")))
	}},
	{script: "start", jobs: []string{"a1"}, once: true, begin: func(w *world) call {
		gate, identity := w.rule(ClassRule{Class: "A", Concurrency: 2}), w.process("q")
		w.rule(ClassRule{Class: "A", Drop: true})
		w.holdMore(identity, "q", "a1")
		return try(w, w.keys.Start(identity, startsOf("q", &gate, "a1")))
	}},
	{script: "start", jobs: []string{"a1"}, once: true, begin: func(w *world) call {
		gate, identity := w.rule(ClassRule{Class: "A", Drop: true}), w.process("q")
		ask(w, w.keys.RemoveClassRule("A"))
		w.holdMore(identity, "q", "a1")
		return try(w, w.keys.Start(identity, startsOf("q", &gate, "a1")))
	}},
	{script: "settle", jobs: []string{"a1", "a2", "a3", "a4"}, once: true, begin: func(w *world) call {
		gate := gateOf("l:k", 2)
		identity := w.halfOpen(gate)
		w.enter(identity, gate, "a3", "a4")
		gates := func(s Settled) Settled { s.Gate = gate; return s }
		s := w.settlement(identity, 2, gates(end("q", "a3", job.Done())), gates(end("q", "a2", job.Requeued())))
		s.Queues = []string{"q"}
		return try(w, w.keys.Settle(s))
	}},
	{script: "settle", jobs: []string{"a1", "a2", "a3"}, once: true, begin: func(w *world) call {
		gate := gateOf("l:k", 2)
		identity := w.halfOpen(gate)
		w.enter(identity, gate, "a3")
		w.redis("SET", w.keys.Stop("l:k"), "1", "PX", "60000")
		s := w.settlement(identity, 2, Settled{Queue: "q", Bytes: "a2", Outcome: job.Waits(time.Hour), Gate: gate})
		s.Queues = []string{"q"}
		return try(w, w.keys.Settle(s))
	}},
	{script: "recover", jobs: []string{"a1", "a2", "a3"}, begin: func(w *world) call {
		gate := gateOf("l:k", 2)
		identity := w.halfOpen(gate)
		w.enter(identity, gate, "a3")
		w.lapse(identity)
		return try(w, w.keys.Recover(identity, []string{"q"}, []Orphans{{Queue: "q", Entries: []Orphan{
			{Old: "a3", New: "a3", Home: HomeQuarantine}, {Old: "a2", New: "a2"},
		}}}, w.today))
	}},
	{script: "admit", jobs: []string{"a1", "a2", "a3", "a4"}, begin: func(w *world) call {
		gate := gateOf("l:k", 2)
		w.enter(w.halfOpen(gate), gate, "a3", "a4")
		ask(w, w.keys.ChangeLimits(LimitSet, []LimitChange{{Name: "l", Size: Size{Concurrency: 5}}}))
		return try(w, w.keys.Admit("l:k", "q"))
	}},
	{script: "lapse", jobs: []string{"a1", "a2"}, begin: func(w *world) call {
		w.halfOpen(gateOf("l:k", 2))
		w.agedAdmission(time.Hour)
		return try(w, w.keys.Lapse(ask(w, w.keys.Admissions())))
	}},
	{script: "class_rule", jobs: []string{"a1"}, begin: func(w *world) call {
		gate := w.rule(ClassRule{Class: "A"})
		require.Len(w, w.enter(w.process("q"), &gate, "a1").Parked, 1)
		return try(w, w.keys.RemoveClassRule("A"))
	}},
	{script: "class_rule", begin: func(w *world) call { return try(w, w.keys.SetClassRule(ClassRule{Class: "A", Concurrency: 2})) }},
	{script: "free_slots", jobs: []string{"a1"}, begin: func(w *world) call {
		identity := w.halfOpen(gateOf("l:k", 2))
		w.redis("DEL", w.keys.Working("q", identity))
		ask(w, w.keys.Deregister(identity, []string{"q"}))
		return try(w, w.keys.FreeSlots(identity, []string{"q"}))
	}},
	{script: "acquire", begin: func(w *world) call { return try(w, w.keys.Acquire(*gateOf("l:k", 1), "h")) }},
	{script: "free_leases", begin: func(w *world) call {
		ask(w, w.keys.Acquire(*gateOf("l:k", 1), "h"))
		w.redis("ZADD", w.keys.Leases(), "1", "l:k\nh")
		return try(w, w.keys.FreeLeases())
	}},
	{script: "act", jobs: []string{"a1", "a2"}, begin: func(w *world) call {
		w.halfOpen(gateOf("l:k", 2))
		return try(w, w.keys.Act(Source{Key: w.keys.Queue("other"), List: true, Orderly: 1000}, groupTo(DestinationDead, "a1")))
	}},
	{script: "act", jobs: []string{"l:k"}, once: true, begin: func(w *world) call {
		gate := gateOf("l:k", 1)
		w.enter(w.process("q"), gate, "a1", "a2")
		group := ActGroup{Destination: DestinationNone, Jobs: []Promotion{{Old: "q\na2", Owned: Owned{Waits: &Waits{Gate: "l:k"}}}}}
		return try(w, w.keys.Act(Source{Key: w.keys.WaitingList("l:k"), List: true, Orderly: 1000}, []ActGroup{group}))
	}},
	{script: "forget", jobs: []string{"job"}, begin: func(w *world) call {
		identity := w.hold("job")
		require.Equal(w, 1, ask(w, w.keys.Deregister(identity, []string{"q"})))
		return try(w, w.keys.Forget(identity, []string{"q"}, 0))
	}},
}

// Redis rolls nothing back: a script that is stopped in its middle, at a command that its user may not call,
// has done its first half. Whatever the command, each job is then in one place, and when the command is
// allowed the same call ends where it would have ended.
func TestADeniedCommandLosesAndDoublesNoJob(t *testing.T) {
	t.Parallel()
	uses := make(map[string][]string)
	for _, s := range readScripts(t) {
		for _, found := range command.FindAllStringSubmatch(s.code, -1) {
			if !slices.Contains(uses[s.name], found[2]) {
				uses[s.name] = append(uses[s.name], found[2])
			}
		}
	}
	for _, m := range moves {
		require.Contains(t, uses, m.script)
	}
	server := drivertest.Start(t) // the users of the shared one belong to all tests
	for _, m := range moves {
		for _, name := range uses[m.script] {
			t.Run(m.script+"_without_"+strings.ToLower(name), func(t *testing.T) {
				w := newWorld(t, openGoredis, server.URL())
				m.survives(w, m.begin(w), func() { w.redis("ACL", "SETUSER", "default", "-"+name) }, func() {
					_, err := server.Do(t.Context(), "ACL", "SETUSER", "default", "+@all")
					require.NoError(t, err)
				})
			})
		}
	}
}

// The same goes for a key that a program made another type.
func TestABrokenKeyLosesAndDoublesNoJob(t *testing.T) {
	t.Parallel()
	for _, m := range moves {
		w := newWorld(t, openGoredis, drivertest.Redis(t).URL())
		for at, key := range m.begin(w).keys {
			if w.number("EXISTS", key) == 1 {
				continue // what is in it would be lost, by the program that broke it
			}
			t.Run(m.script+strings.TrimPrefix(key, w.prefix), func(t *testing.T) {
				w := newWorld(t, openGoredis, drivertest.Redis(t).URL())
				call := m.begin(w)
				m.survives(w, call, func() { w.redis("SET", call.keys[at], "neither list nor set") }, func() { w.redis("DEL", call.keys[at]) })
			})
		}
	}
}

// survives makes a call while something is wrong, and again when it is mended.
func (m move) survives(w *world, c call, damage, mend func()) {
	w.Helper()
	before := w.copies(m.jobs)
	damage()
	err := c.make()
	mend()
	if err != nil {
		require.Equal(w, before, w.copies(m.jobs), "after %v", err)
	}
	if err != nil || !m.once {
		require.NoError(w, c.make())
	}
	undisturbed := newWorld(w, openGoredis, drivertest.Redis(w).URL())
	require.NoError(w, m.begin(undisturbed).make())
	w.pollGates() // what an end may not admit, the poller does
	undisturbed.pollGates()
	require.Equal(w, undisturbed.hash(undisturbed.keys.Gates()), w.hash(w.keys.Gates()), "after %v", err)
	require.Equal(w, undisturbed.places(m.jobs), w.places(m.jobs), "after %v", err)
	require.Equal(w, undisturbed.batches(), w.batches(), "after %v", err)
}

// batches are the members of all batches, by key, the callbacks that they have called, and the classes of
// these.
func (w *world) batches() map[string]any {
	w.Helper()
	found := map[string]any{"called": w.called()}
	for key, value := range w.everything() {
		switch name := strings.TrimPrefix(key, w.prefix); v := value.(type) {
		case map[string]bool:
			if strings.HasPrefix(name, ":belay:batch:") {
				found[name] = v
			}
		case map[string]string:
			if strings.HasPrefix(name, ":belay:batch:") {
				found[name] = slices.Sorted(maps.Keys(v))
			}
		}
	}
	return found
}

// copies are how many times each of these jobs lies anywhere.
func (w *world) copies(jobs []string) map[string]int {
	w.Helper()
	count := make(map[string]int)
	for jid, places := range w.places(jobs) {
		count[jid] = len(places)
	}
	return count
}

// places are the keys, without what stands before and behind their kind, in which each of these jobs lies.
func (w *world) places(jobs []string) map[string][]string {
	w.Helper()
	found := make(map[string][]string)
	for _, jid := range jobs {
		found[jid] = nil
	}
	all := w.everything()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		entries, _ := all[key].([]string)
		for _, entry := range entries {
			if strings.HasPrefix(key, w.keys.WaitingList("")) {
				entry = ParseWaiter(entry).Bytes
			}
			if _, known := found[entry]; known {
				found[entry] = append(found[entry], strings.TrimPrefix(key, w.prefix))
			}
		}
	}
	return found
}
