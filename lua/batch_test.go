package lua

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

// row is the payload of a member of batch b1, whose callbacks go to the queue "calls".
func row(jid string) string { return rowOf("b1", jid) }

func rowOf(id, jid string) string {
	return fmt.Sprintf(`{"retry":true,"queue":"q","belay_batch":"%s/calls","args":[],"class":"Row","jid":"%s","created_at":1}`, id, jid)
}

func memberOf(payload string, as MemberEnd) *Member {
	j, err := job.Parse(payload)
	if err != nil {
		panic(err)
	}
	return MemberOf(j, as)
}

// rows are new members of a batch.
func rows(id string, jids ...string) []NewJob {
	jobs := make([]NewJob, len(jids))
	for i, jid := range jids {
		payload := rowOf(id, jid)
		jobs[i] = NewJob{Queue: "q", Job: payload, Member: memberOf(payload, MemberDone)}
	}
	return jobs
}

// callback is the text of a callback of batch b1.
func callback(what string) string { return `{"class":"` + what + `","jid":"` + what + `","args":[]` }

func (w *world) newBatch(id string, edit func(b *NewBatch)) BatchWord {
	w.Helper()
	b := NewBatch{
		Batch: Batch{id, "calls"}, OnComplete: callback("Complete"), OnSuccess: callback("Success"), OnDeath: callback("Death"), Unit: job.Millis,
	}
	if edit != nil {
		edit(&b)
	}
	return ask(w, w.keys.NewBatch(b))
}

// batchOf makes batch b1 with these members, in the hands of a process, and seals it.
func (w *world) batchOf(jids ...string) (identity string) {
	w.Helper()
	require.Equal(w, BatchNew, w.newBatch("b1", nil))
	require.Equal(w, PushStored, ask(w, w.keys.PushUnique(nil, rows("b1", jids...))).Word)
	identity = w.process("q")
	require.Len(w, w.take(identity, 100, "q").Jobs[0].Bytes, len(jids))
	w.seal("b1")
	return identity
}

func (w *world) seal(id string) {
	w.Helper()
	require.True(w, ask(w, w.keys.SealBatch(Batch{id, "calls"})))
}

// called returns the classes of the callbacks that were enqueued, in order.
func (w *world) called() (classes []string) {
	w.Helper()
	for _, payload := range w.waiting("calls") {
		j, err := job.Parse(payload)
		require.NoError(w, err)
		_, stamped := j.EnqueuedAt()
		require.True(w, stamped, payload)
		classes = append(classes, j.Class())
	}
	return classes
}

func (w *world) batch(id string) BatchRead {
	w.Helper()
	b, ok, err := w.keys.ReadBatch(w.Context(), w.client, id)
	require.NoError(w, err)
	require.True(w, ok)
	return b
}

// figures are total, pending, failed, dead and removed of the batch b1.
func (w *world) figures() [5]int {
	w.Helper()
	b := w.batch("b1")
	return [5]int{b.Total, b.Pending, b.Failed, b.Dead, b.Removed}
}

func memberEnd(jid string, outcome job.Outcome, as MemberEnd) Settled {
	s := end("q", row(jid), outcome)
	if as != "" {
		s.Member = memberOf(s.Bytes, as)
	}
	return s
}

