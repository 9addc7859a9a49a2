package lua

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPush(t *testing.T) {
	keep(t,
		promise{"jobs_of_several_queues_at_their_backs_in_order", func(w *world) {
			w.push("q", "a")
			require.Equal(w, "pushed", ask(w, w.keys.Push(nil, []NewJob{
				{Queue: "q", Job: "b"}, {Queue: "r", Job: "d"}, {Queue: "q", Job: "c"},
			})).Word)
			require.Equal(w, []string{"a", "b", "c"}, w.waiting("q"))
			require.Equal(w, []string{"d"}, w.waiting("r"))
			require.ElementsMatch(w, []string{"q", "r"}, w.texts("SMEMBERS", w.keys.Queues()))
		}},
		promise{"names_its_queue_again_after_Ruby_took_the_name_out", func(w *world) {
			w.push("q", "a")
			w.redis("SREM", w.keys.Queues(), "q")
			w.push("q", "b")
			require.Equal(w, []string{"q"}, w.texts("SMEMBERS", w.keys.Queues()))
		}},
		promise{"all_or_none", func(w *world) {
			w.redis("SET", w.keys.Queue("r"), "no list")
			w.unchanged(func() {
				refused(w, "WRONGTYPE", w.keys.Push(nil, []NewJob{{Queue: "q", Job: "a"}, {Queue: "r", Job: "b"}}))
			})
		}},
		promise{"for_later_by_Redis_clock_or_at_an_instant", func(w *world) {
			at := time.Unix(2_000_000_000, 250_000_000)
			before := w.now()
			require.Equal(w, "pushed", ask(w, w.keys.Push(nil, []NewJob{
				{Queue: "q", Job: "now"}, {Job: "in", In: time.Hour}, {Job: "at", At: at},
			})).Word)
			require.Equal(w, []string{"now"}, w.waiting("q"))
			require.InDelta(w, before+3600, w.score(w.keys.Schedule(), "in"), 60)
			require.GreaterOrEqual(w, w.score(w.keys.Schedule(), "in"), before+3600, "never early")
			require.InDelta(w, 2_000_000_000.25, w.score(w.keys.Schedule(), "at"), 1e-6)
			require.Equal(w, []string{"q"}, w.texts("SMEMBERS", w.keys.Queues()), "Ruby names no queue for a scheduled job")
		}},
		promise{"nothing_when_the_schedule_is_broken", func(w *world) {
			w.redis("SET", w.keys.Schedule(), "no set")
			w.unchanged(func() {
				refused(w, "WRONGTYPE", w.keys.Push(nil, []NewJob{{Queue: "q", Job: "a"}, {Job: "b", In: time.Hour}}))
			})
		}},
		promise{"as_many_as_a_call_may_hold", func(w *world) {
			jobs := make([]string, MaxItems)
			w.push("q", jobs...)
			require.Equal(w, MaxItems, w.number("LLEN", w.keys.Queue("q")))
		}},
	)
}

// pushOnce pushes jobs to queue q under a number in the scope "s".
func (w *world) pushOnce(number int64, mark string, jobs ...string) Ask[Pushed] {
	return w.keys.Push(
		&IdempotencyKey{Scope: w.scope(), Number: number, Mark: mark, Remember: time.Hour}, into("q", jobs...))
}

func (w *world) scope() string { return w.keys.IdempotencyScope("s", 0) }

