package lua

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dueAt puts jobs into a set, the first one due so long ago, each next one a second later.
func (w *world) dueAt(set string, ago time.Duration, jobs ...string) {
	w.Helper()
	first := w.now() - ago.Seconds()
	for i, job := range jobs {
		w.redis("ZADD", set, strconv.FormatFloat(first+float64(i), 'f', 6, 64), job)
	}
}

func TestDue(t *testing.T) {
	keep(t,
		promise{"earliest_first_and_none_before_its_time", func(w *world) {
			w.dueAt(w.keys.Schedule(), time.Hour, "a", "b", "c")
			w.dueAt(w.keys.Schedule(), -time.Hour, "later")
			w.unchanged(func() {
				due := ask(w, w.keys.Due(w.keys.Schedule(), 0, MaxBytes, noLimit))
				require.Equal(w, []string{"a", "b", "c"}, due.Jobs)
				require.InDelta(w, time.Hour, due.Next, float64(time.Minute))
			})
		}},
		promise{"nothing_of_an_empty_set", func(w *world) {
			due := ask(w, w.keys.Due(w.keys.Retry(), 0, MaxBytes, noLimit))
			require.Empty(w, due.Jobs)
			require.Negative(w, due.Next)
		}},
		promise{"a_next_one_after_a_long_time_whatever_its_score", func(w *world) {
			for _, score := range []string{"+inf", "1e300", "9300000000000", "1790000000000000"} {
				w.redis("DEL", w.keys.Schedule())
				w.redis("ZADD", w.keys.Schedule(), score, "far")
				due := ask(w, w.keys.Due(w.keys.Schedule(), 0, MaxBytes, noLimit))
				require.Empty(w, due.Jobs, score)
				require.Equal(w, 1_000_000*time.Second, due.Next, score)
			}
		}},
		promise{"a_page_at_most", func(w *world) {
			jobs := make([]string, MaxItems+10)
			for i := range jobs {
				jobs[i] = fmt.Sprint("job", i)
			}
			w.dueAt(w.keys.Schedule(), time.Hour, jobs...)
			require.Equal(w, jobs[:MaxItems], ask(w, w.keys.Due(w.keys.Schedule(), 0, MaxBytes, noLimit)).Jobs)
			require.Equal(w, jobs[MaxItems:], ask(w, w.keys.Due(w.keys.Schedule(), MaxItems, MaxBytes, noLimit)).Jobs, "those to pass over are passed over")
		}},
		promise{"no_more_bytes_than_a_page", func(w *world) {
			var jobs []string
			for i := range 8 {
				jobs = append(jobs, strconv.Itoa(i)+strings.Repeat("x", 1<<20))
			}
			w.dueAt(w.keys.Schedule(), time.Hour, jobs...)
			due := ask(w, w.keys.Due(w.keys.Schedule(), 0, MaxBytes, noLimit))
			require.Len(w, due.Jobs, 4)
			require.Len(w, ask(w, w.keys.Due(w.keys.Schedule(), 0, 3<<20, noLimit)).Jobs, 3, "a caller may want less")
			require.Len(w, ask(w, w.keys.Due(w.keys.Schedule(), 0, 1, noLimit)).Jobs, 1, "one job whatever its size")
		}},
		promise{"small_jobs_too_end_a_page_by_its_bytes", func(w *world) {
			var jobs []string
			for i := range 200 {
				jobs = append(jobs, fmt.Sprintf("%04d", i)+strings.Repeat("x", 996))
			}
			w.dueAt(w.keys.Schedule(), time.Hour, jobs...)
			require.Equal(w, jobs[:50], ask(w, w.keys.Due(w.keys.Schedule(), 0, 50_000, noLimit)).Jobs)
		}},
		promise{"names_what_is_too_large_and_goes_on", func(w *world) {
			huge := strings.Repeat("x", 2000)
			w.dueAt(w.keys.Retry(), time.Hour, "a", huge, "y"+huge, "b")
			w.unchanged(func() {
				due := ask(w, w.keys.Due(w.keys.Retry(), 0, MaxBytes, 1000))
				require.Equal(w, []string{"a", "b"}, due.Jobs)
				first, second := LargeOf(huge), LargeOf("y"+huge)
				first.At, second.At = 1, 2
				require.Equal(w, []Large{first, second}, due.Large)
			})
		}},
	)
}

