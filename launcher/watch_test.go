package launcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

// A watched is a pool whose runs are only said to be, and a clock.
type watched struct {
	t       *testing.T
	watch   watch
	pool    *pool
	end     context.CancelCauseFunc
	session *fetch.Session
	now     time.Time
}

func newWatched(t *testing.T, concurrency int, timeout time.Duration) *watched {
	t.Helper()
	l, err := New(Config{Client: struct{ driver.Client }{}, Concurrency: concurrency})
	require.NoError(t, err)
	l.Handle("Deaf", func(context.Context, *job.Job) error { return nil }, Class{Timeout: timeout})
	handlers, err := l.wrapped()
	require.NoError(t, err)
	w := &watched{t: t, pool: newPool(l, handlers), now: time.Now()}
	var ctx context.Context
	ctx, w.end = context.WithCancelCause(t.Context())
	w.session = &fetch.Session{Identity: "host:1:abc", Context: ctx}
	return w
}

// run gives a processor something to run.
func (w *watched) run(processor int, fields ...string) *run {
	w.t.Helper()
	payload := fmt.Sprintf(`{"class":"Deaf","args":[],"jid":"jid%d"%s}`, processor, strings.Join(fields, ""))
	parsed, err := job.Parse(payload)
	require.NoError(w.t, err)
	r := &run{shard: w.pool.launcher.shards[0], processor: w.pool.processors[processor], Run: &fetch.Run{Bytes: payload, Queue: "default", Session: w.session}, Context: w.session.Context, job: parsed, startedAt: w.now}
	about := w.pool.registered(parsed)
	r.timeout, r.tooLate = w.pool.launcher.shards[0].timeout(parsed, &about)
	w.pool.processors[processor].current.Store(r)
	return r
}

func (w *watched) look() []*run {
	late, _ := w.watch.look(w.now, w.pool, false)
	return late
}

// pass lets time pass, with a look each second, and answers how long after the beginning something was
// reported.
func (w *watched) pass(d time.Duration) (reported []time.Duration) {
	for passed := time.Duration(0); passed < d; {
		passed += watchEvery
		w.now = w.now.Add(watchEvery)
		for range w.look() {
			reported = append(reported, passed)
		}
	}
	return reported
}

func TestWatch(t *testing.T) {
	t.Parallel()

	t.Run("tells_of_a_run_once_it_is_over_by_its_timeout_again", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct{ timeout, reported time.Duration }{
			{20 * time.Millisecond, 6 * time.Second}, // at least minPatience, after the look that saw it
			{5 * time.Second, 10 * time.Second},
			{20 * time.Second, 40 * time.Second},
			{time.Hour, time.Hour + maxPatience},
		} {
			w := newWatched(t, 1, c.timeout)
			w.run(0)
			require.Equal(t, []time.Duration{c.reported}, w.pass(c.reported+5*time.Minute), c.timeout)
		}
	})

	t.Run("whichever_timeout_it_has", func(t *testing.T) {
		t.Parallel()
		own := newWatched(t, 1, time.Hour)
		own.run(0, `,"belay_timeout_ms":5000`)
		require.Equal(t, []time.Duration{10 * time.Second}, own.pass(time.Minute), "the job's")
		general := newWatched(t, 1, 0)
		general.pool.launcher.cfg.Timeout = 5 * time.Second
		general.run(0)
		require.Equal(t, []time.Duration{10 * time.Second}, general.pass(time.Minute), "the process'")
		late := newWatched(t, 1, 0)
		r := late.run(0, fmt.Sprintf(`,"belay_deadline_ms":%d`, late.now.Add(4500*time.Millisecond).UnixMilli()))
		reported := late.pass(time.Minute)
		require.Len(t, reported, 1, "the deadline")
		require.LessOrEqual(t, reported[0], 10*time.Second)
		require.ErrorIs(t, r.late.cause, ErrDeadline)
	})

	t.Run("and_then_every_ten_minutes", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t, 1, time.Second)
		w.run(0)
		require.Equal(t, []time.Duration{6 * time.Second, 6*time.Second + reportAgain, 6*time.Second + 2*reportAgain}, w.pass(2*reportAgain+time.Minute))
	})

	t.Run("tells_of_a_run_that_ignores_its_cancellation", func(t *testing.T) {
		t.Parallel()
		for _, cause := range []error{ErrShutdown, fetch.ErrOwnershipLost} {
			w := newWatched(t, 1, 0)
			w.run(0)
			require.Empty(t, w.pass(time.Hour), "without a timeout it may take its time")
			w.end(cause)
			w.now = w.now.Add(watchEvery)
			require.Empty(t, w.look())
			require.Empty(t, w.pass(minPatience-watchEvery))
			w.now = w.now.Add(watchEvery)
			reported := w.look()
			require.Len(t, reported, 1)
			require.ErrorIs(t, reported[0].late.cause, cause)
			require.Equal(t, minPatience, reported[0].overdue())
		}
	})

	t.Run("says_the_first_cause", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t, 1, time.Second)
		w.run(0)
		w.pass(2 * time.Second)
		w.end(ErrShutdown)
		w.pass(minPatience - 2*watchEvery)
		w.now = w.now.Add(watchEvery)
		reported := w.look()
		require.Len(t, reported, 1)
		require.ErrorIs(t, reported[0].late.cause, ErrTimeout)
		require.ErrorIs(t, reported[0].late.cause, context.DeadlineExceeded)
	})

	t.Run("forgets_a_run_that_ends", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t, 1, time.Second)
		first := w.run(0)
		w.pass(4 * time.Second)
		require.Equal(t, 3*time.Second, first.overdue())
		second := w.run(0) // on the same processor
		require.Empty(t, w.pass(4*time.Second))
		require.Equal(t, 3*time.Second, second.overdue())
		w.pool.processors[0].current.Store(nil)
		require.Empty(t, w.pass(time.Hour))
	})

	t.Run("does_not_count_the_time_in_which_the_process_was_frozen", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t, 1, time.Second)
		w.run(0)
		w.pass(2 * time.Second)
		w.now = w.now.Add(time.Hour)
		require.Empty(t, w.look(), "the handler has had no time either")
		require.NotEmpty(t, w.pass(minPatience))
	})

	t.Run("tells_of_many_in_turn", func(t *testing.T) {
		t.Parallel()
		const stuck = 3*maxReported + 1
		w := newWatched(t, stuck, time.Second)
		for n := range stuck {
			w.run(n)
		}
		seen := make(map[*run]bool)
		w.pass(minPatience)
		for range 4 {
			w.now = w.now.Add(watchEvery)
			reported := w.look()
			require.LessOrEqual(t, len(reported), maxReported)
			for _, late := range reported {
				require.False(t, seen[late])
				seen[late] = true
			}
		}
		require.Len(t, seen, stuck)
	})

	t.Run("reports_at_a_stop_what_was_not_reported_before", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t, maxReported+3, time.Second)
		w.run(0)
		w.pass(10 * time.Second)
		for n := range maxReported + 2 {
			w.run(n + 1)
		}
		w.end(ErrShutdown)
		reported, more := w.watch.look(w.now, w.pool, true)
		require.Len(t, reported, maxReported)
		require.Equal(t, 3, more)
		for _, late := range reported {
			require.ErrorIs(t, late.late.cause, ErrShutdown)
			require.Equal(t, fetch.Moment, late.overdue())
		}
	})
}

