package lua

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func TestTakeQuarantined(t *testing.T) {
	keep(t,
		promise{"takes_the_next_quarantined_job_of_the_first_queue_that_has_any", func(w *world) {
			identity := w.process("a", "b", "c")
			w.quarantine("b", "b1", "b2")
			w.quarantine("c", "c1")
			require.Equal(w, TakenQuarantined{Word: QuarantineTaken, Queue: 1, Bytes: "b1"}, w.takeAlone(identity, "a", "b", "c"))
			require.Equal(w, []string{"b1"}, w.list(w.keys.QuarantineRun(identity)))
			require.Equal(w, []string{"b2"}, w.list(w.keys.Quarantine("b")))
			require.Equal(w, "b", w.redis("HGET", w.keys.Record(identity), "quarantine_queue"))
		}},
		promise{"refuses_a_second_one_and_take_refuses_anything_beside_it", func(w *world) {
			identity := w.process("q")
			w.quarantine("q", "a", "b")
			w.push("q", "c")
			w.takeAlone(identity, "q")
			w.unchanged(func() {
				require.Equal(w, TakenQuarantined{Word: QuarantineBusy}, w.takeAlone(identity, "q"))
				require.Equal(w, Taken{Why: WhyQuarantine}, w.take(identity, 5, "q"))
			})
			w.settle(identity, 1, Settled{Queue: "q", Quarantined: true, Bytes: "a", Outcome: job.Done()})
			require.Equal(w, []TakenJobs{{Bytes: []string{"c"}}}, w.take(identity, 5, "q").Jobs)
		}},
		promise{"goes_to_empty_hands_only", func(w *world) {
			identity := w.process("q", "r")
			w.holdMore(identity, "r", "a")
			w.quarantine("q", "b")
			w.unchanged(func() { require.Equal(w, TakenQuarantined{Word: QuarantineBusy}, w.takeAlone(identity, "q", "r")) })
		}},
		promise{"passes_over_paused_queues_and_broken_lists", func(w *world) {
			identity := w.process("a", "b", "c")
			w.quarantine("a", "a1")
			w.redis("SADD", w.keys.Paused(), "a")
			w.redis("SET", w.keys.Quarantine("b"), "no list")
			w.unchanged(func() {
				require.Equal(w, TakenQuarantined{Word: QuarantineEmpty}, w.takeAlone(identity, "a", "b", "c"))
			})
			w.quarantine("c", "c1")
			require.Equal(w, TakenQuarantined{Word: QuarantineTaken, Queue: 2, Bytes: "c1"}, w.takeAlone(identity, "a", "b", "c"))
		}},
		promise{"passes_over_the_queues_that_it_is_not_to_take_from_and_works_for_none_of_the_others", func(w *world) {
			identity := w.process("a", "b", "c")
			w.quarantine("a", "a1")
			w.unchanged(func() {
				answer := ask(w, w.keys.TakeQuarantined(identity, []string{"b", "c"}, []string{"a"}))
				require.Equal(w, TakenQuarantined{Word: QuarantineEmpty}, answer)
			})
			w.quarantine("c", "c1")
			w.holdMore(identity, "a", "ordinary")
			w.unchanged(func() {
				answer := ask(w, w.keys.TakeQuarantined(identity, []string{"b", "c"}, []string{"a"}))
				require.Equal(w, TakenQuarantined{Word: QuarantineBusy}, answer)
			})
			w.settle(identity, 1, end("a", "ordinary", job.Done()))
			answer := ask(w, w.keys.TakeQuarantined(identity, []string{"b", "c"}, []string{"a"}))
			require.Equal(w, TakenQuarantined{Word: QuarantineTaken, Queue: 1, Bytes: "c1"}, answer)
		}},
		promise{"requeued_because_it_may_not_start_now_it_is_the_last_one", func(w *world) {
			identity := w.process("q")
			w.quarantine("q", "a", "b")
			w.takeAlone(identity, "q")
			w.settle(identity, 1, Settled{Queue: "q", Quarantined: true, Bytes: "a", Outcome: job.Requeued(), Last: true})
			require.Equal(w, "b", w.takeAlone(identity, "q").Bytes)
			limited := Settled{Queue: "q", Quarantined: true, Bytes: "b", Outcome: job.Waits(time.Hour), Gate: gateOf("l:k", 1)}
			require.Equal(w, allSettled, w.settle(identity, 2, limited))
			require.Equal(w, []string{"b", "a"}, w.list(w.keys.Quarantine("q")))
			require.Empty(w, w.waiting("q"))
			w.counted(0, 0)
		}},
		promise{"is_fenced_for_one_who_has_lapsed", func(w *world) {
			identity := w.process("q")
			w.quarantine("q", "a")
			w.lapse(identity)
			w.unchanged(func() { require.Equal(w, TakenQuarantined{Word: QuarantineFenced}, w.takeAlone(identity, "q")) })
		}},
		promise{"requeued_it_is_the_next_quarantined_job_again", func(w *world) {
			identity := w.process("q")
			w.quarantine("q", "a", "b")
			w.takeAlone(identity, "q")
			w.settle(identity, 1, Settled{Queue: "q", Quarantined: true, Bytes: "a", Outcome: job.Requeued()})
			require.Equal(w, []string{"b", "a"}, w.list(w.keys.Quarantine("q")))
			require.Empty(w, w.waiting("q"))
			w.counted(0, 0)
		}},
		promise{"is_recovered_from_a_dead_process_with_its_other_jobs", func(w *world) {
			identity := w.process("q", "r")
			w.quarantine("r", "a")
			w.takeAlone(identity, "q", "r")
			w.redis("LPUSH", w.keys.Working("q", identity), "orphaned")
			w.lapse(identity)
			answer := ask(w, w.keys.Recover(identity, []string{"q", "r"}, []Orphans{{Queue: "q", Entries: []Orphan{{Old: "orphaned", New: "s", Home: HomeQuarantine}}}}, w.today))
			require.Equal(w, Recovered{State: StateDead, Left: 1, Moved: 1}, answer)
			require.Equal(w, []string{"s"}, w.list(w.keys.Quarantine("q")))
			answer = ask(w, w.keys.Recover(identity, []string{"q", "r"}, []Orphans{{Queue: "r", Quarantined: true, Entries: []Orphan{{Old: "a", New: "a3", Home: HomeDead}}}}, w.today))
			require.Equal(w, Recovered{State: StateDead, Moved: 1}, answer)
			require.Equal(w, []string{"a3"}, w.sorted(w.keys.Dead()))
		}},
		promise{"counts_as_left_behind_by_one_who_leaves", func(w *world) {
			identity := w.process("q")
			w.quarantine("q", "a")
			w.takeAlone(identity, "q")
			require.Equal(w, 1, ask(w, w.keys.Deregister(identity, []string{"q"})))
			require.False(w, ask(w, w.keys.Forget(identity, []string{"q"}, 0)))
		}},
	)
}