func TestBatch(t *testing.T) {
	keep(t,
		promise{"calls_complete_and_success_in_the_step_that_ends_its_last_member", func(w *world) {
			identity := w.batchOf("1", "2", "3")
			require.Equal(w, allSettled, w.settle(identity, 1, memberEnd("1", job.Done(), MemberDone), memberEnd("2", job.Done(), MemberDone)))
			require.Empty(w, w.called())
			require.Equal(w, [5]int{3, 1, 0, 0, 0}, w.figures())
			last := w.settlement(identity, 2, memberEnd("3", job.Done(), MemberDone))
			require.Equal(w, allSettled, ask(w, w.keys.Settle(last)))
			require.Equal(w, []string{"Complete", "Success"}, w.called())
			require.Equal(w, [5]int{3, 0, 0, 0, 0}, w.figures())
			require.Contains(w, w.texts("SMEMBERS", w.keys.Queues()), "calls")
			require.False(w, w.batch("b1").SuccessAt.IsZero())
			w.within(w.now()+86000, w.score(w.keys.Batches(), "b1"), w.now()+86401)
			w.unchanged(func() { require.Equal(w, allSettled, ask(w, w.keys.Settle(last)), "the reply was lost") })
		}},
		promise{"is_complete_when_each_member_has_run_and_over_when_each_is_done", func(w *world) {
			identity := w.batchOf("1", "2")
			w.settle(identity, 1, memberEnd("1", job.Retried(row("1"), time.Hour), MemberFailed))
			require.Equal(w, [5]int{2, 2, 1, 0, 0}, w.figures())
			w.settle(identity, 2, memberEnd("2", job.Done(), MemberDone))
			require.Equal(w, []string{"Complete"}, w.called())
			promoted := []Promotions{{Queue: "q", Jobs: []Promotion{{Old: row("1"), New: row("1")}}}}
			w.redis("ZADD", w.keys.Retry(), "1", row("1"))
			require.Equal(w, 1, ask(w, w.keys.Promote(w.keys.Retry(), promoted, w.today)))
			w.take(identity, 1, "q")
			w.settle(identity, 3, memberEnd("1", job.Retried(row("1"), time.Hour), MemberFailed))
			require.Equal(w, []string{"Complete"}, w.called(), "it failed again")
			w.redis("ZADD", w.keys.Retry(), "1", row("1"))
			ask(w, w.keys.Promote(w.keys.Retry(), promoted, w.today))
			w.take(identity, 1, "q")
			w.settle(identity, 4, memberEnd("1", job.Done(), MemberDone))
			require.Equal(w, []string{"Complete", "Success"}, w.called())
		}},
		promise{"calls_death_once_and_counts_a_dead_member_that_an_operator_retries", func(w *world) {
			identity := w.batchOf("1", "2")
			w.settle(identity, 1, memberEnd("1", job.Died(row("1")), MemberDied), memberEnd("2", job.Discarded(true), MemberDied))
			require.Equal(w, []string{"Death", "Complete"}, w.called())
			require.Equal(w, [5]int{2, 2, 2, 2, 0}, w.figures())
			w.within(w.now()+DefaultDeadFor.Seconds()-600, w.score(w.keys.Batches(), "b1"), w.now()+DefaultDeadFor.Seconds()+1)
			retry := ActGroup{Destination: DestinationQueue, Queue: "q", Jobs: []Promotion{
				{Old: row("1"), New: row("1"), Owned: Owned{Member: memberOf(row("1"), MemberRevived)}},
			}}
			require.Equal(w, Acted{}, ask(w, w.keys.Act(Source{Key: w.keys.Dead()}, []ActGroup{retry})))
			require.Equal(w, [5]int{2, 2, 2, 1, 0}, w.figures())
			w.take(identity, 1, "q")
			w.redis("ZADD", w.keys.Batches(), "1", "b1")
			w.settle(identity, 2, memberEnd("1", job.Died(row("1")), MemberDied))
			require.Equal(w, []string{"Death", "Complete"}, w.called())
			w.within(w.now()+DefaultDeadFor.Seconds()-600, w.score(w.keys.Batches(), "b1"), w.now()+DefaultDeadFor.Seconds()+1)
			ask(w, w.keys.Act(Source{Key: w.keys.Dead()}, []ActGroup{retry}))
			w.take(identity, 1, "q")
			w.settle(identity, 3, memberEnd("1", job.Done(), MemberDone))
			require.Equal(w, [5]int{2, 1, 1, 1, 0}, w.figures())
			require.Equal(w, []string{"Death", "Complete"}, w.called(), "the member that was not kept never ends")
		}},
		promise{"counts_a_dead_member_as_dead_when_it_is_trimmed_from_the_dead_set", func(w *world) {
			w.keys = w.keys.WithDeadLimits(DeadLimits{Limit: 1})
			identity := w.batchOf("1", "2", "3")
			w.settle(identity, 1, memberEnd("1", job.Died(row("1")), MemberDied))
			w.settle(identity, 2, memberEnd("2", job.Died(row("2")), MemberDied), memberEnd("3", job.Done(), MemberDone))
			require.Equal(w, []string{row("2")}, w.sorted(w.keys.Dead()), "the first one was trimmed")
			require.Equal(w, [5]int{3, 2, 2, 2, 0}, w.figures())
			require.Equal(w, BatchStateDead, w.batch("b1").State)
			require.Equal(w, []string{"Death", "Complete"}, w.called(), "its success is never called")
			retry := ActGroup{Destination: DestinationQueue, Queue: "q", Jobs: []Promotion{
				{Old: row("1"), New: row("1"), Owned: Owned{Member: memberOf(row("1"), MemberRevived)}},
			}}
			w.unchanged(func() {
				require.Equal(w, Acted{Gone: []int{0}}, ask(w, w.keys.Act(Source{Key: w.keys.Dead()}, []ActGroup{retry})), "it cannot be retried")
			})
		}},
		promise{"counts_what_is_cancelled_or_deleted_as_removed", func(w *world) {
			require.Equal(w, BatchNew, w.newBatch("b1", nil))
			ask(w, w.keys.PushUnique(nil, rows("b1", "1", "2")))
			w.seal("b1")
			group := ActGroup{Destination: DestinationNone, Jobs: []Promotion{
				{Old: row("1"), Owned: Owned{Member: memberOf(row("1"), MemberRemoved)}},
				{Old: row("gone"), Owned: Owned{Member: memberOf(row("gone"), MemberRemoved)}},
			}}
			require.Equal(w, Acted{Gone: []int{1}}, ask(w, w.keys.Act(Source{Key: w.keys.Queue("q"), List: true, Orderly: 1000}, []ActGroup{group})))
			require.Equal(w, [5]int{2, 1, 0, 0, 1}, w.figures())
			identity := w.process("q")
			w.take(identity, 1, "q")
			w.settle(identity, 1, memberEnd("2", job.Cancelled(), MemberRemoved))
			require.Equal(w, [5]int{2, 0, 0, 0, 2}, w.figures())
			require.Equal(w, []string{"Complete", "Success"}, w.called())
		}},
		promise{"forgets_far_from_its_end_that_a_member_failed_or_died_when_it_is_done", func(w *world) {
			identity := w.batchOf("1", "2", "3", "4", "5")
			w.redis("SADD", w.keys.BatchFailed("b1"), "1", "2")
			w.redis("SADD", w.keys.BatchDead("b1"), "2")
			w.settle(identity, 1, memberEnd("1", job.Done(), MemberDone), memberEnd("2", job.Done(), MemberDone))
			require.Equal(w, [5]int{5, 3, 0, 0, 0}, w.figures())
		}},
		promise{"calls_in_the_step_that_ends_its_last_members_in_several_groups", func(w *world) {
			identity := w.batchOf("1", "2", "3", "4")
			w.settle(identity, 1, memberEnd("1", job.Done(), MemberDone), memberEnd("2", job.Discarded(false), MemberDone))
			require.Empty(w, w.called())
			require.Equal(w, [5]int{4, 2, 0, 0, 0}, w.figures())
			w.settle(identity, 2, memberEnd("3", job.Done(), MemberDone), memberEnd("4", job.Discarded(false), MemberDone))
			require.Equal(w, []string{"Complete", "Success"}, w.called())
		}},
		promise{"counts_nothing_for_a_job_that_the_process_had_lost", func(w *world) {
			identity := w.batchOf("1")
			w.redis("DEL", w.keys.Working("q", identity))
			require.Equal(w, []int{0}, w.settle(identity, 1, memberEnd("1", job.Done(), MemberDone)).Lost)
			require.Equal(w, [5]int{1, 1, 0, 0, 0}, w.figures())
		}},
		promise{"counts_a_member_that_its_crashes_kill", func(w *world) {
			identity := w.batchOf("1", "2", "3")
			w.lapse(identity)
			orphans := []Orphan{
				{Old: row("3"), New: row("3"), Home: HomeDead, Owned: Owned{Member: memberOf(row("3"), MemberDied)}},
				{Old: row("2"), New: row("2"), Home: HomeQuarantine}, {Old: row("1"), New: row("1")},
			}
			require.Equal(w, 3, ask(w, w.keys.Recover(identity, []string{"q"}, []Orphans{{Queue: "q", Entries: orphans}}, w.today)).Moved)
			require.Equal(w, []string{"Death"}, w.called())
			require.Equal(w, [5]int{3, 3, 1, 1, 0}, w.figures())
		}},
		promise{"counts_a_member_that_is_too_large", func(w *world) {
			require.Equal(w, BatchNew, w.newBatch("b1", nil))
			large := strings.Replace(row("1"), "[]", `["`+strings.Repeat("x", 4000)+`"]`, 1)
			ask(w, w.keys.PushUnique(nil, []NewJob{{Queue: "q", Job: large, Member: memberOf(large, MemberDone)}}))
			require.True(w, ask(w, w.keys.KillLarge(NewTooLarge(LargeOf(large), w.keys.Queue("q"), "q", 1000, w.today, job.Seconds))))
			require.Equal(w, []string{"Death"}, w.called())
			require.Equal(w, [5]int{1, 1, 1, 1, 0}, w.figures())
		}},
		promise{"is_over_at_once_if_it_is_empty", func(w *world) {
			require.Equal(w, BatchNew, w.newBatch("b1", nil))
			w.seal("b1")
			require.Equal(w, []string{"Complete", "Success"}, w.called())
			w.unchanged(func() { w.seal("b1") })
			require.False(w, ask(w, w.keys.SealBatch(Batch{"none", "calls"})))
		}},
		promise{"is_made_once_and_refuses_members_when_it_is_over", func(w *world) {
			require.Equal(w, PushOver, ask(w, w.keys.PushUnique(nil, rows("b1", "1"))).Word, "there is none")
			require.Equal(w, BatchNew, w.newBatch("b1", nil))
			w.unchanged(func() { require.Equal(w, BatchOpen, w.newBatch("b1", nil)) })
			w.seal("b1")
			require.Equal(w, BatchOver, w.newBatch("b1", nil))
			w.unchanged(func() {
				require.Equal(w, PushOver, ask(w, w.keys.PushUnique(nil, append(into("q", "other"), rows("b1", "1")...))).Word)
			})
		}},
		promise{"stores_a_pending_member_once_and_counts_what_is_stored", func(w *world) {
			require.Equal(w, BatchNew, w.newBatch("b1", nil))
			locked := rows("b1", "1", "2", "3")
			locked[2].Lock = lockOf("3")
			locked[2].Lock.Digest = lockOf("other").Digest
			w.redis("SET", w.keys.Lock(locked[2].Lock.Digest), "-other\nC\n1")
			key := &IdempotencyKey{Scope: w.keys.IdempotencyScope("s", 1), Number: 1, Mark: "m", Remember: time.Hour}
			pushed := ask(w, w.keys.PushUnique(key, locked))
			require.Equal(w, Pushed{Word: PushStored, Holders: []string{"", "", "other"}}, pushed)
			require.Equal(w, [5]int{2, 2, 0, 0, 0}, w.figures(), "a refused duplicate is no member")
			w.unchanged(func() { require.Equal(w, pushed, ask(w, w.keys.PushUnique(key, locked))) })
			require.Equal(w, PushStored, ask(w, w.keys.PushUnique(nil, rows("b1", "2", "4"))).Word)
			require.Equal(w, []string{row("1"), row("2"), row("4")}, w.waiting("q"))
			require.Equal(w, [5]int{3, 3, 0, 0, 0}, w.figures())
			require.Equal(w, PushStored, ask(w, w.keys.PushUnique(nil, rows("b1", "5", "5"))).Word)
			require.Equal(w, [5]int{4, 4, 0, 0, 0}, w.figures(), "twice in one call")
			require.Len(w, w.waiting("q"), 4)
		}},
		promise{"is_deleted_alone_and_its_jobs_then_count_nowhere", func(w *world) {
			identity := w.batchOf("1")
			read := w.batch("b1")
			w.unchanged(func() { require.Equal(w, DropKept, ask(w, w.keys.DropBatch("b1", read, true))) })
			w.redis("ZADD", w.keys.Batches(), "1", "b1")
			require.Equal(w, DropDropped, ask(w, w.keys.DropBatch("b1", read, true)))
			require.Empty(w, w.texts("KEYS", w.keys.Batch("*")))
			require.Equal(w, DropGone, ask(w, w.keys.DropBatch("b1", read, false)))
			require.Equal(w, allSettled, w.settle(identity, 1, memberEnd("1", job.Done(), MemberDone)))
			require.Empty(w, w.texts("KEYS", w.keys.Batch("*")))
			require.Empty(w, w.called())
		}},
		promise{"refuses_a_settle_whose_callback_could_not_be_stored", func(w *world) {
			identity := w.batchOf("1")
			w.redis("SET", w.keys.Queue("calls"), "no list")
			w.unchanged(func() {
				refused(w, "WRONGTYPE", w.keys.Settle(w.settlement(identity, 1, memberEnd("1", job.Done(), MemberDone))))
			})
		}},
	)
}

