package lua

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// gated returns the end of a run that started with the gate l:k.
func gated(s Settled) Settled { s.Gate = gateOf("l:k", 1); return s }

func gateOf(name string, concurrency int) *Gate {
	return &Gate{Name: name, Size: Size{Concurrency: concurrency}}
}

func startsOf(queue string, gate *Gate, jobs ...string) []Start {
	starts := make([]Start, len(jobs))
	for i, bytes := range jobs {
		starts[i] = Start{Queue: queue, Bytes: bytes, Gate: gate}
	}
	return starts
}

// enter takes jobs from queue q and starts them with a gate.
func (w *world) enter(identity string, gate *Gate, jobs ...string) Started {
	w.Helper()
	w.holdMore(identity, "q", jobs...)
	return ask(w, w.keys.Start(identity, startsOf("q", gate, jobs...)))
}

func (w *world) endGated(identity string, number int64, gate *Gate, outcome job.Outcome, jobs ...string) SettleVerdict {
	w.Helper()
	ends := make([]Settled, len(jobs))
	for i, bytes := range jobs {
		ends[i] = Settled{Queue: "q", Bytes: bytes, Outcome: outcome, Gate: gate}
	}
	s := w.settlement(identity, number, ends...)
	s.Queues = []string{"q"}
	return ask(w, w.keys.Settle(s))
}

// counts are the running, admitted and waiting jobs of a gate.
func (w *world) counts(gate *Gate) [3]int {
	w.Helper()
	fields := w.hash(w.keys.Gates())
	var counts [3]int
	counts[0], _ = strconv.Atoi(fields[gate.RunningField()])
	counts[1], _ = strconv.Atoi(fields[gate.AdmittedField()])
	counts[2] = w.number("LLEN", w.keys.WaitingList(gate.Name))
	return counts
}

func (w *world) waiters(gate *Gate) []string {
	w.Helper()
	var jobs []string
	for _, entry := range w.list(w.keys.WaitingList(gate.Name)) {
		jobs = append([]string{strings.Replace(entry, "\n", "/", 1)}, jobs...)
	}
	return jobs
}

// halfOpen makes a gate of two with a running job a2 and an admitted one a1, and answers the process of a2.
func (w *world) halfOpen(gate *Gate) (identity string) {
	w.Helper()
	identity = w.process("q")
	require.Equal(w, Started{Parked: []int{2}}, w.enter(identity, gate, "a0", "a2", "a1"))
	require.Equal(w, allSettled, w.endGated(identity, 1, gate, job.Done(), "a0"))
	require.Equal(w, [3]int{1, 1, 0}, w.counts(gate))
	w.redis("RPOPLPUSH", w.keys.Queue("q"), w.keys.Queue("other")) // out of the way of the next take
	return identity
}

// agedAdmission makes the admission of the job a1 one of long ago.
func (w *world) agedAdmission(age time.Duration) {
	w.Helper()
	hash := hashOf("a1")
	a, ok := ParseAdmission(hash, w.hash(w.keys.Admitted())[hash])
	require.True(w, ok)
	a.Since = a.Since.Add(-age)
	w.redis("HSET", w.keys.Admitted(), a.Hash, strconv.FormatInt(a.Since.UnixMilli(), 10)+"\n"+a.Gate+"\n"+a.Queue)
}

// pollGates does once what the poller does with gates that are due.
func (w *world) pollGates() {
	w.Helper()
	now := w.now()
	for _, entry := range ask(w, w.keys.GatesByLook(false, 64)) {
		if due, _ := strconv.ParseFloat(entry.Score, 64); due > now {
			continue
		}
		queue := ask(w, w.keys.Heads([]string{entry.Bytes}))[0]
		for queue != "" {
			queue = ask(w, w.keys.Admit(entry.Bytes, queue)).Next
		}
	}
}

