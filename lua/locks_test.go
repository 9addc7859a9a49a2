package lua

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// lockOf is job a's hold on digest d.
func lockOf(owner string) *Lock {
	return &Lock{Digest: "d", Owner: OwnerOf(owner, "Mail"), Hold: time.Minute}
}

// unique pushes one job to queue q, whose bytes are its jid, and answers who refuses it.
func (w *world) unique(jid string, change ...func(*NewJob)) (holder string) {
	w.Helper()
	j := NewJob{Queue: "q", Job: jid, Lock: lockOf(jid)}
	for _, c := range change {
		c(&j)
	}
	answer := ask(w, w.keys.PushUnique(nil, []NewJob{j}))
	require.Equal(w, PushStored, answer.Word)
	require.Len(w, answer.Holders, 1)
	return answer.Holders[0]
}

// lock is what the lock of digest d holds, its state and its owner; it must have a TTL, be listed until then,
// and say since when it is held.
func (w *world) lock() (state, owner string) {
	w.Helper()
	value, _ := w.redis("GET", w.keys.Lock("d")).(string)
	if value == "" {
		require.Empty(w, w.sorted(w.keys.Unique()), "a lock without a holder is not listed")
		return "", ""
	}
	left := w.number("PTTL", w.keys.Lock("d"))
	require.Positive(w, left)
	w.within((w.now()+float64(left)/1000)*1000-1000, w.score(w.keys.Unique(), "d"), (w.now()+float64(left)/1000)*1000+1000)
	lines := strings.SplitN(value, "\n", 4)
	require.GreaterOrEqual(w, len(lines), 3, "%q", value)
	taken, err := strconv.ParseFloat(lines[2], 64)
	require.NoError(w, err)
	w.within(w.now()*1000-10_000, taken, w.now()*1000)
	return value[:1], lines[0][1:] + "\n" + lines[1] + "\n"
}

func (w *world) held(state, jid string) {
	w.Helper()
	s, owner := w.lock()
	require.Equal(w, state, s)
	require.Equal(w, OwnerOf(jid, "Mail"), owner)
}

func (w *world) free() {
	w.Helper()
	state, _ := w.lock()
	require.Empty(w, state)
}

// begin takes all of queue q into the hands of a new process and says that the run of job a begins.
func (w *world) begin(release bool) (identity string) {
	w.Helper()
	identity = w.process("q")
	w.take(identity, 100, "q")
	require.Empty(w, ask(w, w.keys.Start(identity, []Start{{Queue: "q", Bytes: "a", Lock: lockOf("a"), Release: release, Mark: !release}})).Lost)
	return identity
}

func locked(outcome job.Outcome, again *Next) Settled {
	settled := end("q", "a", outcome)
	settled.Lock = lockOf("a")
	settled.Lock.Next = again
	return settled
}

var onceMore = &Next{Owner: OwnerOf("a2", "Mail"), Bytes: "a2", Queue: "q"}