// A batchModel is batch b1 with its members in plain maps, and the process that runs them.
type batchModel struct {
	*world
	random                *rand.Rand
	identity              string
	number                int64
	pending, failed, dead map[string]bool
	removed               int
	called                []string
}

// TestBatchCountsLikeAModel ends members in any way, some of them in one step, until all are done, and compares
// after every step the counts and the callbacks with the model.
func TestBatchCountsLikeAModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			m := &batchModel{world: newWorld(t, openGoredis, drivertest.Redis(t).URL()), random: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // repeatable
				pending: make(map[string]bool), failed: make(map[string]bool), dead: make(map[string]bool)}
			var jids []string
			for n := range 30 {
				jids = append(jids, strconv.Itoa(n))
				m.pending[jids[n]] = true
			}
			m.identity = m.batchOf(jids...)
			for len(m.pending) > 0 {
				m.step()
			}
		})
	}
}

// step settles some of the members that are pending. A dead one is retried by an operator first.
func (m *batchModel) step() {
	m.Helper()
	var ends []Settled
	left := slices.Sorted(maps.Keys(m.pending))
	m.random.Shuffle(len(left), func(i, k int) { left[i], left[k] = left[k], left[i] })
	left = left[:min(len(left), 1+m.random.IntN(6))]
	for _, jid := range left {
		if m.dead[jid] {
			retry := ActGroup{Destination: DestinationQueue, Queue: "q", Jobs: []Promotion{
				{Old: row(jid), New: row(jid), Owned: Owned{Member: memberOf(row(jid), MemberRevived)}},
			}}
			require.Equal(m, Acted{}, ask(m.world, m.keys.Act(Source{Key: m.keys.Dead()}, []ActGroup{retry})))
			m.take(m.identity, 1, "q")
			delete(m.dead, jid)
			m.compare()
		}
	}
	for _, jid := range left {
		ends = append(ends, m.end(jid))
	}
	if len(m.failed) == len(m.pending) {
		m.call("Complete")
	}
	if len(m.pending) == 0 {
		m.call("Success")
	}
	m.number++
	m.settle(m.identity, m.number, ends...)
	m.compare()
	for jid := range m.pending { // those that failed or went back run again, and those that were lost are found
		if !m.dead[jid] && m.redis("LPOS", m.keys.Working("q", m.identity), row(jid)) == nil {
			m.redis("ZREM", m.keys.Retry(), row(jid))
			m.redis("LREM", m.keys.Queue("q"), "1", row(jid))
			m.redis("LPUSH", m.keys.Working("q", m.identity), row(jid))
		}
	}
}