func TestGate(t *testing.T) {
	one, two := gateOf("l:k", 1), gateOf("l:k", 2)
	keep(t,
		promise{"lets_in_as_many_as_its_size_and_the_others_wait_in_order", func(w *world) {
			identity := w.process("q")
			require.Equal(w, Started{Parked: []int{2, 3}}, w.enter(identity, two, "a", "b", "c", "d"))
			require.Equal(w, [3]int{2, 0, 2}, w.counts(two))
			require.Equal(w, []string{"q/c", "q/d"}, w.waiters(two))
			require.Equal(w, []string{"b", "a"}, w.list(w.keys.Working("q", identity)))
			require.Equal(w, allSettled, w.endGated(identity, 1, two, job.Done(), "a"))
			require.Equal(w, [3]int{1, 1, 1}, w.counts(two), "c is admitted")
			require.Equal(w, []string{"c"}, w.waiting("q"))
			require.Equal(w, []string{"c"}, w.take(identity, 1, "q").Jobs[0].Bytes)
			require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", two, "c"))))
			require.Equal(w, [3]int{2, 0, 1}, w.counts(two))
			require.Equal(w, Started{Parked: []int{0}}, w.enter(identity, two, "e"), "d is before it")
			w.endGated(identity, 2, two, job.Retried("b'", time.Hour), "b")
			w.endGated(identity, 3, two, job.Died("c'"), "c")
			require.Equal(w, [3]int{0, 2, 0}, w.counts(two))
			require.Equal(w, []string{"d", "e"}, w.waiting("q"))
			require.Empty(w, w.sorted(w.keys.Waiting()))
			w.take(identity, 2, "q")
			require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", two, "d", "e"))))
			w.endGated(identity, 4, two, job.Done(), "d", "e")
			require.Empty(w, w.texts("KEYS", w.keys.Slots("*")))
			require.Zero(w, w.number("EXISTS", w.keys.Gates(), w.keys.Admitted()))
		}},
		promise{"an_equal_start_changes_nothing_and_a_waiting_job_is_lost_then", func(w *world) {
			identity := w.process("q")
			w.enter(identity, one, "a", "b")
			w.unchanged(func() {
				require.Equal(w, Started{Lost: []int{1}}, ask(w, w.keys.Start(identity, startsOf("q", one, "a", "b"))))
			})
		}},
		promise{"a_job_waits_with_its_lock_and_frees_it_when_it_begins", func(w *world) {
			identity := w.process("q")
			require.Equal(w, Started{}, w.enter(identity, one, "first"))
			w.unique("a")
			w.take(identity, 1, "q")
			start := Start{Queue: "q", Bytes: "a", Gate: one, Lock: lockOf("a"), Release: true}
			require.Equal(w, Started{Parked: []int{0}}, ask(w, w.keys.Start(identity, []Start{start})))
			_, owner := w.lock()
			require.Equal(w, OwnerOf("a", "Mail"), owner)
			w.endGated(identity, 1, one, job.Done(), "first")
			w.take(identity, 1, "q")
			require.Equal(w, Started{}, ask(w, w.keys.Start(identity, []Start{start})))
			require.Zero(w, w.number("EXISTS", w.keys.Lock("d")))
		}},
		promise{"too_many_requests", func(w *world) {
			identity := w.process("q")
			require.Equal(w, Started{Parked: []int{1}}, w.enter(identity, one, "a", "b"))
			require.Equal(w, allSettled, w.endGated(identity, 1, one, job.Waits(time.Hour), "a"))
			require.Equal(w, [3]int{0, 0, 2}, w.counts(one))
			require.Equal(w, []string{"q/a", "q/b"}, w.waiters(one))
			require.InDelta(w, 3600_000, w.number("PTTL", w.keys.Stop("l:k")), 100_000)
			w.unchanged(func() {
				refused(w, "ERR", w.keys.Settle(w.settlement(identity, 2, end("q", "x", job.Waits(time.Hour)))))
			})
		}},
		promise{"a_stop_holds_admitted_jobs_too_and_they_wait_first_in_their_order", func(w *world) {
			identity, three := w.process("q"), gateOf("l:k", 3)
			require.Equal(w, Started{Parked: []int{3, 4, 5}}, w.enter(identity, three, "a", "b", "c", "d", "e", "f"))
			w.endGated(identity, 1, three, job.Done(), "a", "b")
			require.Equal(w, [3]int{1, 2, 1}, w.counts(three), "d and e are admitted")
			w.endGated(identity, 2, three, job.Waits(time.Hour), "c")
			w.take(identity, 2, "q")
			require.Equal(w, Started{Parked: []int{0, 1}}, ask(w, w.keys.Start(identity, startsOf("q", three, "d", "e"))))
			require.Equal(w, [3]int{0, 0, 4}, w.counts(three))
			require.Equal(w, []string{"q/d", "q/e", "q/c", "q/f"}, w.waiters(three))
			before := w.now()
			w.pollGates()
			require.Equal(w, [3]int{0, 0, 4}, w.counts(three))
			w.within(before+4.99, w.score(w.keys.Waiting(), "l:k"), w.now()+5) // the poller looks every five seconds
			w.redis("PEXPIRE", w.keys.Stop("l:k"), "0")
			w.redis("ZADD", w.keys.Waiting(), "1", "l:k")
			w.pollGates()
			require.Equal(w, [3]int{0, 3, 1}, w.counts(three))
			w.take(identity, 3, "q")
			require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", three, "d", "e", "c"))))
		}},
		promise{"an_admitted_job_waits_if_the_size_was_lowered_meanwhile", func(w *world) {
			identity, three := w.process("q"), gateOf("l:k", 3)
			w.enter(identity, three, "a", "b", "c", "d", "e", "f")
			w.endGated(identity, 1, three, job.Done(), "a", "b", "c")
			require.Equal(w, [3]int{0, 3, 0}, w.counts(three))
			w.take(identity, 3, "q")
			ask(w, w.keys.ChangeLimits(LimitSet, []LimitChange{{Name: "l", Size: Size{Concurrency: 1}}}))
			require.Equal(w, Started{Parked: []int{1, 2}}, ask(w, w.keys.Start(identity, startsOf("q", three, "d", "e", "f"))))
			require.Equal(w, [3]int{1, 0, 2}, w.counts(three))
			require.Equal(w, []string{"q/e", "q/f"}, w.waiters(three))
			w.endGated(identity, 2, three, job.Done(), "d")
			require.Equal(w, []string{"e"}, w.waiting("q"))
		}},
		promise{"an_end_of_a_job_that_is_lost_frees_nothing", func(w *world) {
			identity := w.process("q")
			w.enter(identity, one, "a", "b")
			w.redis("RPOPLPUSH", w.keys.Working("q", identity), w.keys.Queue("r"))
			require.Equal(w, []int{0}, w.endGated(identity, 1, one, job.Done(), "a").Lost)
			require.Equal(w, [3]int{1, 0, 1}, w.counts(one))
		}},
		promise{"a_requeued_job_keeps_its_slot_and_starts_before_others", func(w *world) {
			identity := w.process("q")
			w.enter(identity, one, "a", "b")
			w.endGated(identity, 1, one, job.Requeued(), "a")
			require.Equal(w, [3]int{0, 1, 1}, w.counts(one))
			require.Equal(w, []string{"a"}, w.waiting("q"))
			require.Equal(w, Started{Parked: []int{0}}, w.enterWaiting(w.process("q"), one, "c", "a"), "a has the slot")
			require.Equal(w, [3]int{1, 0, 2}, w.counts(one))
		}},
		promise{"a_crash_passes_the_slot_on_and_frees_it_for_the_quarantine", func(w *world) {
			victim := w.process("q")
			w.enter(victim, two, "a", "b", "c")
			w.lapse(victim)
			require.Equal(w, 2, ask(w, w.keys.Recover(victim, []string{"q"}, []Orphans{{Queue: "q", Entries: []Orphan{
				{Old: "b", New: "b'", Home: HomeQuarantine}, {Old: "a", New: "a'"},
			}}}, w.today)).Moved)
			require.Equal(w, [3]int{0, 1, 1}, w.counts(two))
			require.Zero(w, w.number("EXISTS", w.keys.Slots(victim)))
			require.LessOrEqual(w, w.score(w.keys.Waiting(), "l:k"), w.now(), "the poller looks at once")
			w.pollGates()
			require.Equal(w, [3]int{0, 2, 0}, w.counts(two))
			require.Equal(w, []string{"a'", "c"}, w.waiting("q"))
			identity := w.process("q")
			w.take(identity, 2, "q")
			require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", two, "a'", "c"))))
		}},
		promise{"a_crash_between_the_take_and_the_start_passes_the_admission_on", func(w *world) {
			identity := w.process("q")
			w.enter(identity, one, "a", "b")
			w.endGated(identity, 1, one, job.Done(), "a")
			w.take(identity, 1, "q")
			w.lapse(identity)
			ask(w, w.keys.Recover(identity, []string{"q"}, []Orphans{{Queue: "q", Entries: []Orphan{{Old: "b", New: "b'"}}}}, w.today))
			require.Equal(w, [3]int{0, 1, 0}, w.counts(one))
			next := w.process("q")
			w.take(next, 1, "q")
			require.Equal(w, Started{}, ask(w, w.keys.Start(next, startsOf("q", one, "b'"))))
			require.Equal(w, [3]int{1, 0, 0}, w.counts(one))
		}},
		promise{"a_job_that_its_process_crashed_with_waits_first", func(w *world) {
			identity := w.process("q")
			w.enter(identity, one, "a", "b")
			w.holdMore(identity, "q", "c")
			require.Equal(w, Started{Parked: []int{0}}, ask(w, w.keys.Start(identity, []Start{{Queue: "q", Bytes: "c", Gate: one, First: true}})))
			require.Equal(w, []string{"q/c", "q/b"}, w.waiters(one))
		}},
		promise{"a_quarantined_job_never_waits", func(w *world) {
			identity := w.process("q")
			w.enter(identity, one, "a", "b")
			other := w.process("q")
			w.quarantine("q", "x")
			require.Equal(w, "x", ask(w, w.keys.TakeQuarantined(other, []string{"q"}, nil)).Bytes)
			start := []Start{{Queue: "q", Quarantined: true, Bytes: "x", Gate: one}}
			w.unchanged(func() { require.Equal(w, Started{Busy: []int{0}}, ask(w, w.keys.Start(other, start))) })
			w.redis("HDEL", w.keys.Gates(), one.RunningField())
			require.Equal(w, Started{}, ask(w, w.keys.Start(other, start)), "there is room, and b does not come before it")
			require.Equal(w, [3]int{1, 0, 1}, w.counts(one))
			s := w.settlement(other, 1, Settled{Queue: "q", Quarantined: true, Bytes: "x", Outcome: job.Waits(time.Hour), Gate: one})
			require.Equal(w, allSettled, ask(w, w.keys.Settle(s)))
			require.Equal(w, []string{"x"}, w.list(w.keys.Quarantine("q")))
			require.Equal(w, [3]int{0, 0, 1}, w.counts(one))
			require.Equal(w, 1, w.number("EXISTS", w.keys.Stop("l:k")))
		}},
		promise{"equal_jobs_share_a_slot_and_an_admission", func(w *world) {
			identity := w.process("q")
			require.Equal(w, Started{}, w.enter(identity, one, "a", "a"))
			require.Equal(w, [3]int{1, 0, 0}, w.counts(one))
			w.enter(identity, one, "b", "b")
			w.endGated(identity, 1, one, job.Done(), "a", "a")
			require.Equal(w, [3]int{0, 1, 1}, w.counts(one))
			w.redis("RPOPLPUSH", w.keys.Queue("q"), w.keys.Queue("r")) // b is admitted, and waits there
			ask(w, w.keys.ChangeLimits(LimitSet, []LimitChange{{Name: "l", Size: Size{Concurrency: 2}}}))
			require.Equal(w, Admitted{Moved: 1}, ask(w, w.keys.Admit("l:k", "q")))
			require.Equal(w, [3]int{0, 1, 0}, w.counts(one), "one admission for both")
			w.push("q", "b")
			w.take(identity, 2, "q")
			require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", one, "b", "b"))))
			require.Equal(w, [3]int{1, 0, 0}, w.counts(one))
			w.endGated(identity, 2, one, job.Requeued(), "b")
			w.endGated(identity, 3, one, job.Done(), "b")
			require.Equal(w, [3]int{}, w.counts(one), "the slot's admission went with the end")
		}},
		promise{"jobs_that_are_lost_do_not_begin_wherever_they_lay", func(w *world) {
			jobs := make([]string, 60)
			for at := range jobs {
				jobs[at] = "j" + strconv.Itoa(at)
			}
			lost := []int{0, 7, 8, 20, 36, 59}
			for _, room := range []int{100, 40, 3} {
				identity, gate := w.process("q"), gateOf("l"+strconv.Itoa(room)+":k", room)
				w.holdMore(identity, "q", jobs...)
				var parked []int
				begun := 0
				for at, job := range jobs {
					if slices.Contains(lost, at) {
						w.redis("LREM", w.keys.Working("q", identity), "1", job)
					} else if begun++; begun > room {
						parked = append(parked, at)
					}
				}
				started := ask(w, w.keys.Start(identity, startsOf("q", gate, jobs...)))
				require.Equal(w, Started{Lost: lost, Parked: parked}, started, "room for %d", room)
				require.Equal(w, len(jobs)-len(lost)-len(parked), w.counts(gate)[0])
			}
		}},
		promise{"jobs_of_a_call_are_found_in_any_order", func(w *world) {
			identity, gate := w.process("q"), gateOf("l:k", 100)
			w.holdMore(identity, "q", "a", "b", "c", "a", "d", "e")
			require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", gate, "e", "a", "c", "b", "a", "d"))))
			require.Equal(w, [3]int{5, 0, 0}, w.counts(gate))
		}},
		promise{"admitted_jobs_go_to_the_back_of_their_queue", func(w *world) {
			identity := w.process("q")
			w.enter(identity, one, "a", "b")
			w.push("q", "other")
			w.endGated(identity, 1, one, job.Done(), "a")
			require.Equal(w, []string{"other", "b"}, w.waiting("q"))
		}},
		promise{"a_waiter_of_another_queue_is_left_to_the_poller", func(w *world) {
			identity := w.process("q", "r")
			w.enter(identity, one, "a")
			w.holdMore(identity, "r", "b")
			require.Equal(w, Started{Parked: []int{0}}, ask(w, w.keys.Start(identity, startsOf("r", one, "b"))))
			w.endGated(identity, 1, one, job.Done(), "a") // it declares queue q only
			require.Equal(w, [3]int{0, 0, 1}, w.counts(one))
			require.Equal(w, Admitted{Next: "r"}, ask(w, w.keys.Admit("l:k", "q")))
			require.Equal(w, []string{"r"}, ask(w, w.keys.Heads([]string{"l:k"})))
			w.pollGates()
			require.Equal(w, []string{"b"}, w.waiting("r"))
		}},
		promise{"waiters_of_a_paused_queue_leave_without_being_admitted", func(w *world) {
			identity := w.process("q", "r")
			w.enter(identity, one, "a", "b")
			w.holdMore(identity, "r", "c")
			ask(w, w.keys.Start(identity, startsOf("r", one, "c")))
			w.redis("SADD", w.keys.Paused(), "q")
			w.endGated(identity, 1, one, job.Done(), "a")
			require.Equal(w, [3]int{0, 0, 2}, w.counts(one))
			w.pollGates()
			require.Equal(w, []string{"b"}, w.waiting("q"))
			require.Equal(w, []string{"c"}, w.waiting("r"))
			require.Equal(w, [3]int{0, 1, 0}, w.counts(one), "c")
		}},
		promise{"waiters_of_a_limit_that_is_removed_leave", func(w *world) {
			identity := w.process("q")
			w.enter(identity, one, "a", "b", "c")
			require.Equal(w, []LimitWord{LimitRemoved}, ask(w, w.keys.ChangeLimits(LimitRemove, []LimitChange{{Name: "l"}})))
			w.endGated(identity, 1, one, job.Done(), "a")
			w.pollGates()
			require.Equal(w, []string{"b", "c"}, w.waiting("q"))
			require.Equal(w, [3]int{}, w.counts(one))
		}},
		promise{"an_operator_takes_the_last_waiter_and_the_index_forgets_the_gate", func(w *world) {
			identity := w.process("q")
			w.enter(identity, one, "a", "b", "c")
			for at, waiter := range []string{"q\nb", "q\nc"} {
				group := ActGroup{Destination: DestinationNone, Jobs: []Promotion{{Old: waiter, Owned: Owned{Waits: &Waits{Gate: "l:k"}}}}}
				require.Empty(w, ask(w, w.keys.Act(Source{Key: w.keys.WaitingList("l:k"), List: true, Orderly: 1000}, []ActGroup{group})).Gone)
				require.Len(w, w.sorted(w.keys.Waiting()), 1-at)
			}
			w.redis("ZADD", w.keys.Waiting(), "1", "gone:")
			require.Equal(w, []string{""}, ask(w, w.keys.Heads([]string{"gone:"})))
			require.Empty(w, w.sorted(w.keys.Waiting()))
		}},
		promise{"a_job_that_leaves_its_queue_for_an_operator_leaves_its_place", func(w *world) {
			for n, to := range []Destination{DestinationNone, DestinationDead, DestinationQueue} {
				gate := gateOf(fmt.Sprintf("l:%d", n), 1)
				identity := w.process("q")
				w.enter(identity, gate, "a", "b", "c")
				w.endGated(identity, 1, gate, job.Done(), "a")
				require.Equal(w, [3]int{0, 1, 1}, w.counts(gate))
				group := ActGroup{Destination: to, Queue: "r", Jobs: []Promotion{{Old: "b", New: "b"}}}
				from := Source{Key: w.keys.Queue("q"), List: true, Orderly: 1000}
				require.Equal(w, Acted{}, ask(w, w.keys.Act(from, []ActGroup{group})))
				require.Equal(w, [3]int{0, 0, 1}, w.counts(gate))
				require.Zero(w, w.number("EXISTS", w.keys.Admitted()))
				w.pollGates()
				require.Equal(w, [3]int{0, 1, 0}, w.counts(gate), "c")
				require.Equal(w, Acted{Gone: []int{0}}, ask(w, w.keys.Act(from, []ActGroup{group})))
				require.Equal(w, [3]int{0, 1, 0}, w.counts(gate), "of a job that was not found nothing changes")
				w.redis("DEL", w.keys.Queue("q"), w.keys.Admitted())
			}
		}},
		promise{"a_lapsed_admission_of_a_job_that_an_operator_deletes_counts_once", func(w *world) {
			w.halfOpen(two)
			w.agedAdmission(LapseQueued + time.Second)
			require.Equal(w, 1, ask(w, w.keys.Lapse(ask(w, w.keys.Admissions()))))
			from := Source{Key: w.keys.Queue("other"), List: true, Orderly: 1000}
			require.Empty(w, ask(w, w.keys.Act(from, groupTo(DestinationNone, "a1"))).Gone)
			require.Equal(w, [3]int{1, 0, 0}, w.counts(two))
			require.Zero(w, w.number("EXISTS", w.keys.Admitted()))
		}},
		promise{"an_old_janitor_s_recovery_leaves_slots_that_the_sweep_frees", func(w *world) {
			victim := w.process("q")
			w.enter(victim, one, "a", "b")
			w.redis("RPOPLPUSH", w.keys.Working("q", victim), w.keys.Queue("q"))
			require.Zero(w, ask(w, w.keys.FreeSlots(victim, []string{"q"})), "it lives")
			require.Zero(w, ask(w, w.keys.Deregister(victim, []string{"q"})))
			require.False(w, ask(w, w.keys.Forget(victim, []string{"q"}, 0)), "its slots are not free")
			require.Equal(w, 1, ask(w, w.keys.FreeSlots(victim, []string{"q"})))
			require.Zero(w, ask(w, w.keys.FreeSlots(victim, []string{"q"})), "none is left")
			require.Equal(w, [3]int{0, 0, 1}, w.counts(one))
			w.pollGates()
			require.Equal(w, [3]int{0, 1, 0}, w.counts(one))
			require.True(w, ask(w, w.keys.Forget(victim, []string{"q"}, 0)))
		}},
		promise{"an_operator_s_size_counts_at_once_and_code_does_not_replace_it", func(w *world) {
			identity := w.process("q")
			w.enter(identity, one, "a", "b", "c")
			of := func(act LimitAct, most int) LimitWord {
				return ask(w, w.keys.ChangeLimits(act, []LimitChange{{Name: "l", Size: Size{Concurrency: most}}}))[0]
			}
			require.Equal(w, LimitSame, of(LimitStarts, 1))
			require.Equal(w, LimitStored, of(LimitSet, 3))
			require.Equal(w, LimitKept, of(LimitStarts, 1))
			require.Equal(w, LimitKept, of(LimitSeen, 1))
			require.Equal(w, Admitted{Moved: 2}, ask(w, w.keys.Admit("l:k", "q")))
			page := ask(w, w.keys.ReadLimits(FirstPage))
			require.Len(w, page.Limits, 1)
			require.InDelta(w, w.now(), float64(page.Limits[0].SeenAt.Unix()), 100)
			page.Limits[0].SeenAt = time.Time{}
			require.Equal(w, LimitPage{Limits: []Limit{{Name: "l", Size: Size{Concurrency: 3, Rate: RateNone}, Source: LimitOfOperator}}, Next: LastPage}, page)
			require.Equal(w, LimitStored, of(LimitReset, 0))
			require.Equal(w, LimitKept, of(LimitReset, 0))
			require.Equal(w, LimitStored, of(LimitSeen, 1))
			require.Equal(w, LimitKept, of(LimitSeen, 2), "a worker of another version lives")
			require.Equal(w, LimitStored, of(LimitStarts, 2), "and one starts")
			require.Equal(w, LimitKept, of(LimitExpire, 0))
			old := strconv.Itoa(int(w.now()) - 301)
			w.redis("HSET", w.keys.Limits(), "l", "2 none 0 0 code "+old)
			require.Equal(w, LimitKept, of(LimitSeen, 1), "workers were not alive all the while")
			w.redis("SET", w.keys.Up(), "1000")
			require.Equal(w, LimitStored, of(LimitSeen, 1), "the worker with the other size is gone")
			w.redis("HSET", w.keys.Limits(), "l", "3 none 0 0 operator "+old)
			require.Equal(w, LimitKept, of(LimitSeen, 1))
			w.redis("DEL", w.keys.Up())
			require.Equal(w, LimitUnknown, ask(w, w.keys.ChangeLimits(LimitRemove, []LimitChange{{Name: "none"}}))[0])
			w.redis("HSET", w.keys.Limits(), "l", "2 none 0 0 code 1")
			require.Equal(w, LimitKept, of(LimitExpire, 0), "workers were not alive all the while")
			w.redis("SET", w.keys.Up(), "1000")
			require.Equal(w, LimitRemoved, of(LimitExpire, 0))
		}},
		promise{"an_admission_lapses_when_it_is_old_and_frees_its_place", func(w *world) {
			w.halfOpen(two)
			lapse := func() int { return ask(w, w.keys.Lapse(ask(w, w.keys.Admissions()))) }
			require.Zero(w, lapse(), "it is new")
			w.agedAdmission(LapseUnqueued + time.Second)
			w.push("q", "another")
			require.Zero(w, lapse(), "its queue is not empty")
			read := ask(w, w.keys.Admissions())
			w.agedAdmission(LapseQueued)
			require.Zero(w, ask(w, w.keys.Lapse(read)), "it has changed")
			require.Equal(w, 1, lapse())
			require.Zero(w, lapse())
			require.Equal(w, [3]int{1, 0, 0}, w.counts(two))
			require.True(w, ask(w, w.keys.Admissions())[0].Lapsed)
			w.take(w.process("q"), 1, "q")
			comes := w.process("other")
			w.take(comes, 1, "other")
			require.Equal(w, Started{}, ask(w, w.keys.Start(comes, startsOf("other", two, "a1"))), "there is room")
			require.Zero(w, w.number("EXISTS", w.keys.Admitted()))
		}},
		promise{"an_admission_to_a_paused_queue_lapses_as_to_an_empty_one", func(w *world) {
			w.halfOpen(two)
			lapse := func() int { return ask(w, w.keys.Lapse(ask(w, w.keys.Admissions()))) }
			w.redis("HSET", w.keys.Admitted(), hashOf("a1"), w.ms()+"\nl:k\nother")
			w.redis("SADD", w.keys.Paused(), "other")
			require.Zero(w, lapse(), "it is new")
			w.agedAdmission(LapseUnqueued + time.Second)
			require.Equal(w, 1, lapse())
			require.Equal(w, [3]int{1, 0, 0}, w.counts(two))
			require.Equal(w, []string{"a1"}, w.waiting("other"))
		}},
		promise{"a_lapsed_job_waits_first_and_its_admission_is_forgotten_after_a_day", func(w *world) {
			identity := w.halfOpen(two)
			w.agedAdmission(time.Hour)
			require.Equal(w, 1, ask(w, w.keys.Lapse(ask(w, w.keys.Admissions()))))
			require.Equal(w, Started{Parked: []int{1}}, w.enter(identity, two, "b", "c"))
			w.redis("RPOPLPUSH", w.keys.Queue("other"), w.keys.Queue("q"))
			w.take(identity, 1, "q")
			lapsed := w.hash(w.keys.Admitted())[hashOf("a1")]
			require.Equal(w, Started{Parked: []int{0}}, ask(w, w.keys.Start(identity, startsOf("q", two, "a1"))))
			require.Equal(w, []string{"q/a1", "q/c"}, w.waiters(two))
			require.NotEmpty(w, lapsed)
			w.redis("HSET", w.keys.Admitted(), hashOf("x"), "-1000\nl:k\nq")
			require.Zero(w, ask(w, w.keys.Lapse(ask(w, w.keys.Admissions()))))
			require.Zero(w, w.number("EXISTS", w.keys.Admitted()))
		}},
	)
}