func TestPromote(t *testing.T) {
	promotions := func(queue string, dead bool, pairs ...string) Promotions {
		group := Promotions{Queue: queue, Dead: dead}
		for i := 0; i < len(pairs); i += 2 {
			group.Jobs = append(group.Jobs, Promotion{Old: pairs[i], New: pairs[i+1]})
		}
		return group
	}
	keep(t,
		promise{"to_the_backs_of_their_queues_with_their_new_bytes", func(w *world) {
			w.push("q", "waits")
			w.dueAt(w.keys.Schedule(), time.Hour, "a", "b", "c", "{")
			moved := ask(w, w.keys.Promote(w.keys.Schedule(), []Promotions{
				promotions("q", false, "a", "A", "b", "B"), promotions("r", false, "c", "C"), promotions("", true, "{", "{"),
			}, w.today))
			require.Equal(w, 4, moved)
			require.Equal(w, []string{"waits", "A", "B"}, w.waiting("q"))
			require.Equal(w, []string{"C"}, w.waiting("r"))
			require.Equal(w, []string{"{"}, w.sorted(w.keys.Dead()))
			require.Empty(w, w.sorted(w.keys.Schedule()))
			require.ElementsMatch(w, []string{"q", "r"}, w.texts("SMEMBERS", w.keys.Queues()))
		}},
		promise{"a_quarantined_job_to_the_quarantine_of_its_queue", func(w *world) {
			w.dueAt(w.keys.Retry(), time.Hour, "a", "b")
			page := []Promotions{promotions("q", false, "a", "A"), promotions("q", false, "b", "B")}
			page[1].Quarantine = true
			require.Equal(w, 2, ask(w, w.keys.Promote(w.keys.Retry(), page, w.today)))
			require.Equal(w, []string{"A"}, w.waiting("q"))
			require.Equal(w, []string{"B"}, w.list(w.keys.Quarantine("q")))
		}},
		promise{"what_goes_to_the_dead_set_counts_as_failed_once_and_nothing_else_counts", func(w *world) {
			w.dueAt(w.keys.Retry(), time.Hour, "a", "{", "[")
			page := []Promotions{promotions("q", false, "a", "A"), promotions("", true, "{", "{", "[", "[", "gone", "gone")}
			require.Equal(w, 3, ask(w, w.keys.Promote(w.keys.Retry(), page, w.today)))
			w.counted(2, 2)
			for _, day := range []string{w.keys.ProcessedOn(w.today), w.keys.FailedOn(w.today)} {
				require.Positive(w, w.number("TTL", day), "a day's counter expires")
			}
			require.Zero(w, ask(w, w.keys.Promote(w.keys.Retry(), page, w.today)))
			w.counted(2, 2)
		}},
		promise{"a_broken_counter_keeps_no_job_from_dying", func(w *world) {
			w.dueAt(w.keys.Schedule(), time.Hour, "{")
			w.redis("LPUSH", w.keys.Processed(), "no counter")
			require.Equal(w, 1, ask(w, w.keys.Promote(w.keys.Schedule(), []Promotions{promotions("", true, "{", "{")}, w.today)))
			require.Equal(w, []string{"{"}, w.sorted(w.keys.Dead()))
			require.Equal(w, 1, w.counter(w.keys.Failed()))
			require.Equal(w, 1, w.counter(w.keys.ProcessedOn(w.today)))
		}},
		promise{"not_what_another_has_moved_or_put_off", func(w *world) {
			w.dueAt(w.keys.Schedule(), -time.Hour, "put off")
			w.unchanged(func() {
				require.Zero(w, ask(w, w.keys.Promote(w.keys.Schedule(), []Promotions{promotions("q", false, "gone", "G", "put off", "P")}, w.today)))
			})
		}},
		promise{"each_once_however_often_it_is_asked", func(w *world) {
			w.dueAt(w.keys.Retry(), time.Hour, "a")
			page := []Promotions{promotions("q", false, "a", "A")}
			require.Equal(w, 1, ask(w, w.keys.Promote(w.keys.Retry(), page, w.today)))
			w.unchanged(func() { require.Zero(w, ask(w, w.keys.Promote(w.keys.Retry(), page, w.today))) })
		}},
		promise{"nothing_when_one_queue_is_broken", func(w *world) {
			w.dueAt(w.keys.Schedule(), time.Hour, "a", "b")
			w.redis("SET", w.keys.Queue("r"), "no list")
			w.unchanged(func() {
				refused(w, "WRONGTYPE", w.keys.Promote(w.keys.Schedule(), []Promotions{promotions("q", false, "a", "A"), promotions("r", false, "b", "B")}, w.today))
			})
		}},
	)
}