// end chooses how a member ends, and notes in the model what that means.
func (m *batchModel) end(jid string) Settled {
	m.Helper()
	switch m.random.IntN(10) {
	case 0:
		m.failed[jid] = true
		return memberEnd(jid, job.Retried(row(jid), time.Hour), MemberFailed)
	case 1:
		m.failed[jid], m.dead[jid] = true, true
		m.call("Death")
		return memberEnd(jid, job.Died(row(jid)), MemberDied)
	case 2:
		return memberEnd(jid, job.Requeued(), "")
	case 3:
		m.redis("LREM", m.keys.Working("q", m.identity), "1", row(jid))
		return memberEnd(jid, job.Done(), MemberDone)
	}
	delete(m.pending, jid)
	delete(m.failed, jid)
	switch m.random.IntN(4) {
	case 0:
		m.removed++
		return memberEnd(jid, job.Cancelled(), MemberRemoved)
	case 1:
		return memberEnd(jid, job.Discarded(false), MemberDone)
	}
	return memberEnd(jid, job.Done(), MemberDone)
}

// call notes that a callback is called, unless it was.
func (m *batchModel) call(what string) {
	if !slices.Contains(m.called, what) {
		m.called = append(m.called, what)
	}
}

func (m *batchModel) compare() {
	m.Helper()
	require.Equal(m, [5]int{30, len(m.pending), len(m.failed), len(m.dead), m.removed}, m.figures())
	require.Equal(m, m.called, m.world.called())
}

