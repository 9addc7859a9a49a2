package lua

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// cursorOf is what a run of job a writes of its state.
func cursorOf(version int64, cursor string) JobState {
	return JobState{JID: "a", Created: "1.5", Version: version, Keep: KeepState, Fields: []string{FieldCursor, cursor}}
}

func (w *world) save(identity string, version int64, cursor string) SaveWord {
	w.Helper()
	return ask(w, w.keys.Save(identity, "q", "a", false, cursorOf(version, cursor)))
}

func (w *world) cursor() string { w.Helper(); return w.hash(w.keys.Iteration("a"))[FieldCursor] }

// stateful is the end of a run of job a that has state.
func stateful(outcome job.Outcome, state JobState) Settled {
	settled := end("q", "a", outcome)
	settled.State = &state
	return settled
}

func TestSave(t *testing.T) {
	keep(t,
		promise{"a_running_job's_fields_are_written_and_expire", func(w *world) {
			identity := w.hold("a")
			state := cursorOf(1, "7")
			state.Fields = append(state.Fields, FieldCrashes, "2")
			require.Equal(w, SaveSaved, ask(w, w.keys.Save(identity, "q", "a", false, state)))
			require.Equal(w, map[string]string{
				FieldCursor: "7", FieldCrashes: "2", fieldVersion: "1", fieldCreated: "1.5",
			}, w.hash(w.keys.Iteration("a")))
			require.InDelta(w, KeepState.Seconds(), w.number("TTL", w.keys.Iteration("a")), 60)
			read := ask(w, w.keys.ReadState(state, FieldCrashes, "none", FieldCursor))
			require.Equal(w, StateRead{Version: 1, Fields: []string{"2", "", "7"}}, read)
		}},
		promise{"an_empty_value_removes_a_field", func(w *world) {
			identity := w.hold("a")
			w.save(identity, 1, "7")
			require.Equal(w, SaveSaved, w.save(identity, 2, ""))
			require.Equal(w, map[string]string{fieldVersion: "2", fieldCreated: "1.5"}, w.hash(w.keys.Iteration("a")))
		}},
		promise{"fields_of_sidekiq_stay", func(w *world) {
			identity := w.hold("a")
			w.redis("HSET", w.keys.Iteration("a"), "ex", "3", "c", "5", "rt", "1.25")
			require.Equal(w, []string{"5"}, ask(w, w.keys.ReadState(cursorOf(0, ""), FieldCursor)).Fields)
			w.save(identity, 1, "7")
			fields := w.hash(w.keys.Iteration("a"))
			require.Equal(w, "3 1.25 7", fields["ex"]+" "+fields["rt"]+" "+fields["c"])
		}},
		promise{"a_request_of_ruby_to_cancel_is_answered", func(w *world) {
			identity := w.hold("a")
			for _, call := range w.keys.CancelIterable("a", time.Now()) {
				w.redis(call.Args[:min(len(call.Args), 4)]...) // without NX, which the fake server does not know
			}
			require.Equal(w, SaveCancelled, w.save(identity, 1, "7"))
			require.Equal(w, "7", w.cursor())
		}},
		promise{"a_job_in_other_hands_is_lost", func(w *world) {
			identity, holder := w.process("q"), w.hold("a")
			w.unchanged(func() { require.Equal(w, SaveLost, w.save(identity, 1, "7")) })
			require.Equal(w, SaveSaved, w.save(holder, 1, "7"))
		}},
		promise{"a_quarantined_job_has_state", func(w *world) {
			identity := w.process("q")
			w.quarantine("q", "a")
			w.takeAlone(identity, "q")
			require.Equal(w, SaveLost, w.save(identity, 1, "7"))
			require.Equal(w, SaveSaved, ask(w, w.keys.Save(identity, "q", "a", true, cursorOf(1, "7"))))
		}},
		promise{"a_delayed_save_changes_nothing", func(w *world) {
			identity := w.hold("a")
			require.Equal(w, SaveSaved, w.save(identity, 2, "20"))
			w.unchanged(func() {
				require.Equal(w, SaveStale, w.save(identity, 1, "10"))
				require.Equal(w, SaveStale, w.save(identity, 2, "20"))
			})
			// Of the run before, which was requeued: the same process has taken the job again.
			require.Equal(w, allSettled, w.settle(identity, 1, stateful(job.Requeued(), cursorOf(3, "30"))))
			require.Len(w, w.take(identity, 1, "q").Jobs, 1)
			w.unchanged(func() { require.Equal(w, SaveStale, w.save(identity, 3, "25")) })
			require.Equal(w, SaveSaved, w.save(identity, 5, "40"))
		}},
		promise{"state_of_an_earlier_job_with_the_same_jid_does_not_count", func(w *world) {
			identity := w.hold("a")
			earlier := cursorOf(9, "1000")
			earlier.Created = "1"
			w.redis("HSET", w.keys.Iteration("a"), FieldCursor, "1000", "ex", "2", fieldVersion, "9", fieldCreated, "1")
			require.Equal(w, StateRead{Fields: []string{""}}, ask(w, w.keys.ReadState(cursorOf(0, ""), FieldCursor)))
			require.Equal(w, StateRead{Version: 9, Fields: []string{"1000"}}, ask(w, w.keys.ReadState(earlier, FieldCursor)))
			require.Equal(w, SaveSaved, w.save(identity, 1, "7"))
			require.Equal(w, map[string]string{FieldCursor: "7", fieldVersion: "1", fieldCreated: "1.5"}, w.hash(w.keys.Iteration("a")))
		}},
		promise{"a_key_of_another_type_is_no_state", func(w *world) {
			identity := w.hold("a")
			w.redis("SET", w.keys.Iteration("a"), "odd")
			require.Equal(w, SaveSaved, w.save(identity, 1, "7"))
			require.Equal(w, "7", w.cursor())
		}},
	)
}

