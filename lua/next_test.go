package lua

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// endWith is the end of a run that stores these jobs, each of which is the name of its queue and its text.
func endWith(bytes string, outcome job.Outcome, next ...[2]string) Settled {
	s := end("q", bytes, outcome)
	jobs := make(NextJobs, len(next))
	for at, of := range next {
		jobs[at] = Next{Queue: of[0], Bytes: of[1]}
	}
	if len(next) > 0 {
		s.Next = &jobs
	}
	return s
}

func TestNextJobs(t *testing.T) {
	keep(t,
		promise{"go_to_the_backs_of_their_queues_in_the_step_that_ends_the_job", func(w *world) {
			identity := w.hold("a", "b", "c")
			w.push("r", "earlier")
			require.Equal(w, allSettled, w.settle(identity, 1,
				endWith("a", job.Done(), [2]string{"r", "a1"}, [2]string{"s", "a2"}), endWith("b", job.Done()),
				endWith("c", job.Done(), [2]string{"r", "c1"}, [2]string{"r", "c2"})))
			require.Equal(w, []string{"earlier", "a1", "c1", "c2"}, w.waiting("r"))
			require.Equal(w, []string{"a2"}, w.waiting("s"))
			require.Subset(w, w.texts("SMEMBERS", w.keys.Queues()), []string{"r", "s"})
			require.Empty(w, w.list(w.keys.Working("q", identity)))
		}},
		promise{"are_stored_once_however_often_the_settle_is_sent", func(w *world) {
			identity := w.hold("a")
			done := endWith("a", job.Done(), [2]string{"r", "a1"})
			require.Equal(w, allSettled, w.settle(identity, 1, done))
			w.unchanged(func() { require.Equal(w, allSettled, w.settle(identity, 1, done)) })
			require.Equal(w, []string{"a1"}, w.waiting("r"))
		}},
		promise{"of_a_job_that_was_lost_are_not_stored", func(w *world) {
			identity := w.hold("a", "b")
			verdict := w.settle(identity, 1, endWith("lost", job.Done(), [2]string{"r", "no"}), endWith("a", job.Done(), [2]string{"r", "a1"}))
			require.Equal(w, []int{0}, verdict.Lost)
			require.Equal(w, []string{"a1"}, w.waiting("r"))
		}},
		promise{"refuse_the_settle_before_it_writes_if_a_queue_is_none", func(w *world) {
			identity := w.hold("a", "b")
			w.redis("SET", w.keys.Queue("r"), "no list")
			w.unchanged(func() {
				refused(w, "WRONGTYPE", w.keys.Settle(w.settlement(identity, 1, endWith("a", job.Done(), [2]string{"s", "a1"}, [2]string{"r", "a2"}))))
			})
		}},
		promise{"are_beside_the_state_the_lock_and_the_batch_of_their_job", func(w *world) {
			identity := w.batchOf("1")
			s := memberEnd("1", job.Done(), MemberDone)
			s.State = &JobState{JID: "1", Created: "1", Version: 1, Keep: time.Minute, Fields: []string{FieldState, string(TrackDone), FieldResult, "7"}}
			s.Lock = &Lock{Digest: "d", Owner: OwnerOf("1", "Row"), Hold: time.Minute}
			s.Next = &NextJobs{{Queue: "r", Bytes: "next"}}
			w.redis("SET", w.keys.Lock("d"), "-"+s.Lock.Owner+"1", "PX", "60000")
			require.Equal(w, allSettled, w.settle(identity, 1, s))
			require.Equal(w, []string{"next"}, w.waiting("r"))
			require.Equal(w, []string{"Complete", "Success"}, w.called())
			require.Equal(w, "7", w.hash(w.keys.Iteration("1"))[FieldResult])
			require.Zero(w, w.number("EXISTS", w.keys.Lock("d")))
		}},
	)
}