// The cost of most settles of a large batch. Redis takes longer for each command and each check of a permission
// than for some members.
func TestFarFromItsEndABatchCostsFewCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openGoredis, drivertest.Start(t).URL()) // its statistics are of nothing else
	commands := func(identity string, number int64, ended Settled) int {
		calls := `(?m)^cmdstat_[^:]*:calls=(\d+)`
		before := w.sum(calls, "commandstats")
		require.Equal(t, allSettled, w.settle(identity, number, ended))
		return int(w.sum(calls, "commandstats") - before)
	}
	plain := w.hold("a", "b")
	commands(plain, 1, end("q", "a", job.Done())) // it begins the day's counters
	identity := w.batchOf("1", "2", "3")
	few := commands(plain, 2, end("q", "b", job.Done()))
	require.Equal(t, 3, commands(identity, 1, memberEnd("1", job.Done(), MemberDone))-few, "two counts, and one change")
}

// nested makes b2 in b1: its end jobs are members of b1.
func nested(b *NewBatch) {
	b.Parent, b.Complete, b.Success = Batch{"b1", "calls"}, "E1", "E2"
	b.OnComplete, b.OnSuccess = strings.TrimSuffix(row("E1"), "}"), strings.TrimSuffix(row("E2"), "}")
	b.OnDeath, b.OnNested = "", nestedDeath(b.ID)
}

// nestedDeath is the text of the job that counts the deaths of a nested batch in its parent.
func nestedDeath(id string) string { return `{"class":"Nested","jid":"nested ` + id + `","args":[]` }

// family makes b1, b2 in it, and b3 in b2, which has the member 1, and returns a process that holds it.
func (w *world) family() (identity string) {
	w.Helper()
	require.Equal(w, BatchNew, w.newBatch("b1", nil))
	require.Equal(w, BatchNew, w.newBatch("b2", nested))
	require.Equal(w, BatchNew, w.newBatch("b3", func(b *NewBatch) {
		nested(b)
		b.Parent, b.Complete, b.Success = Batch{"b2", "calls"}, "F1", "F2"
		b.OnComplete, b.OnSuccess = strings.TrimSuffix(rowOf("b2", "F1"), "}"), strings.TrimSuffix(rowOf("b2", "F2"), "}")
	}))
	require.Equal(w, PushStored, ask(w, w.keys.PushUnique(nil, rows("b3", "1"))).Word)
	for _, id := range []string{"b1", "b2", "b3"} {
		w.seal(id)
	}
	identity = w.process("q", "calls")
	w.take(identity, 1, "q")
	return identity
}

// endMember ends a run of a member of b3 or b2 that was taken from the queue "q".
func (w *world) endMember(identity string, number int64, member string, outcome job.Outcome, as MemberEnd) {
	w.Helper()
	require.Equal(w, allSettled, w.settle(identity, number, Settled{Queue: "q", Bytes: member, Outcome: outcome, Owned: Owned{Member: memberOf(member, as)}}))
}

// runCalls runs the callbacks until there are none, counts the deaths of nested batches where their jobs say so, and
// returns the classes of the other callbacks in order.
func (w *world) runCalls(identity string, number *int64) (classes []string) {
	w.Helper()
	for {
		taken := w.take(identity, 1, "calls").Jobs
		if len(taken) == 0 || len(taken[0].Bytes) == 0 {
			return classes
		}
		j, err := job.Parse(taken[0].Bytes[0])
		require.NoError(w, err)
		if id, nested := strings.CutPrefix(j.JID(), "nested "); nested {
			require.True(w, ask(w, w.keys.CountNested(id, w.batch(id))))
		} else if j.Class() != "Row" {
			classes = append(classes, j.Class())
		}
		*number++
		w.settle(identity, *number, Settled{Queue: "calls", Bytes: j.Raw(), Outcome: job.Done(), Owned: Owned{Member: MemberOf(j, MemberDone)}})
	}
}

// states are the states of b1, b2 and b3.
func (w *world) states() [3]BatchState {
	w.Helper()
	return [3]BatchState{w.batch("b1").State, w.batch("b2").State, w.batch("b3").State}
}