func TestStateEndsWithItsJob(t *testing.T) {
	ends := map[string]job.Outcome{
		"done": job.Done(), "discarded": job.Discarded(true), "cancelled": job.Cancelled(), "expired": job.Expired(true),
	}
	var promises []promise
	for name, outcome := range ends {
		promises = append(promises, promise{name, func(w *world) {
			identity := w.hold("a")
			w.save(identity, 1, "7")
			state := cursorOf(1, "7")
			state.Keep, state.Fields = 0, nil
			require.Equal(w, allSettled, w.settle(identity, 1, stateful(outcome, state)))
			require.Zero(w, w.number("EXISTS", w.keys.Iteration("a")))
		}})
	}
	lives := map[string]job.Outcome{
		"retry": job.Retried("a'", time.Minute), "snoozed": job.Snoozed("a'", time.Minute), "dead": job.Died("a'"), "requeued": job.Requeued(),
	}
	for name, outcome := range lives {
		promises = append(promises, promise{name, func(w *world) {
			identity := w.hold("a")
			w.save(identity, 1, "7")
			state := cursorOf(1, "9")
			state.Keep += outcome.After()
			require.Equal(w, allSettled, w.settle(identity, 1, stateful(outcome, state)))
			require.Equal(w, "9", w.cursor())
			require.InDelta(w, (KeepState + outcome.After()).Seconds(), w.number("TTL", w.keys.Iteration("a")), 30)
		}})
	}
	keep(t, append(promises,
		promise{"jobs_with_and_without_state_in_one_batch", func(w *world) {
			identity := w.hold("a", "b", "c", "d")
			w.redis("HSET", w.keys.Iteration("b"), "c", "1")
			var ends []Settled
			for i, name := range []string{"a", "b", "c", "d"} {
				settled := end("q", name, job.Requeued())
				if i > 0 {
					settled.Lock = &Lock{Digest: name, Owner: OwnerOf(name, "Mail"), Hold: time.Minute}
					settled.State = &JobState{JID: name, Created: "1", Version: int64(i), Keep: time.Hour}
				}
				for field := range i {
					settled.State.Fields = append(settled.State.Fields, strconv.Itoa(field), name)
				}
				ends = append(ends, settled)
			}
			require.Equal(w, allSettled, w.settle(identity, 1, ends...))
			require.Empty(w, w.hash(w.keys.Iteration("a")))
			require.Equal(w, map[string]string{"0": "b", fieldVersion: "2", fieldCreated: "1", "c": "1"}, w.hash(w.keys.Iteration("b")))
			require.Equal(w, map[string]string{"0": "d", "1": "d", "2": "d", fieldVersion: "4", fieldCreated: "1", "c": "null"}, w.hash(w.keys.Iteration("d")))
			require.Equal(w, []string{"d", "c", "b", "a"}, w.waiting("q"))
		}},
		promise{"a_lost_job's_state_is_not_touched", func(w *world) {
			identity, holder := w.process("q"), w.hold("a")
			w.save(holder, 1, "7")
			state := cursorOf(5, "3")
			require.Equal(w, []int{0}, w.settle(identity, 1, stateful(job.Requeued(), state)).Lost)
			state.Keep = 0
			require.Equal(w, []int{0}, w.settle(identity, 2, stateful(job.Done(), state)).Lost)
			require.Equal(w, "7", w.cursor())
		}},
	)...)
}
