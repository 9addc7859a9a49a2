package lua

import (
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
	)
}