func TestDeathInANestedBatch(t *testing.T) {
	const complete, dead, over = BatchStateComplete, BatchStateDead, BatchStateOver
	member := rowOf("b3", "1")
	revive := func(w *world) {
		w.Helper()
		group := ActGroup{Destination: DestinationQueue, Queue: "q", Jobs: []Promotion{{Old: member, New: member, Owned: Owned{Member: memberOf(member, MemberRevived)}}}}
		require.Equal(w, Acted{}, ask(w, w.keys.Act(Source{Key: w.keys.Dead()}, []ActGroup{group})))
	}
	keep(t,
		promise{"is_a_death_in_each_batch_around_it_until_the_member_is_retried", func(w *world) {
			identity, number := w.family(), int64(1)
			w.endMember(identity, number, member, job.Died(member), MemberDied)
			require.Equal(w, []string{"Death", "Complete"}, w.runCalls(identity, &number))
			require.Equal(w, [3]BatchState{dead, dead, dead}, w.states())
			require.Equal(w, [5]int{2, 1, 1, 1, 0}, w.figures())
			require.False(w, w.batch("b2").DeathAt.IsZero())
			w.unchanged(func() { ask(w, w.keys.CountNested("b3", w.batch("b3"))) })

			revive(w)
			require.Empty(w, w.runCalls(identity, &number))
			require.Equal(w, [3]BatchState{complete, complete, complete}, w.states())
			require.Equal(w, [5]int{2, 1, 0, 0, 0}, w.figures())

			w.take(identity, 1, "q")
			number++
			w.endMember(identity, number, member, job.Died(member), MemberDied)
			require.Empty(w, w.runCalls(identity, &number), "b1 has called its death")
			require.Equal(w, [3]BatchState{dead, dead, dead}, w.states())

			revive(w)
			w.take(identity, 1, "q")
			number++
			w.endMember(identity, number, member, job.Done(), MemberDone)
			require.Equal(w, []string{"Success"}, w.runCalls(identity, &number))
			require.Equal(w, [3]BatchState{over, over, over}, w.states())
		}},
		promise{"ends_in_the_batches_around_it_when_the_member_is_deleted", func(w *world) {
			identity, number := w.family(), int64(1)
			w.endMember(identity, number, member, job.Died(member), MemberDied)
			w.runCalls(identity, &number)
			gone := ActGroup{Destination: DestinationNone, Jobs: []Promotion{{Old: member, Owned: Owned{Member: memberOf(member, MemberRemoved)}}}}
			ask(w, w.keys.Act(Source{Key: w.keys.Dead()}, []ActGroup{gone}))
			require.Equal(w, []string{"Success"}, w.runCalls(identity, &number))
			require.Equal(w, [3]BatchState{over, over, over}, w.states())
		}},
		promise{"is_counted_late_without_harm", func(w *world) {
			identity, number := w.family(), int64(1)
			w.endMember(identity, number, member, job.Died(member), MemberDied)
			b3, b2 := w.batch("b3"), w.batch("b2")
			w.take(identity, 1, "calls") // the job that counts the death waits
			revive(w)
			w.take(identity, 1, "calls") // F1
			w.take(identity, 1, "calls") // the job that counts that none is dead
			w.take(identity, 1, "q")
			number++
			w.endMember(identity, number, member, job.Done(), MemberDone)
			w.push("calls", rowOf("b2", "F1"))
			w.runCalls(identity, &number)
			require.Equal(w, [3]BatchState{over, over, over}, w.states())
			require.True(w, w.batch("b1").DeathAt.IsZero())
			before := w.figures()
			require.True(w, ask(w, w.keys.CountNested("b3", b3)))
			require.Equal(w, before, w.figures())
			require.False(w, w.batch("b2").DeathAt.IsZero(), "a member had died")
			require.Equal(w, []string{"Death"}, w.runCalls(identity, &number), "that of b1, though b2 was over")
			ask(w, w.keys.DropBatch("b3", b3, false))
			w.unchanged(func() { require.False(w, ask(w, w.keys.CountNested("b3", b3))) })
			ask(w, w.keys.DropBatch("b1", w.batch("b1"), false))
			w.unchanged(func() { ask(w, w.keys.CountNested("b2", b2)) })
		}},
		promise{"does_not_hide_that_its_end_job_has_died", func(w *world) {
			identity, number := w.family(), int64(1)
			w.endMember(identity, number, member, job.Done(), MemberDone)
			for range 2 { // F1, and then F2, which dies
				j, err := job.Parse(w.take(identity, 1, "calls").Jobs[0].Bytes[0])
				require.NoError(w, err)
				number++
				outcome, as := job.Done(), MemberDone
				if j.JID() == "F2" {
					outcome, as = job.Died(j.Raw()), MemberDied
				}
				w.settle(identity, number, Settled{Queue: "calls", Bytes: j.Raw(), Outcome: outcome, Owned: Owned{Member: MemberOf(j, as)}})
			}
			ask(w, w.keys.CountNested("b3", w.batch("b3")))
			require.Equal(w, []string{"Complete", "Death"}, w.runCalls(identity, &number))
			require.Equal(w, [3]BatchState{dead, dead, over}, w.states())
		}},
		promise{"is_over_in_the_batch_around_it_when_its_end_job_has_run", func(w *world) {
			identity, number := w.family(), int64(1)
			ask(w, w.keys.PushUnique(nil, rows("b2", "3", "4", "5"))) // b2 is far from its end
			w.endMember(identity, number, member, job.Died(member), MemberDied)
			w.runCalls(identity, &number)
			require.Equal(w, [2]int{1, 1}, [2]int{w.batch("b2").Dead, w.batch("b1").Dead})
			w.push("q", rowOf("b2", "F2")) // the member was retried and is done, and this is not counted yet
			w.take(identity, 100, "q")
			number++
			w.endMember(identity, number, rowOf("b2", "F2"), job.Retried("x", time.Hour), MemberFailed)
			w.runCalls(identity, &number)
			require.Equal(w, [2]int{0, 0}, [2]int{w.batch("b2").Dead, w.batch("b1").Dead}, "it runs again")
			ask(w, w.keys.CountNested("b3", w.batch("b3")))
			w.runCalls(identity, &number)
			require.Equal(w, [2]int{1, 1}, [2]int{w.batch("b2").Dead, w.batch("b1").Dead})
			w.push("q", rowOf("b2", "F2"))
			w.take(identity, 100, "q")
			number++
			w.endMember(identity, number, rowOf("b2", "F2"), job.Done(), MemberDone)
			w.runCalls(identity, &number)
			require.Equal(w, [2]int{0, 0}, [2]int{w.batch("b2").Dead, w.batch("b1").Dead})
		}},
	)
}

