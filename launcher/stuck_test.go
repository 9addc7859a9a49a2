package launcher_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// stuckHere is what a stack is to show.
//
//go:noinline
func stuckHere(release chan bool) { <-release }

// A handler that ignores its timeout keeps its processor and is reported; when it returns, all goes on.
func TestStuck(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.Concurrency = 1
	l := r.build(cfg)
	release, ran := make(chan bool), make(chan bool, 1)
	reported := make(chan launcher.StuckRun, 8)
	l.OnStuck(func(launcher.StuckRun) { panic("a stuck handler of no use") })
	l.OnStuck(func(run launcher.StuckRun) { reported <- run })
	l.Handle("Deaf", func(context.Context, *job.Job) error { stuckHere(release); return nil }, launcher.Class{Timeout: 10 * time.Millisecond})
	l.Handle("Other", func(context.Context, *job.Job) error { ran <- true; return nil }, launcher.Class{})
	r.push("Deaf", `["secret"]`)
	r.push("Other", "[]")
	r.start(l)
	run := receive(t, "the stuck run", reported)
	require.Equal(t, "Deaf", run.Job.Class())
	require.Equal(t, "default", run.Queue)
	require.ErrorIs(t, run.Cause, launcher.ErrTimeout)
	require.GreaterOrEqual(t, run.Overdue, 5*time.Second)
	require.False(t, run.Left)
	require.Contains(t, run.Stack, "stuckHere")
	require.NotContains(t, run.Stack, "\ngoroutine ", "its own and no other")

	require.Len(t, l.Running(), 1)
	require.GreaterOrEqual(t, l.Running()[0].Overdue, 5*time.Second)
	log := r.log.String()
	for _, part := range []string{"stuck: ", run.Job.JID(), `"class":"Deaf"`, `"queue":"default"`, "timed out after 10ms", "overdue_ms", "stuckHere"} {
		require.Contains(t, log, part)
	}
	require.NotContains(t, log, "secret")
	require.Empty(t, ran, "its processor is taken")

	close(release)
	receive(t, "the next job on its processor", ran)
	r.eventually("both to be counted", func() bool { return r.counter(r.keys.Processed()) == "2" })
	require.Contains(t, r.log.String(), "stuck handler panicked")
	require.Empty(t, reported)
}

// What a stop leaves behind is reported, and neither the handler nor its callback holds up the stop.
func TestStop_tells_what_it_leaves_behind(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.ShutdownTimeout = -1
	l := r.build(cfg)
	started, release := make(chan bool), make(chan bool)
	defer close(release)
	reported := make(chan launcher.StuckRun, 8)
	l.OnStuck(func(run launcher.StuckRun) { reported <- run; <-release })
	l.Handle("Deaf", func(context.Context, *job.Job) error { started <- true; stuckHere(release); return nil }, launcher.Class{})
	l.Handle("Obeys", func(ctx context.Context, _ *job.Job) error { started <- true; <-ctx.Done(); return ctx.Err() }, launcher.Class{})
	pushed := []string{r.push("Deaf", "[]"), r.push("Obeys", "[]")}
	w := r.start(l)
	receive(t, "a start", started)
	receive(t, "a start", started)
	w.Stop()
	w.wait(t)
	run := receive(t, "the stuck run", reported)
	require.Equal(t, "Deaf", run.Job.Class())
	require.True(t, run.Left)
	require.ErrorIs(t, run.Cause, launcher.ErrShutdown)
	require.Contains(t, run.Stack, "stuckHere")
	require.Empty(t, reported, "the other obeyed")
	require.Contains(t, r.log.String(), "abandoned run: ")
	require.Equal(t, []string{pushed[1], pushed[0]}, r.list(r.keys.Queue("default")))
}

func TestOnStuck_after_Run_is_a_mistake(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	l := r.build(r.config())
	r.start(l)
	r.eventually("the process to live", func() bool { return l.Identity() != "" })
	require.Panics(t, func() { l.OnStuck(func(launcher.StuckRun) {}) })
	require.ErrorContains(t, l.Run(t.Context()), "Run was called before")
}