func TestPushUnique(t *testing.T) {
	keep(t,
		promise{"stores_the_job_with_its_lock_or_says_who_has_it", func(w *world) {
			require.Empty(w, w.unique("a"))
			w.held("-", "a")
			require.Equal(w, "a", w.unique("b"))
			require.Equal(w, []string{"a"}, w.waiting("q"))
			require.Equal(w, 1, w.counter(w.keys.Refusals()))
			require.Equal(w, []string{"q"}, w.texts("SMEMBERS", w.keys.Queues()))
		}},
		promise{"the_same_job_again_is_there_already", func(w *world) {
			require.Empty(w, w.unique("a"))
			w.unchanged(func() { require.Empty(w, w.unique("a")) })
		}},
		promise{"the_same_job_again_is_its_own_duplicate_once_its_run_has_begun", func(w *world) {
			require.Empty(w, w.unique("a"))
			identity := w.begin(false)
			for range 2 {
				require.Equal(w, "a", w.unique("a"))
				w.held("d", "a")
			}
			require.Empty(w, w.waiting("q"))
			require.Equal(w, 2, w.counter(w.keys.Refusals()))
			require.Equal(w, allSettled, w.settle(identity, 1, locked(job.Done(), onceMore)))
			require.Equal(w, []string{"a2"}, w.waiting("q"))
		}},
		promise{"a_second_one_of_the_same_call_gets_the_name_of_the_first", func(w *world) {
			two := lockOf("x")
			two.Digest = "d2"
			answer := ask(w, w.keys.PushUnique(nil, []NewJob{
				{Queue: "q", Job: "a", Lock: lockOf("a")}, {Queue: "r", Job: "plain"},
				{Queue: "q", Job: "b", Lock: lockOf("b")}, {Queue: "q", Job: "x", Lock: two},
			}))
			require.Equal(w, []string{"", "", "a", ""}, answer.Holders)
			require.Equal(w, []string{"a", "x"}, w.waiting("q"))
			require.Equal(w, []string{"plain"}, w.waiting("r"))
		}},
		promise{"a_duplicate_that_is_to_be_marked_is_stored_and_says_of_what", func(w *world) {
			mark := func(text string) NewJob {
				return NewJob{Queue: "q", Job: text, Lock: lockOf("b"), Mark: true}
			}
			require.Empty(w, w.unique("a"))
			w.redis("DEL", w.keys.Queue("q"))
			owner, later := mark(`{"jid":"a"}`), mark(`{"jid":"c"}`)
			owner.Lock, later.In = lockOf("a"), time.Hour
			answer := ask(w, w.keys.PushUnique(nil, []NewJob{mark(`{"jid":"b"}`), owner, later}))
			require.Equal(w, []string{"a", "", "a"}, answer.Holders)
			require.Equal(w, []string{`{"jid":"b","duplicate-of":"a"}`}, w.waiting("q"), "and the owner is there already")
			require.Equal(w, []string{`{"jid":"c","duplicate-of":"a"}`}, w.sorted(w.keys.Schedule()))
			w.held("-", "a")
			require.Zero(w, w.counter(w.keys.Refusals()), "nothing was refused")

			w.redis("SET", w.keys.Lock("d"), "-\"\\#[]~é\nMail\n1", "PX", "60000") // nothing of Belay's has such a jid
			require.Equal(w, []string{`"\#[]~é`}, ask(w, w.keys.PushUnique(nil, []NewJob{mark(`{"jid":"e"}`)})).Holders)
			require.Equal(w, `{"jid":"e","duplicate-of":"??#[]~??"}`, w.waiting("q")[1])
		}},
		promise{"a_lock_that_names_no_job_refuses_and_says_so", func(w *world) {
			for _, value := range []string{"", "1", "x\n"} {
				w.redis("SET", w.keys.Lock("d"), value, "PX", "60000")
				require.Equal(w, "?", w.unique("a"), "%q", value)
				require.Empty(w, w.waiting("q"))
			}
		}},
		promise{"one_that_is_to_be_marked_and_is_no_duplicate_has_the_lock", func(w *world) {
			require.Empty(w, w.unique("a", func(j *NewJob) { j.Mark = true }))
			require.Equal(w, []string{"a"}, w.waiting("q"))
			w.held("-", "a")
		}},
		promise{"a_kept_lock_stays_though_its_job_has_ended", func(w *world) {
			kept := func(j *NewJob) { j.Lock.Kept = true }
			require.Empty(w, w.unique("a", kept))
			w.held("k", "a")
			require.Equal(w, "a", w.unique("a", kept), "also for the job itself: it may have ended")
			require.Equal(w, "a", w.unique("b", kept))
			require.Equal(w, "a", w.unique("c"), "and for a push that would release it")
			identity := w.process("q")
			w.take(identity, 100, "q")
			require.Equal(w, allSettled, w.settle(identity, 1, end("q", "a", job.Done())))
			w.held("k", "a")
			require.Equal(w, "a", w.unique("b", kept))
			require.Empty(w, w.waiting("q"))

			w.redis("DEL", w.keys.Lock("d"), w.keys.Unique())
			first, second := lockOf("x"), lockOf("y")
			first.Kept, second.Kept = true, true
			require.Equal(w, []string{"", "x"}, ask(w, w.keys.PushUnique(nil, []NewJob{
				{Queue: "q", Job: "x", Lock: first}, {Queue: "q", Job: "y", Lock: second},
			})).Holders, "in one call")
			held, _ := w.redis("GET", w.keys.Lock("d")).(string)
			holder, ok := HolderOf(held)
			require.True(w, ok)
			require.True(w, holder.Kept)
			require.False(w, holder.Started)
		}},
		promise{"one_for_later_holds_its_lock_until_then_and_its_ttl", func(w *world) {
			require.Empty(w, w.unique("a", func(j *NewJob) { j.In = time.Hour }))
			w.within(3_659_000, float64(w.number("PTTL", w.keys.Lock("d"))), 3_660_000)
			require.Equal(w, []string{"a"}, w.sorted(w.keys.Schedule()))
			require.Equal(w, "a", w.unique("b"))
			w.redis("DEL", w.keys.Lock("d"))
			at := time.UnixMicro(int64((w.now() + 7200) * 1e6))
			require.Empty(w, w.unique("c", func(j *NewJob) { j.At = at }))
			w.within(7_259_000, float64(w.number("PTTL", w.keys.Lock("d"))), 7_260_100)
		}},
		promise{"a_full_queue_key_or_a_broken_one_takes_no_lock", func(w *world) {
			w.redis("SET", w.keys.Queue("q"), "no list")
			w.unchanged(func() {
				refused(w, "WRONGTYPE", w.keys.PushUnique(nil, []NewJob{{Queue: "q", Job: "a", Lock: lockOf("a")}}))
			})
		}},
		promise{"with_an_idempotency_key_the_answer_is_the_same_again_also_when_the_job_is_done", func(w *world) {
			require.Empty(w, w.unique("a"))
			key := &IdempotencyKey{Scope: w.keys.IdempotencyScope("s", 0), Number: 1, Mark: "m", Remember: time.Hour}
			otherLock := lockOf("c")
			otherLock.Digest = "d3"
			push := w.keys.PushUnique(key, []NewJob{
				{Queue: "q", Job: "b", Lock: lockOf("b")}, {Queue: "q", Job: "c", Lock: otherLock},
			})
			first := ask(w, push)
			require.Equal(w, Pushed{Word: PushStored, Holders: []string{"a", ""}}, first)
			w.redis("SETRANGE", w.keys.Lock("d3"), "0", "s")
			w.unchanged(func() { require.Equal(w, first, ask(w, push), "though a run of it has begun") })
			w.redis("DEL", w.keys.Lock("d"), w.keys.Lock("d3"), w.keys.Queue("q"))
			w.unchanged(func() { require.Equal(w, first, ask(w, push)) })
			later := *key
			later.Number = 2
			require.Equal(w, []string{""}, ask(w, w.keys.PushUnique(&later, []NewJob{{Queue: "q", Job: "e"}})).Holders)
			w.unchanged(func() { require.Equal(w, PushStale, ask(w, push).Word) })
		}},
	)
}

