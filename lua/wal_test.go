package lua

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// leaving is a duplicate that leaves these positions.
func leaving(lines ...string) func(j *NewJob) {
	return func(j *NewJob) { j.WAL = strings.Join(lines, "\n") }
}

// left is what refused duplicates have left with the lock of digest d.
func (w *world) left() string {
	w.Helper()
	value, _ := w.redis("GET", w.keys.Lock("d")).(string)
	holder, ok := HolderOf(value)
	require.True(w, ok, "%q", value)
	return holder.Left
}

// started says that the run of job a begins, which identity has in hand, and answers what was left for it.
func (w *world) started(identity string, release bool) string {
	w.Helper()
	answer := ask(w, w.keys.Start(identity, []Start{{Queue: "q", Bytes: "a", Lock: lockOf("a"), Release: release, Leave: true, Mark: !release}}))
	require.Empty(w, answer.Lost)
	return answer.Left[0]
}

func TestPositions(t *testing.T) {
	keep(t,
		promise{"of_the_refused_are_left_with_the_lock_the_later_of_each_connection", func(w *world) {
			require.Empty(w, w.unique("a", leaving("main F/0")))
			require.Empty(w, w.left(), "its own it has in its payload")
			w.redis("PEXPIRE", w.keys.Lock("d"), "50000")
			w.redis("ZADD", w.keys.Unique(), fmt.Sprintf("%.0f", w.now()*1000+50000), "d")
			for _, c := range []struct{ lines, want string }{
				{"main 9/0", "main 9/0"},
				{"main 10/0", "main 10/0"}, // as text it is earlier
				{"main 9/FFFFFFFF", "main 10/0"},
				{"ci 0/A\nmain 10/0", "main 10/0\nci 0/A"},
				{"ci 0/10\nmain 10/1", "main 10/1\nci 0/10"},
				{"ci 0/F", "main 10/1\nci 0/10"},
				{"", "main 10/1\nci 0/10"},
				{"main FFFFFFFF/FFFFFFFF", "main FFFFFFFF/FFFFFFFF\nci 0/10"},
				{"main FFFFFFFF/FFFFFFFE", "main FFFFFFFF/FFFFFFFF\nci 0/10"},
			} {
				require.Equal(w, "a", w.unique("b", leaving(c.lines)))
				require.Equal(w, c.want, w.left())
			}
			w.held("-", "a")
			w.within(40_000, float64(w.number("PTTL", w.keys.Lock("d"))), 50_000)
			value := w.redis("GET", w.keys.Lock("d"))
			require.Equal(w, "a", w.unique("b", leaving("main 1/0")))
			require.Equal(w, value, w.redis("GET", w.keys.Lock("d")))
		}},
		promise{"of_one_call_are_all_left", func(w *world) {
			duplicate := func(jid, wal string) NewJob {
				return NewJob{Queue: "q", Job: jid, Lock: lockOf(jid), WAL: wal}
			}
			push := w.keys.PushUnique(nil, []NewJob{
				duplicate("a", "main 1/0"), duplicate("b", "main 9/0"), duplicate("c", "ci 1/0"), duplicate("e", ""),
				duplicate("f", "main 10/0"), duplicate("g", "main 2/0\nci 2/0"),
			})
			require.Equal(w, []string{"", "a", "a", "a", "a", "a"}, ask(w, push).Holders)
			require.Equal(w, "main 10/0\nci 2/0", w.left())
			require.Equal(w, []string{"a"}, w.waiting("q"))
			w.begin(false)
			ask(w, w.keys.PushUnique(nil, []NewJob{duplicate("b", "main 11/0"), duplicate("c", "main 12/0"), duplicate("e", "")}))
			require.Equal(w, "main 12/0\nci 2/0", w.left())
			w.held("d", "a")
		}},
		promise{"of_the_holder_itself_pushed_again_are_left_too", func(w *world) {
			require.Empty(w, w.unique("a", leaving("main 1/0")))
			require.Empty(w, w.unique("a", leaving("main 2/0")))
			require.Equal(w, "main 2/0", w.left())
			require.Empty(w, w.unique("a", leaving("main 3/0"), func(j *NewJob) { j.Mark = true }))
			require.Equal(w, "main 3/0", w.left())
			w.held("-", "a")
			w.begin(false)
			require.Equal(w, "a", w.unique("a", leaving("main 4/0")))
			require.Equal(w, "main 4/0", w.left())
			w.held("d", "a")
			require.Empty(w, w.list(w.keys.Queue("q")))
		}},
		promise{"are_bounded_and_none_is_left_with_what_is_no_lock", func(w *world) {
			require.Empty(w, w.unique("a"))
			for n := range 20 {
				require.Equal(w, "a", w.unique("b", leaving(fmt.Sprintf("n%d 0/1", n))))
			}
			require.Len(w, strings.Split(w.left(), "\n"), 16)
			require.Equal(w, "a", w.unique("b", leaving("n3 0/2", "n30 0/2")))
			require.Contains(w, w.left(), "n3 0/2")
			require.NotContains(w, w.left(), "n30")
			w.redis("SET", w.keys.Lock("d"), "odd", "PX", "60000")
			require.Equal(w, "dd", w.unique("b", leaving("main 1/0")))
			require.Equal(w, "odd", w.redis("GET", w.keys.Lock("d")))
		}},
		promise{"are_returned_at_every_start_until_executed", func(w *world) {
			w.unique("a")
			w.unique("b", leaving("main 9/0"))
			identity := w.begin(false)
			require.Equal(w, "main 9/0", w.started(identity, false))
			w.unique("b", leaving("main 10/0"))
			require.Equal(w, "main 10/0", w.started(identity, false))
			require.Equal(w, allSettled, w.settle(identity, 1, locked(job.Retried("a", time.Hour), nil)))
			require.Equal(w, "main 10/0", w.left(), "and are kept through a retry")
			w.held("d", "a")
		}},
		promise{"are_returned_again_by_a_start_that_is_said_again_though_the_lock_is_anothers_then", func(w *world) {
			w.unique("a")
			w.unique("b", leaving("main 9/0", "ci 0/1"))
			identity := w.process("q")
			w.take(identity, 100, "q")
			require.Equal(w, "main 9/0\nci 0/1", w.started(identity, true))
			w.free()
			w.within(50_000, float64(w.number("PTTL", w.keys.Left("a"))), 60_000)
			require.Empty(w, w.unique("c"))
			w.unique("d", leaving("main A/0"))
			w.unchanged(func() { require.Equal(w, "main 9/0\nci 0/1", w.started(identity, true)) })
			require.Equal(w, "main A/0", w.left())
			require.NoError(w, w.client.Do(w.Context(), w.keys.ForgetLeft([]string{"x", "a"}))[0].Err)
			require.Empty(w, w.started(identity, true))
			require.Zero(w, w.number("EXISTS", w.keys.Left("a")))
		}},
		promise{"are_returned_for_none_that_is_not_in_hand", func(w *world) {
			w.unique("a")
			w.unique("b", leaving("main 9/0"))
			identity := w.process("q")
			w.unchanged(func() {
				answer := ask(w, w.keys.Start(identity, []Start{{Queue: "q", Bytes: "a", Lock: lockOf("a"), Release: true, Leave: true}}))
				require.Equal(w, Started{Lost: []int{0}}, answer)
			})
		}},
		promise{"go_to_the_run_that_comes_once_more", func(w *world) {
			w.unique("a")
			identity := w.begin(false)
			w.unique("b", leaving("main 9/0"))
			require.Equal(w, allSettled, w.settle(identity, 1, locked(job.Done(), onceMore)))
			w.held("-", "a2")
			require.Equal(w, "main 9/0", w.left())
		}},
		promise{"are_what_an_operator_is_shown", func(w *world) {
			w.unique("a")
			w.unique("b", leaving("main 9/0"))
			holder, ok := HolderOf(ask(w, w.keys.Release("d")).Value)
			require.True(w, ok)
			require.Equal(w, "main 9/0", holder.Left)
		}},
	)
}