// enterWaiting takes what waits in queue q, in this order, after it has pushed the first of these jobs.
func (w *world) enterWaiting(identity string, gate *Gate, jobs ...string) Started {
	w.Helper()
	w.push("q", jobs[0])
	require.ElementsMatch(w, jobs, w.take(identity, len(jobs), "q").Jobs[0].Bytes)
	return ask(w, w.keys.Start(identity, startsOf("q", gate, jobs...)))
}

func TestRate(t *testing.T) {
	window := &Gate{Name: "w:", Size: Size{Rate: RateWindow, N: 3, Per: time.Hour}}
	leaky := &Gate{Name: "f:", Size: Size{Rate: RateLeaky, N: 3, Per: time.Hour}}
	keep(t,
		promise{"no_window_has_more_starts_than_its_size", func(w *world) {
			identity := w.process("q")
			require.Equal(w, Started{Parked: []int{3, 4}}, w.enter(identity, window, "a", "b", "c", "d", "e"))
			w.endGated(identity, 1, window, job.Done(), "a", "b", "c")
			require.Equal(w, [3]int{0, 0, 2}, w.counts(window), "an end makes no room")
			w.pollGates()
			require.Equal(w, [3]int{0, 0, 2}, w.counts(window))
			w.ageStarts(window, 1, time.Hour+2*time.Millisecond)
			require.Equal(w, Admitted{Moved: 1}, ask(w, w.keys.Admit("w:", "q")))
			require.Equal(w, [3]int{0, 1, 1}, w.counts(window))
			require.Equal(w, 2, w.number("LLEN", w.keys.Rate("w:")), "an admission uses no permit")
			require.Equal(w, Admitted{}, ask(w, w.keys.Admit("w:", "q")), "nor may another one count on it")
			w.take(identity, 1, "q")
			w.redis("LPUSH", w.keys.Rate("w:"), w.ms()) // as if others had started meanwhile
			require.Equal(w, Started{Parked: []int{0}}, ask(w, w.keys.Start(identity, startsOf("q", window, "d"))))
			require.Equal(w, []string{"q/d", "q/e"}, w.waiters(window))
			require.Equal(w, [3]int{0, 0, 2}, w.counts(window))
		}},
		promise{"a_stop_does_not_let_admitted_jobs_start_without_permits", func(w *world) {
			identity := w.process("q")
			w.enter(identity, window, "a", "b", "c", "d", "e", "f", "g")
			w.endGated(identity, 1, window, job.Done(), "a", "b", "c")
			w.ageStarts(window, 3, time.Hour+2*time.Millisecond)
			require.Equal(w, Admitted{Moved: 3}, ask(w, w.keys.Admit("w:", "q")))
			w.take(identity, 1, "q")
			require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", window, "d"))))
			w.endGated(identity, 2, window, job.Waits(time.Hour), "d")
			w.take(identity, 2, "q")
			require.Equal(w, Started{Parked: []int{0, 1}}, ask(w, w.keys.Start(identity, startsOf("q", window, "e", "f"))))
			require.Equal(w, []string{"q/e", "q/f", "q/d", "q/g"}, w.waiters(window))
			require.Equal(w, 1, w.number("LLEN", w.keys.Rate("w:")), "only d has started")
			w.redis("DEL", w.keys.Stop("w:"))
			require.Equal(w, Admitted{Moved: 2}, ask(w, w.keys.Admit("w:", "q")))
			w.take(identity, 2, "q")
			require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", window, "e", "f"))))
			require.Equal(w, 3, w.number("LLEN", w.keys.Rate("w:")))
			require.Equal(w, Started{Parked: []int{0}}, w.enter(identity, window, "h"))
		}},
		promise{"a_start_that_is_sent_again_uses_no_second_permit", func(w *world) {
			identity := w.process("q")
			w.enter(identity, window, "a")
			w.unchanged(func() { require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", window, "a")))) })
		}},
		promise{"starts_of_the_future_count_as_now", func(w *world) {
			identity := w.process("q")
			w.enter(identity, window, "a", "b", "c")
			w.ageStarts(window, 3, -48*time.Hour)
			require.Equal(w, Started{Parked: []int{0}}, w.enter(identity, window, "d"))
			for _, start := range w.list(w.keys.Rate("w:")) {
				at, err := strconv.ParseFloat(start, 64)
				require.NoError(w, err)
				require.LessOrEqual(w, at, w.now()*1000)
			}
		}},
		promise{"leaks_one_after_the_other", func(w *world) {
			identity := w.process("q")
			require.Equal(w, Started{Parked: []int{3}}, w.enter(identity, leaky, "a", "b", "c", "d"))
			full, err := strconv.ParseFloat(w.redis("GET", w.keys.Rate("f:")).(string), 64)
			require.NoError(w, err)
			require.InDelta(w, w.now()*1000+3600_000, full, 100_000)
			w.redis("SET", w.keys.Rate("f:"), strconv.FormatFloat(full-1_200_000+100_000, 'f', 3, 64))
			require.Equal(w, Admitted{}, ask(w, w.keys.Admit("f:", "q")))
			w.redis("SET", w.keys.Rate("f:"), strconv.FormatFloat(full-1_200_001, 'f', 3, 64))
			require.Equal(w, Admitted{Moved: 1}, ask(w, w.keys.Admit("f:", "q")))
			w.take(identity, 1, "q")
			require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", leaky, "d"))))
			require.Equal(w, Started{Parked: []int{0}}, w.enter(identity, leaky, "e"))
			w.redis("SET", w.keys.Rate("f:"), "99999999999999")
			require.Equal(w, Admitted{}, ask(w, w.keys.Admit("f:", "q")), "a state of the future is full now")
		}},
		promise{"permits_may_be_shorter_than_redis_can_store", func(w *world) {
			identity, fast := w.process("q"), &Gate{Name: "t:", Size: Size{Rate: RateLeaky, N: 1_000_000, Per: 100 * time.Millisecond}}
			require.Equal(w, Started{}, w.enter(identity, fast, "a"))
			require.Equal(w, [3]int{1, 0, 0}, w.counts(fast))
			require.Equal(w, Acquired{Held: true}, ask(w, w.keys.Acquire(*fast, "caller")))
		}},
		promise{"the_state_of_another_kind_is_none_and_other_types_are_refused", func(w *world) {
			identity := w.process("q")
			w.enter(identity, window, "a", "b", "c")
			ask(w, w.keys.ChangeLimits(LimitSet, []LimitChange{{Name: "w", Size: leaky.Size}}))
			require.Equal(w, Started{}, w.enter(identity, window, "d"))
			require.Equal(w, "string", w.redis("TYPE", w.keys.Rate("w:")))
			w.redis("DEL", w.keys.Rate("w:"))
			w.redis("SADD", w.keys.Rate("w:"), "x")
			w.holdMore(identity, "q", "e")
			w.unchanged(func() { refused(w, "WRONGTYPE", w.keys.Start(identity, startsOf("q", window, "e"))) })
			w.unchanged(func() { refused(w, "WRONGTYPE", w.keys.Admit("w:", "q")) })
		}},
	)
}

func TestAcquire(t *testing.T) {
	one := gateOf("l:k", 1)
	limited := &Gate{Name: "w:", Size: Size{Rate: RateWindow, N: 1, Per: time.Hour}}
	keep(t,
		promise{"holds_a_slot_until_it_is_given_up_and_waiters_are_admitted_then", func(w *world) {
			require.Equal(w, Acquired{Held: true}, ask(w, w.keys.Acquire(*one, "h1")))
			require.Equal(w, Acquired{Held: true}, ask(w, w.keys.Acquire(*one, "h1")), "sent again")
			require.Equal(w, Acquired{}, ask(w, w.keys.Acquire(*one, "h2")), "the slot may be free at any time")
			require.Equal(w, [3]int{1, 0, 0}, w.counts(one))
			identity := w.process("q")
			require.Equal(w, Started{Parked: []int{0}}, w.enter(identity, one, "a"))
			require.True(w, ask(w, w.keys.RenewLease(*one, "h1")))
			require.True(w, ask(w, w.keys.ReleaseLease(*one, "h1")))
			require.False(w, ask(w, w.keys.ReleaseLease(*one, "h1")))
			require.False(w, ask(w, w.keys.RenewLease(*one, "h1")))
			require.False(w, ask(w, w.keys.Acquire(*one, "h2")).Held, "a job waits")
			w.pollGates()
			require.Equal(w, [3]int{0, 1, 0}, w.counts(one))
		}},
		promise{"a_slot_that_is_not_renewed_is_free_after_its_time", func(w *world) {
			ask(w, w.keys.Acquire(*one, "h1"))
			require.Zero(w, ask(w, w.keys.FreeLeases()))
			w.redis("ZADD", w.keys.Leases(), "1", "l:k\nh1")
			require.True(w, ask(w, w.keys.RenewLease(*one, "h1")), "late, and not yet freed")
			w.redis("ZADD", w.keys.Leases(), "1", "l:k\nh1")
			require.Equal(w, 1, ask(w, w.keys.FreeLeases()))
			require.False(w, ask(w, w.keys.RenewLease(*one, "h1")))
			require.Equal(w, [3]int{}, w.counts(one))
			ask(w, w.keys.Acquire(*one, "h1"))
			w.redis("ZADD", w.keys.Leases(), "99999999999999", "l:k\nh1")
			require.Equal(w, 1, ask(w, w.keys.FreeLeases()), "from before the clock was set back")
		}},
		promise{"takes_the_slot_of_a_holder_that_is_gone_though_no_worker_lives", func(w *world) {
			other := gateOf("l:other", 1)
			ask(w, w.keys.Acquire(*one, "gone"))
			ask(w, w.keys.Acquire(*other, "gone too"))
			require.False(w, ask(w, w.keys.Acquire(*one, "next")).Held, "its lease is not over")
			w.redis("ZADD", w.keys.Leases(), "1", one.Name+"\ngone", "1", other.Name+"\ngone too")
			require.True(w, ask(w, w.keys.Acquire(*one, "next")).Held)
			require.Equal(w, [3]int{1, 0, 0}, w.counts(one))
			require.Equal(w, [3]int{}, w.counts(other))
			require.False(w, ask(w, w.keys.RenewLease(*one, "gone")))
			require.False(w, ask(w, w.keys.Acquire(*one, "third")).Held)
			require.Zero(w, ask(w, w.keys.FreeLeases()))
		}},
		promise{"uses_a_permit", func(w *world) {
			require.True(w, ask(w, w.keys.Acquire(*limited, "h1")).Held)
			require.True(w, ask(w, w.keys.ReleaseLease(*limited, "h1")))
			shut := ask(w, w.keys.Acquire(*limited, "h2"))
			require.False(w, shut.Held)
			w.within(3590, shut.Shut.Seconds(), 3601)
			w.redis("SET", w.keys.Stop("w:"), "", "PX", "60000")
			w.within(50, ask(w, w.keys.Acquire(*limited, "h2")).Shut.Seconds(), 60)
			w.redis("DEL", w.keys.Stop("w:"))
			w.redis("SET", w.keys.Leases(), "no set")
			w.unchanged(func() { refused(w, "WRONGTYPE", w.keys.Acquire(*limited, "h3")) })
		}},
	)
}

func (w *world) ms() string { w.Helper(); return strconv.FormatInt(int64(w.now()*1000), 10) }

// ageStarts makes the oldest starts of a window older.
func (w *world) ageStarts(gate *Gate, count int, by time.Duration) {
	w.Helper()
	key := w.keys.Rate(gate.Name)
	for at := range count {
		ms, err := strconv.ParseInt(w.redis("LINDEX", key, strconv.Itoa(-1-at)).(string), 10, 64)
		require.NoError(w, err)
		w.redis("LSET", key, strconv.Itoa(-1-at), strconv.FormatInt(ms-by.Milliseconds(), 10))
	}
}

func TestSizesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, size := range []Size{
		{Rate: RateNone}, {Rate: RateNone, Concurrency: 5}, {Rate: RateNone, Paused: true},
		{Rate: RateWindow, N: 100, Per: time.Minute}, {Concurrency: 1, Rate: RateLeaky, N: 1, Per: 1500 * time.Millisecond},
	} {
		l, err := ParseLimit("n", size.String()+" operator 0")
		require.NoError(t, err)
		require.Equal(t, Limit{Name: "n", Size: size, Source: LimitOfOperator}, l)
	}
	for _, wrong := range []string{"", "5", "x none 0 0 code 1", "5 none x 0 code 1", "5 none 0 0 code x"} {
		_, err := ParseLimit("n", wrong)
		require.Error(t, err, wrong)
	}
}