func TestStart(t *testing.T) {
	keep(t,
		promise{"frees_the_lock_until_executing", func(w *world) {
			w.unique("a")
			w.begin(true)
			w.free()
			require.Empty(w, w.unique("b"))
		}},
		promise{"a_second_start_frees_no_other", func(w *world) {
			w.unique("a")
			identity := w.begin(true)
			w.unique("b")
			w.unchanged(func() {
				require.Empty(w, ask(w, w.keys.Start(identity, []Start{{Queue: "q", Bytes: "a", Lock: lockOf("a"), Release: true}})).Lost)
			})
			w.held("-", "b")
		}},
		promise{"says_which_are_not_in_hand_and_leaves_their_locks_alone", func(w *world) {
			w.unique("a")
			identity := w.process("q")
			w.unchanged(func() {
				require.Equal(w, Started{Lost: []int{0}}, ask(w, w.keys.Start(identity, []Start{{Queue: "q", Bytes: "a", Lock: lockOf("a"), Release: true}})))
			})
		}},
		promise{"what_is_refused_before_is_served_by_the_run_and_what_comes_after_is_not", func(w *world) {
			w.unique("a")
			require.Equal(w, "a", w.unique("b"))
			w.held("-", "a")
			identity := w.begin(false)
			w.held("s", "a")
			require.Equal(w, "a", w.unique("c"))
			w.held("d", "a")
			require.Equal(w, "a", w.unique("d"))
			w.held("d", "a")
			ask(w, w.keys.Start(identity, []Start{{Queue: "q", Bytes: "a", Lock: lockOf("a"), Mark: true}}))
			w.held("d", "a")
		}},
		promise{"that_does_not_take_place_after_all_takes_the_lock_again_if_it_is_free", func(w *world) {
			w.unique("a")
			identity := w.begin(true)
			back := w.keys.Start(identity, []Start{{Queue: "q", Bytes: "a", Lock: lockOf("a"), Release: true, Back: true}})
			require.Empty(w, ask(w, back).Lost)
			w.held("-", "a")
			require.Equal(w, "a", w.unique("b"))
			w.unchanged(func() { ask(w, back) })
			w.redis("DEL", w.keys.Lock("d"), w.keys.Unique())
			w.unique("c")
			w.unchanged(func() { ask(w, back) })
			w.redis("DEL", w.keys.Lock("d"), w.keys.Unique(), w.keys.Working("q", identity))
			w.unchanged(func() { require.Equal(w, Started{Lost: []int{0}}, ask(w, back)) })
		}},
		promise{"leaves_no_mark_for_a_job_that_is_not_run_once_more", func(w *world) {
			w.unique("a")
			identity := w.process("q")
			w.take(identity, 100, "q")
			ask(w, w.keys.Start(identity, []Start{{Queue: "q", Bytes: "a", Lock: lockOf("a")}}))
			require.Equal(w, "a", w.unique("b"))
			w.held("-", "a")
		}},
		promise{"holds_on_to_the_lock_until_it_is_renewed", func(w *world) {
			for _, mark := range []bool{false, true} {
				w.unique("a")
				w.redis("PEXPIRE", w.keys.Lock("d"), "500")
				identity, short := w.process("q"), *lockOf("a")
				w.take(identity, 100, "q")
				short.Hold = 6 * time.Second
				require.Empty(w, ask(w, w.keys.Start(identity, []Start{{Queue: "q", Bytes: "a", Lock: &short, Mark: mark}})).Lost)
				w.within(5000, float64(w.number("PTTL", w.keys.Lock("d"))), 6000)
				w.held(map[bool]string{false: "-", true: "s"}[mark], "a")
				w.settle(identity, 1, locked(job.Done(), nil))
			}
		}},
	)
}

