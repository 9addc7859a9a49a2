package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// An abandoned is a worker in which a run goes on whose job was recovered from it.
type abandoned struct {
	*rig
	worker        *worker
	payload       string // the job's
	release       chan bool
	running, most atomic.Int32 // of that job
	ended         chan bool
}

// abandon starts a worker whose jobs of class Deaf heed nothing but release, lets one run, and declares the
// process dead.
func (r *rig) abandon(concurrency int, more func(l *launcher.Launcher)) *abandoned {
	r.t.Helper()
	h := &abandoned{rig: r, release: make(chan bool), ended: make(chan bool, 8)}
	cfg := r.config()
	cfg.Concurrency = concurrency
	l := r.build(cfg)
	l.Handle("Deaf", func(context.Context, *job.Job) error {
		h.most.Store(max(h.most.Load(), h.running.Add(1)))
		<-h.release
		h.running.Add(-1)
		h.ended <- true
		return errors.New("what an abandoned run returns is no outcome")
	}, launcher.Class{})
	l.Handle("Other", func(context.Context, *job.Job) error { return nil }, launcher.Class{})
	if more != nil {
		more(l)
	}
	h.payload = r.push("Deaf", "[]")
	h.worker = r.start(l)
	r.eventually("the start", func() bool { return h.running.Load() == 1 })
	old := l.Identity()
	r.do("LREM", r.keys.Working("default", old), "1", h.payload) // recovered, and then elsewhere
	r.declareDead(old)
	r.eventually("a new name", func() bool { return l.Identity() != old })
	return h
}

// refused waits until the job was requeued, and checks that it has not run.
func (h *abandoned) refused() {
	h.t.Helper()
	h.eventually("the job to be requeued", func() bool { return strings.Contains(h.log.String(), "requeued: earlier run") })
	require.Equal(h.t, int32(1), h.running.Load())
}

// finished lets the abandoned handler return, and waits until the job has run.
func (h *abandoned) finished() {
	h.t.Helper()
	close(h.release)
	receive(h.t, "the end of the abandoned run", h.ended)
	receive(h.t, "the second run", h.ended)
	require.Equal(h.t, int32(1), h.most.Load(), "never both at once")
	h.eventually("its failure to be stored", func() bool { return len(h.set(h.keys.Retry())) == 1 })
	require.Equal(h.t, "1", h.counter(h.keys.Failed()), "of the second run, not of the abandoned one")
}

// again is the job after a failed run in another process.
func (h *abandoned) again() string {
	h.t.Helper()
	parsed, err := job.Parse(h.payload)
	require.NoError(h.t, err)
	return parsed.Patch(job.SetInt("retry_count", 0), job.SetString("error_message", "failed elsewhere"))
}

// A job comes back to a process in which an earlier run of it still goes on, by each way there is. All are on
// their way at once, because each is refused for a while.
func TestAJobDoesNotRunBesideItsAbandonedRun(t *testing.T) {
	t.Parallel()
	ways := map[string]*abandoned{
		"when_it_is_recovered": recovered(t), "when_it_is_retried": retried(t), "when_a_take_brings_it": taken(t),
		"when_an_idle_wait_brings_it": waitedFor(t), "when_the_answer_that_brought_it_was_lost": reclaimed(t),
	}
	for name, h := range ways {
		t.Log(name)
		h.refused()
		h.finished()
	}
}

func recovered(t *testing.T) *abandoned {
	h := oneClient(t).abandon(4, nil)
	h.do("RPUSH", h.keys.Queue("default"), h.payload)
	return h
}

func retried(t *testing.T) *abandoned {
	h := oneClient(t).abandon(4, nil)
	h.do("ZADD", h.keys.Retry(), "1", h.again())
	return h
}

func taken(t *testing.T) *abandoned {
	started, release := make(chan bool), make(chan bool)
	h := oneClient(t).abandon(2, func(l *launcher.Launcher) {
		l.Handle("Busy", func(context.Context, *job.Job) error { started <- true; <-release; return nil }, launcher.Class{})
	})
	h.push("Busy", "[]")
	receive(t, "the other processor to be busy", started) // so nothing waits at the queue
	h.do("RPUSH", h.keys.Queue("default"), h.again())
	close(release)
	return h
}