// The callbacks run in any order and as late as may be, while the member dies, is retried and is done: in the
// end each batch around it has counted what there is.
func TestDeathsInNestedBatchesInAnyOrder(t *testing.T) {
	member := rowOf("b3", "1")
	keep(t, promise{"are_counted", func(w *world) {
		seed := rand.Uint64()
		w.Logf("seed %d", seed)
		random, prefix := rand.New(rand.NewPCG(seed, 0)), w.prefix //nolint:gosec // no secret
		for round := range 30 {
			w.keys = NewKeys(fmt.Sprintf("%s.%d", prefix, round))
			identity, number, state, calls := w.family(), int64(0), "held", map[string]int{}
			settle := func(queue, bytes string, outcome job.Outcome, as MemberEnd) {
				number++
				require.Equal(w, allSettled, w.settle(identity, number, Settled{Queue: queue, Bytes: bytes, Outcome: outcome, Owned: Owned{Member: memberOf(bytes, as)}}))
			}
			var taken []string
			runCall := func(mayFail bool) bool {
				for _, jobs := range w.take(identity, 1, "calls").Jobs {
					taken = append(taken, jobs.Bytes...)
				}
				if len(taken) == 0 {
					return false
				}
				at := random.IntN(len(taken))
				bytes := taken[at]
				taken = slices.Delete(taken, at, at+1)
				j, err := job.Parse(bytes)
				require.NoError(w, err)
				if id, nested := strings.CutPrefix(j.JID(), "nested "); nested {
					ask(w, w.keys.CountNested(id, w.batch(id)))
				}
				if j.Class() == "Row" && mayFail && random.IntN(6) == 0 {
					settle("calls", bytes, job.Retried("x", time.Hour), MemberFailed)
					w.push("calls", bytes)
					return true
				}
				calls[j.Class()]++
				settle("calls", bytes, job.Done(), MemberDone)
				return true
			}
			for range 40 {
				switch act := random.IntN(12); {
				case act > 2:
					runCall(true)
				case state == "held" && act == 0:
					settle("q", member, job.Done(), MemberDone)
					state = "done"
				case state == "held":
					settle("q", member, job.Died(member), MemberDied)
					state = "dead"
				case state == "dead":
					group := ActGroup{Destination: DestinationQueue, Queue: "q", Jobs: []Promotion{{Old: member, New: member, Owned: Owned{Member: memberOf(member, MemberRevived)}}}}
					ask(w, w.keys.Act(Source{Key: w.keys.Dead()}, []ActGroup{group}))
					w.take(identity, 1, "q")
					state = "held"
				}
				b := w.batch("b1")
				require.True(w, b.Dead <= b.Failed && b.Failed <= b.Pending)
			}
			for runCall(false) {
			}
			for _, id := range []string{"b1", "b2", "b3"} {
				b := w.batch(id)
				require.Equal(w, [2]bool{state == "dead", state == "done"}, [2]bool{b.State == BatchStateDead, b.State == BatchStateOver}, id)
				require.Equal(w, state == "dead", b.Dead == 1, id)
			}
			died, done := !w.batch("b3").DeathAt.IsZero(), state == "done"
			require.Equal(w, [2]bool{died, done}, [2]bool{calls["Death"] == 1, calls["Success"] == 1}, "each once: %v", calls)
		}
	}})
}