func TestRenew(t *testing.T) {
	keep(t, promise{"holds_on_whatever_has_become_of_the_index_or_of_another_lock", func(w *world) {
		w.unique("a")
		w.redis("DEL", w.keys.Unique())
		w.redis("SET", w.keys.Unique(), "junk")
		mine, broken := *lockOf("a"), *lockOf("b")
		mine.Hold, broken.Digest = time.Hour, "d2"
		w.redis("LPUSH", w.keys.Lock("d2"), "x")
		require.Equal(w, 1, ask(w, w.keys.Renew([]Lock{broken, mine})))
		w.within(3_590_000, float64(w.number("PTTL", w.keys.Lock("d"))), 3_600_000)
	}}, promise{"holds_on_to_what_is_still_its_own", func(w *world) {
		w.unique("a")
		before, _ := w.lock()
		mine, theirs, gone := *lockOf("a"), *lockOf("b"), *lockOf("a")
		mine.Hold, theirs.Hold, gone.Hold, gone.Digest = time.Hour, 2*time.Hour, 2*time.Hour, "gone"
		require.Equal(w, 1, ask(w, w.keys.Renew([]Lock{theirs, mine, gone})))
		w.within(3_590_000, float64(w.number("PTTL", w.keys.Lock("d"))), 3_600_000)
		w.held(before, "a")
		require.Zero(w, w.number("EXISTS", w.keys.Lock("gone")))
	}})
}