// quarantine lets jobs wait to run alone, the first one first.
func (w *world) quarantine(queue string, jobs ...string) {
	w.Helper()
	w.redis(append([]string{"LPUSH", w.keys.Quarantine(queue)}, jobs...)...)
}

func (w *world) takeAlone(identity string, queues ...string) TakenQuarantined {
	w.Helper()
	return ask(w, w.keys.TakeQuarantined(identity, queues, nil))
}

func TestDrain(t *testing.T) {
	const long = someTTL
	keep(t,
		promise{"a_quarter_of_those_who_would_may_and_one_at_least", func(w *world) {
			held := 0
			for n := range 12 {
				if ask(w, w.keys.Drain("q", string(rune('a'+n)), long, long)) {
					held++
				}
			}
			require.Equal(w, 3, held)
			require.True(w, ask(w, w.keys.Drain("q", "a", long, long)), "its own is prolonged")
			w.redis(w.keys.Undrain("q", "a").Args...)
			require.True(w, ask(w, w.keys.Drain("q", "z", long, long)), "another's end makes room")
		}},
		promise{"one_that_has_ended_makes_room", func(w *world) {
			require.True(w, ask(w, w.keys.Drain("q", "a", long, long)))
			require.False(w, ask(w, w.keys.Drain("q", "b", long, long)))
			w.redis("ZADD", w.keys.Draining("q"), "1", "a")
			require.True(w, ask(w, w.keys.Drain("q", "b", long, long)))
		}},
		promise{"one_from_before_the_clock_was_set_back_makes_room", func(w *world) {
			require.True(w, ask(w, w.keys.Drain("q", "a", long, long)))
			w.redis("ZADD", w.keys.Draining("q"), "99999999999999", "a")
			require.True(w, ask(w, w.keys.Drain("q", "b", long, long)))
		}},
	)
}