func TestNestedBatch(t *testing.T) {
	keep(t,
		promise{"its_parent_is_complete_after_it_and_over_after_it", func(w *world) {
			require.Equal(w, BatchOrphan, w.newBatch("b2", nested), "there is no parent")
			require.Equal(w, BatchNew, w.newBatch("b1", nil))
			require.Equal(w, BatchNew, w.newBatch("b2", nested))
			w.unchanged(func() { require.Equal(w, BatchOpen, w.newBatch("b2", nested)) })
			require.Equal(w, [5]int{2, 2, 0, 0, 0}, w.figures(), "no member has run")
			require.Equal(w, 1, w.batch("b1").Nested)
			require.Equal(w, PushStored, ask(w, w.keys.PushUnique(nil, rows("b2", "1"))).Word)
			w.seal("b2")
			w.seal("b1")
			identity := w.process("q", "calls")
			w.take(identity, 1, "q")
			failed := Settled{Queue: "q", Bytes: rowOf("b2", "1"), Outcome: job.Retried("x", time.Hour), Owned: Owned{Member: memberOf(rowOf("b2", "1"), MemberFailed)}}
			require.Equal(w, allSettled, w.settle(identity, 1, failed))
			require.Equal(w, []string{"Row"}, w.called(), "E1")
			e1 := w.take(identity, 1, "calls").Jobs[0].Bytes[0]
			w.settle(identity, 2, Settled{Queue: "calls", Bytes: e1, Outcome: job.Done(), Owned: Owned{Member: memberOf(e1, MemberDone)}})
			require.Equal(w, []string{"Complete"}, w.called(), "the parent is complete: E2 counts as failed")
			w.push("q", rowOf("b2", "1"))
			w.take(identity, 1, "q")
			w.settle(identity, 3, Settled{Queue: "q", Bytes: rowOf("b2", "1"), Outcome: job.Done(), Owned: Owned{Member: memberOf(rowOf("b2", "1"), MemberDone)}})
			require.Equal(w, []string{"Complete", "Row"}, w.called())
			require.Equal(w, 1, w.batch("b1").Nested, "its OnSuccess has not run")
			w.take(identity, 1, "calls")
			e2 := w.take(identity, 1, "calls").Jobs[0].Bytes[0]
			w.settle(identity, 4, Settled{Queue: "calls", Bytes: e2, Outcome: job.Done(), Owned: Owned{Member: memberOf(e2, MemberDone)}})
			require.Equal(w, []string{"Success"}, w.called())
			require.Zero(w, w.batch("b1").Nested)
			require.Equal(w, DropDropped, ask(w, w.keys.DropBatch("b1", w.batch("b1"), false)))
			require.Zero(w, w.redis("EXISTS", w.keys.BatchNested("b1")))
		}},
		promise{"counts_as_failed_if_an_earlier_version_nested_it", func(w *world) {
			require.Equal(w, BatchNew, w.newBatch("b1", nil))
			require.Equal(w, BatchNew, w.newBatch("b2", nested))
			w.redis("DEL", w.keys.BatchNested("b1")) // which that version does not write
			require.Equal(w, [5]int{2, 2, 1, 0, 0}, w.figures())
			require.Equal(w, DropDropped, ask(w, w.keys.DropBatch("b2", w.batch("b2"), false)))
			require.Equal(w, [5]int{2, 0, 0, 0, 2}, w.figures())
		}},
		promise{"its_parent_is_kept_as_after_a_push", func(w *world) {
			require.Equal(w, BatchNew, w.newBatch("b1", nil))
			w.redis("ZADD", w.keys.Batches(), "1", "b1")
			require.Equal(w, BatchNew, w.newBatch("b2", nested))
			w.within(w.now()+KeepBatch.Seconds()-600, w.score(w.keys.Batches(), "b1"), w.now()+KeepBatch.Seconds()+1)
			w.redis("ZADD", w.keys.Batches(), "99999999999", "b1")
			require.Equal(w, BatchNew, w.newBatch("b3", nested))
			w.within(99999999999, w.score(w.keys.Batches(), "b1"), 99999999999)
			require.Equal(w, int64(3), w.redis("ZCARD", w.keys.Batches()))
		}},
		promise{"its_parent_does_not_wait_for_it_when_it_is_deleted", func(w *world) {
			require.Equal(w, BatchNew, w.newBatch("b1", nil))
			require.Equal(w, BatchNew, w.newBatch("b2", nested))
			w.seal("b1")
			require.Equal(w, DropDropped, ask(w, w.keys.DropBatch("b2", w.batch("b2"), false)))
			require.Equal(w, []string{"Complete", "Success"}, w.called())
			require.Equal(w, [5]int{2, 0, 0, 0, 2}, w.figures())
			require.Equal(w, BatchOrphan, w.newBatch("b3", nested), "its parent is over")
		}},
	)
}

func TestBatchMessages(t *testing.T) {
	t.Parallel()
	id, ok := BatchOfMessage("batch b1")
	require.True(t, ok)
	require.Equal(t, "b1", id)
	_, ok = BatchOfMessage("5f1e")
	require.False(t, ok)
	require.Contains(t, notSealed, " ", "no jid has a space")
}