func TestLocksEndWithTheirJobs(t *testing.T) {
	for name, c := range map[string]struct {
		outcome job.Outcome
		holds   bool
	}{
		"done": {job.Done(), false}, "discarded": {job.Discarded(true), false}, "dead": {job.Died("a"), false},
		"to_be_retried": {job.Retried("a", time.Hour), true}, "snoozed": {job.Snoozed("a", time.Hour), true}, "requeued": {job.Requeued(), true},
	} {
		t.Run(name, func(t *testing.T) {
			keep(t,
				promise{"frees_it_or_holds_on", func(w *world) {
					w.unique("a")
					identity := w.begin(false)
					require.Equal(w, allSettled, w.settle(identity, 1, locked(c.outcome, onceMore)))
					if c.holds {
						w.held("s", "a")
						return
					}
					w.free()
					require.Empty(w, w.waiting("q"))
				}},
				promise{"frees_no_other", func(w *world) {
					w.unique("a")
					identity := w.begin(false)
					w.redis("DEL", w.keys.Lock("d"))
					w.redis("DEL", w.keys.Unique())
					w.unique("b")
					require.Equal(w, allSettled, w.settle(identity, 1, locked(c.outcome, onceMore)))
					w.held("-", "b")
				}},
				promise{"runs_once_more_for_duplicates_that_came_while_it_ran", func(w *world) {
					w.unique("a")
					identity := w.begin(false)
					for n := range 5 {
						require.Equal(w, "a", w.unique(strconv.Itoa(n)))
					}
					batch := w.settlement(identity, 1, locked(c.outcome, onceMore))
					require.Equal(w, allSettled, ask(w, w.keys.Settle(batch)))
					w.unchanged(func() { require.Equal(w, allSettled, ask(w, w.keys.Settle(batch))) })
					if c.holds {
						w.held("d", "a")
						return
					}
					require.Equal(w, []string{"a2"}, w.waiting("q"))
					w.held("-", "a2")
				}},
				promise{"frees_nothing_for_a_job_we_lost", func(w *world) {
					w.unique("a")
					identity := w.begin(false)
					w.redis("DEL", w.keys.Working("q", identity))
					require.Equal(w, []int{0}, w.settle(identity, 1, locked(c.outcome, onceMore)).Lost)
					w.held("s", "a")
				}},
			)
		})
	}
	t.Run("to_be_retried_holds_it_for_the_delay_too", func(t *testing.T) {
		keep(t, promise{"by_what_the_caller_says", func(w *world) {
			w.unique("a")
			identity := w.begin(false)
			settled := locked(job.Retried("a", time.Hour), nil)
			settled.Lock.Hold += time.Hour
			w.settle(identity, 1, settled)
			w.within(3_659_000, float64(w.number("PTTL", w.keys.Lock("d"))), 3_660_000)
		}})
	})
}