func TestPushWithAnIdempotencyKey(t *testing.T) {
	keep(t,
		promise{"stores_what_is_sent_again_once", func(w *world) {
			push := w.keys.Push(&IdempotencyKey{Scope: w.scope(), Number: 1, Mark: "m", Remember: time.Hour},
				[]NewJob{{Queue: "q", Job: "a"}, {Queue: "r", Job: "c"}, {Queue: "q", Job: "b"}, {Job: "d", In: time.Hour}})
			require.Equal(w, PushStored, ask(w, push).Word)
			w.unchanged(func() {
				for range 3 {
					require.Equal(w, PushStored, ask(w, push).Word)
				}
			})
			require.Equal(w, []string{"a", "b"}, w.waiting("q"))
			require.Equal(w, []string{"c"}, w.waiting("r"))
			require.Equal(w, []string{"d"}, w.sorted(w.keys.Schedule()))
		}},
		promise{"also_when_its_jobs_have_gone_and_their_queue_is_broken", func(w *world) {
			push := w.pushOnce(1, "m", "a")
			require.Equal(w, PushStored, ask(w, push).Word)
			w.redis("DEL", w.keys.Queue("q"))
			w.redis("SET", w.keys.Queue("q"), "no list")
			w.unchanged(func() { require.Equal(w, PushStored, ask(w, push).Word) })
		}},
		promise{"stores_each_number_of_a_scope_whatever_was_left_out", func(w *world) {
			for _, number := range []int64{1, 2, 9, 10, 1 << 50} {
				require.Equal(w, PushStored, ask(w, w.pushOnce(number, "m", "job")).Word)
			}
			require.Len(w, w.waiting("q"), 5)
			require.Equal(w, "1125899906842624 m", w.redis("GET", w.scope()), "all of them take the room of one")
		}},
		promise{"stores_nothing_that_comes_after_a_later_one", func(w *world) {
			late, next := w.pushOnce(1, "m", "late"), w.pushOnce(2, "n", "next")
			require.Equal(w, PushStored, ask(w, next).Word)
			w.unchanged(func() {
				require.Equal(w, PushStale, ask(w, late).Word)
				require.Equal(w, PushStored, ask(w, next).Word)
				require.Equal(w, PushStale, ask(w, late).Word)
			})
			require.Equal(w, []string{"next"}, w.waiting("q"))
		}},
		promise{"takes_no_other_push_under_its_number_for_itself", func(w *world) {
			require.Equal(w, PushStored, ask(w, w.pushOnce(7, "mine", "a")).Word)
			w.unchanged(func() { require.Equal(w, PushStale, ask(w, w.pushOnce(7, "a twin's", "b")).Word) })
		}},
		promise{"remembers_for_as_long_as_it_is_asked_to", func(w *world) {
			require.Equal(w, PushStored, ask(w, w.pushOnce(1, "m", "a")).Word)
			left := w.number("PTTL", w.scope())
			require.Greater(w, left, 3_500_000)
			require.LessOrEqual(w, left, 3_600_000)
			w.redis("PEXPIRE", w.scope(), "0")
			require.Equal(w, PushStored, ask(w, w.pushOnce(1, "m", "a")).Word)
			require.Len(w, w.waiting("q"), 2, "a client that repeats must know when not to")
		}},
		promise{"does_not_remember_what_it_did_not_store", func(w *world) {
			w.redis("SET", w.keys.Queue("q"), "no list")
			w.unchanged(func() { refused(w, "WRONGTYPE", w.pushOnce(1, "m", "a")) })
			w.redis("DEL", w.keys.Queue("q"))
			require.Equal(w, PushStored, ask(w, w.pushOnce(1, "m", "a")).Word)
			require.Equal(w, []string{"a"}, w.waiting("q"))
		}},
		promise{"stores_nothing_under_a_scope_that_is_something_else", func(w *world) {
			w.redis("LPUSH", w.scope(), "x")
			w.unchanged(func() { refused(w, "WRONGTYPE", w.pushOnce(1, "m", "a")) })
			w.redis("DEL", w.scope())
			w.redis("SET", w.scope(), "no number")
			w.unchanged(func() { require.Equal(w, PushStale, ask(w, w.pushOnce(1, "m", "a")).Word) })
		}},
	)
}

// Whatever order the copies of a scope's pushes arrive in, none is stored twice, nothing is stored behind a
// later one, and a reply that a push is stored is true.
func TestPushesWithIdempotencyKeysInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, g := range grounds {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			w, scope := g.world(t), 0
			rapid.Check(t, func(rt *rapid.T) {
				scope++
				queue := "q" + strconv.Itoa(scope)
				var stored []string
				var last int64
				for _, number := range rapid.SliceOfN(rapid.Int64Range(1, 6), 0, 20).Draw(rt, "arrivals") {
					job := strconv.FormatInt(number, 10)
					pushed, err := w.keys.Push(&IdempotencyKey{Scope: w.keys.IdempotencyScope("s", scope), Number: number, Mark: "m" + job, Remember: time.Hour},
						into(queue, job)).Do(w.Context(), w.client)
					require.NoError(rt, err)
					if number > last {
						last, stored = number, append(stored, job)
					}
					if number == last {
						require.Equal(rt, PushStored, pushed.Word)
					} else {
						require.Equal(rt, PushStale, pushed.Word)
					}
				}
				require.Equal(rt, stored, append([]string(nil), w.waiting(queue)...))
			})
		})
	}
}

// Ruby pushes unique jobs by this script too.
func TestTheScriptInRubyIsThisOne(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../contrib/ruby/belay.rb")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "PUSH_UNIQUE = <<'LUA'\n")
	require.True(t, found)
	script, _, found := strings.Cut(rest, "LUA\n")
	require.True(t, found)
	require.Equal(t, source("push_unique.lua"), script)
}