func waitedFor(t *testing.T) *abandoned {
	server := drivertest.Start(t) // of its own, so that no other wait is seen
	h := newRig(t, openers["rueidis"], server.URL(), "").abandon(4, nil)
	h.eventually("an idle wait", func() bool {
		clients, _ := h.do("CLIENT", "LIST").(string)
		return strings.Contains(clients, "cmd=blmove")
	})
	h.do("LPUSH", h.keys.Queue("default"), h.again())
	return h
}

func reclaimed(t *testing.T) *abandoned {
	h := oneClient(t).abandon(4, nil)
	h.do("RPUSH", h.keys.Working("default", h.worker.Identity()), h.again())
	h.eventually("the entry to be reclaimed", func() bool { return strings.Contains(h.log.String(), "reclaimed") })
	return h
}

func TestAnAbandonedRun(t *testing.T) {
	t.Parallel()

	t.Run("starves_no_other_job", func(t *testing.T) {
		t.Parallel()
		h := oneClient(t).abandon(2, nil) // one processor is left
		for n := range 50 {
			h.push("Other", fmt.Sprintf("[%d]", n))
		}
		h.do("RPUSH", h.keys.Queue("default"), h.again()) // before all of them
		h.eventually("all that is behind the job", func() bool { return h.counter(h.keys.Processed()) == "50" })
		require.Equal(t, int32(1), h.running.Load())
		h.finished()
	})

	t.Run("costs_little_while_its_job_waits", func(t *testing.T) {
		t.Parallel()
		h := oneClient(t).abandon(2, nil)
		h.do("RPUSH", h.keys.Queue("default"), h.again())
		h.refused()
		settles := func() int {
			number, err := strconv.Atoi(fmt.Sprint(h.do("HGET", h.keys.Record(h.worker.Identity()), "mark")))
			require.NoError(t, err)
			return number
		}
		begun := time.Now() // before the number is read, so that a busy machine does not shorten the time
		before := settles()
		h.eventually("the job to have come again and again", func() bool { return settles()-before >= 2 })
		// About a second: the first of them may have been under way.
		require.Greater(t, time.Since(begun), time.Second/2, "and not as often as a round trip allows")
		h.finished()
	})

	t.Run("outlives_another_session_of_its_process", func(t *testing.T) {
		t.Parallel()
		h := oneClient(t).abandon(4, nil)
		second := h.worker.Identity()
		h.declareDead(second)
		h.eventually("a third name", func() bool { return h.worker.Identity() != second })
		h.do("LPUSH", h.keys.Queue("default"), h.again())
		h.refused()
		h.finished()
	})
}

// Uniqueness is asked for at the push. Two jobs that a foreign client gave one jid are two jobs, and run when
// they can.
func TestTwoJobsOfOneJIDBothRun(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		started, release := make(chan bool), make(chan bool)
		l.Handle("Twin", func(context.Context, *job.Job) error { started <- true; <-release; return nil }, launcher.Class{})
		payload := r.push("Twin", "[]")
		r.do("LPUSH", r.keys.Queue("default"), payload)
		r.start(l)
		receive(t, "one", started)
		receive(t, "the other", started)
		close(release)
		r.eventually("both to be counted", func() bool { return r.counter(r.keys.Processed()) == "2" })
		require.Empty(t, r.list(r.keys.Working("default", l.Identity())))
	})
}

// A handler that ignores its timeout keeps its job in hand until it returns: no other run of it can begin.
func TestALateRunKeepsItsJob(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		late, release := make(chan bool), make(chan bool)
		l.Handle("Late", func(ctx context.Context, _ *job.Job) error { <-ctx.Done(); late <- true; <-release; return nil }, launcher.Class{Timeout: 10 * time.Millisecond})
		payload := r.push("Late", "[]")
		r.start(l)
		receive(t, "the timeout", late)
		beats := func() string { return fmt.Sprint(r.do("ZSCORE", r.keys.Alive(), l.Identity())) }
		for range 3 {
			before := beats()
			r.eventually("another beat", func() bool { return beats() != before })
		}
		require.Equal(t, []string{payload}, r.list(r.keys.Working("default", l.Identity())))
		require.Empty(t, r.list(r.keys.Queue("default")))
		require.Empty(t, r.set(r.keys.Retry()))
		close(release)
		r.eventually("its end", func() bool { return r.counter(r.keys.Processed()) == "1" })
		require.Empty(t, r.counter(r.keys.Failed()), "late is not the same as wrong")
	})
}