func TestLocksOfTheDead(t *testing.T) {
	recovery := func(w *world, identity string, home Home) {
		w.lapse(identity)
		lock := lockOf("a")
		lock.Next = onceMore
		answer := ask(w, w.keys.Recover(identity, []string{"q", "r"}, []Orphans{{Queue: "q", Entries: []Orphan{
			{Old: "plain", New: "plain"}, {Old: "a", New: "a'", Home: home, Owned: Owned{Lock: lock}},
		}}}, w.today))
		require.Equal(w, Recovered{State: StateDead, Moved: 2}, answer)
	}
	keep(t,
		promise{"are_held_on_to_while_the_job_lives_on", func(w *world) {
			w.unique("a")
			w.push("q", "plain")
			recovery(w, w.begin(false), HomeQueue)
			w.held("s", "a")
			require.Equal(w, []string{"a'", "plain"}, w.waiting("q"))
		}},
		promise{"are_freed_when_it_dies", func(w *world) {
			w.unique("a")
			w.push("q", "plain")
			recovery(w, w.begin(false), HomeDead)
			w.free()
			require.Equal(w, []string{"a'"}, w.sorted(w.keys.Dead()))
		}},
		promise{"pass_to_the_run_that_a_duplicate_asked_for", func(w *world) {
			w.unique("a")
			w.push("q", "plain")
			identity := w.begin(false)
			w.unique("b")
			recovery(w, identity, HomeDead)
			w.held("-", "a2")
			require.Equal(w, []string{"plain", "a2"}, w.waiting("q"))
		}},
	)
}

func TestPromoteTakesLocks(t *testing.T) {
	page := func(jid string) []Promotions {
		return []Promotions{{Queue: "q", Jobs: []Promotion{{Old: "plain", New: "plain"}, {Old: jid, New: jid, Owned: Owned{Lock: lockOf(jid)}}, {Old: "last", New: "last"}}}}
	}
	keep(t,
		promise{"that_are_free", func(w *world) {
			w.dueAt(w.keys.Schedule(), time.Hour, "plain", "a", "last")
			require.Equal(w, 3, ask(w, w.keys.Promote(w.keys.Schedule(), page("a"), w.today)))
			w.held("-", "a")
			require.Equal(w, []string{"plain", "a", "last"}, w.waiting("q"))
		}},
		promise{"and_drops_nothing_for_those_that_are_not", func(w *world) {
			w.unique("b")
			w.dueAt(w.keys.Schedule(), time.Hour, "plain", "a", "last")
			require.Equal(w, 3, ask(w, w.keys.Promote(w.keys.Schedule(), page("a"), w.today)))
			w.held("-", "b")
			require.Equal(w, []string{"b", "plain", "a", "last"}, w.waiting("q"))
		}},
		promise{"though_something_else_stands_in_their_place", func(w *world) {
			w.redis("LPUSH", w.keys.Lock("d"), "x")
			w.redis("SET", w.keys.Unique(), "junk")
			w.dueAt(w.keys.Schedule(), time.Hour, "plain", "a", "last")
			require.Equal(w, 3, ask(w, w.keys.Promote(w.keys.Schedule(), page("a"), w.today)))
			require.Equal(w, []string{"plain", "a", "last"}, w.waiting("q"))
			require.Regexp(w, "^-a\nMail\n", w.redis("GET", w.keys.Lock("d")))
		}},
		promise{"for_no_job_that_is_not_moved", func(w *world) {
			w.dueAt(w.keys.Schedule(), -time.Hour, "a")
			w.unchanged(func() { require.Zero(w, ask(w, w.keys.Promote(w.keys.Schedule(), page("a"), w.today))) })
		}},
	)
}