func TestStackOf(t *testing.T) {
	t.Parallel()

	t.Run("finds_one_goroutine_among_all", func(t *testing.T) {
		t.Parallel()
		number, release := make(chan int64), make(chan bool)
		go func() {
			number <- goroutine()
			standHere(release)
		}()
		its := <-number
		require.Positive(t, its)
		drivertest.Eventually(t, func() bool { return strings.Contains(stackOf(allStacks(maxStacks), its), "standHere") }, 20*time.Second, time.Millisecond)
		require.NotContains(t, stackOf(allStacks(maxStacks), its), "TestStackOf.func1(", "of no other")
		require.Contains(t, stackOf(allStacks(maxStacks), goroutine()), "TestStackOf")
		close(release)
	})

	t.Run("also_one_of_many", func(t *testing.T) {
		t.Parallel()
		numbers, release := make(chan int64), make(chan bool)
		defer close(release)
		const many = 10_000 // the text of which does not fit into the first buffer
		for range many {
			go func() {
				numbers <- goroutine()
				standHere(release)
			}()
		}
		var last int64
		for range many {
			last = <-numbers
		}
		require.NotEmpty(t, stackOf(allStacks(maxStacks), last))
	})

	t.Run("a_number_is_not_another_that_begins_like_it", func(t *testing.T) {
		t.Parallel()
		all := []byte("goroutine 12 [running]:\na()\n\ngoroutine 1 [select]:\nb()\n\ngoroutine 2 gp=0x1 [select]:\nc()\n")
		require.Equal(t, "goroutine 1 [select]:\nb()", stackOf(all, 1))
		require.Equal(t, "goroutine 2 gp=0x1 [select]:\nc()\n", stackOf(all, 2))
		require.Empty(t, stackOf(all, 3))
		require.Empty(t, stackOf(nil, 3))
	})

	t.Run("a_long_one_is_cut_after_a_line", func(t *testing.T) {
		t.Parallel()
		number := make(chan int64)
		release := make(chan bool)
		defer close(release)
		go func() { number <- goroutine(); _ = deep(90, release) }()
		its := <-number
		var stack string
		drivertest.Eventually(t, func() bool {
			stack = stackOf(allStacks(maxStacks), its)
			return strings.Contains(stack, "standHere")
		}, 20*time.Second, time.Millisecond)
		require.LessOrEqual(t, len(stack), maxStack+len("..."))
		require.Greater(t, len(stack), maxStack/2)
		require.True(t, strings.HasSuffix(stack, "\n..."), "%.200q", stack[len(stack)-200:])
	})
}

//go:noinline
func standHere(release chan bool) { <-release }

func deep(n int, release chan bool) error {
	if n == 0 {
		standHere(release)
		return nil
	}
	return errors.Join(deep(n-1, release))
}