func TestRelease(t *testing.T) {
	keep(t,
		promise{"frees_a_lock_and_says_whose_it_was", func(w *world) {
			w.unique("a")
			holder, ok := HolderOf(ask(w, w.keys.Release("d")).Value)
			require.True(w, ok)
			w.within(w.now()-10, float64(holder.Since.UnixMilli())/1000, w.now())
			holder.Since = time.Time{}
			require.Equal(w, Holder{JID: "a", Class: "Mail"}, holder)
			w.free()
			w.unchanged(func() { require.Zero(w, ask(w, w.keys.Release("d"))) })
			require.Empty(w, w.unique("b"))
		}},
		promise{"the_end_of_a_job_that_lost_it_frees_no_other", func(w *world) {
			w.unique("a")
			identity := w.begin(false)
			ask(w, w.keys.Release("d"))
			require.Empty(w, w.unique("b"))
			require.Equal(w, allSettled, w.settle(identity, 1, locked(job.Done(), onceMore)))
			w.held("-", "b")
		}},
		promise{"tells_of_a_duplicate_that_will_not_be_run_for", func(w *world) {
			w.unique("a")
			identity := w.begin(false)
			require.Equal(w, "a", w.unique("b"))
			holder, ok := HolderOf(ask(w, w.keys.Release("d")).Value)
			require.True(w, ok)
			require.True(w, holder.Started)
			require.True(w, holder.Dirty)
			require.Equal(w, allSettled, w.settle(identity, 1, locked(job.Done(), onceMore)))
			require.Empty(w, w.waiting("q"))
		}},
		promise{"frees_what_is_no_lock_too", func(w *world) {
			w.redis("SET", w.keys.Unique(), "no set")
			w.redis("RPUSH", w.keys.Lock("d"), "a")
			require.Equal(w, Released{Held: true}, ask(w, w.keys.Release("d")))
			w.redis("SET", w.keys.Lock("d"), "")
			require.Equal(w, Released{Held: true}, ask(w, w.keys.Release("d")))
			require.Zero(w, ask(w, w.keys.Release("d")))
		}},
	)
}

func TestUnlist(t *testing.T) {
	keep(t, promise{"takes_out_what_has_run_out_a_few_at_a_time", func(w *world) {
		w.unique("a")
		now := w.now() * 1000
		for n := range MaxItems + 3 {
			w.redis("ZADD", w.keys.Unique(), strconv.FormatFloat(now-120_000, 'f', 0, 64), "old"+strconv.Itoa(n))
		}
		w.redis("ZADD", w.keys.Unique(), strconv.FormatFloat(now-100, 'f', 0, 64), "just now")
		require.Equal(w, MaxItems, ask(w, w.keys.Unlist(time.Minute)))
		require.Equal(w, 3, ask(w, w.keys.Unlist(time.Minute)))
		w.unchanged(func() { require.Zero(w, ask(w, w.keys.Unlist(time.Minute))) })
		require.Equal(w, []string{"just now", "d"}, w.sorted(w.keys.Unique()))
		w.redis("DEL", w.keys.Unique())
		w.redis("SET", w.keys.Unique(), "no set")
		w.unchanged(func() { refused(w, "WRONGTYPE", w.keys.Unlist(0)) })
	}})
}

func TestHolderOf(t *testing.T) {
	t.Parallel()
	since := time.UnixMilli(1767323045000).UTC()
	for value, want := range map[string]Holder{
		"-a\nMail\n1767323045000":                       {JID: "a", Class: "Mail", Since: since},
		"sa\nMail\n1767323045000":                       {JID: "a", Class: "Mail", Started: true, Since: since},
		"da\nMail\n1767323045000":                       {JID: "a", Class: "Mail", Started: true, Dirty: true, Since: since},
		"-\n\n1767323045000":                            {Since: since},
		"-" + OwnerOf("a\nb", "A\nB") + "1767323045000": {JID: "a b", Class: "A B", Since: since},
		"-a\nMail\n1767323045000\nmain 9/0\nci 0/1":     {JID: "a", Class: "Mail", Since: since, Left: "main 9/0\nci 0/1"},
	} {
		holder, ok := HolderOf(value)
		require.True(t, ok, "%q", value)
		require.Equal(t, want, holder, "%q", value)
	}
	for _, value := range []string{"", "-", "\n", "\n1", "-a", "-a\nMail\n", "-a\nMail\nsoon", "-a\nMail\n\nmain 9/0"} {
		_, ok := HolderOf(value)
		require.False(t, ok, "%q", value)
	}
}
