package launcher_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// Handlers that heed nothing, one of which burns a core: a stop requeues their jobs in time, as they were.
// When they return after all, in a program that goes on, their results are ignored: nothing is written.
func TestALateEndAfterAStopWritesNothing(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.ShutdownTimeout = 100 * time.Millisecond
		l := r.build(cfg)
		var release atomic.Bool
		started := make(chan bool, 2)
		var handlers sync.WaitGroup
		handlers.Add(2)
		l.Handle("Spins", func(context.Context, *job.Job) error {
			defer handlers.Done()
			started <- true
			for !release.Load() {
			}
			return nil
		}, launcher.Class{})
		l.Handle("Sleeps", func(context.Context, *job.Job) error {
			defer handlers.Done()
			started <- true
			for !release.Load() {
				time.Sleep(time.Millisecond)
			}
			panic("late, too")
		}, launcher.Class{})
		pushed := []string{r.push("Spins", "[1.0]"), r.push("Sleeps", "[]")}
		w := r.start(l)
		defer release.Store(true)
		receive(t, "the first", started)
		receive(t, "the second", started)
		w.Stop()
		w.wait(t)
		back := []string{pushed[1], pushed[0]} // the head is the youngest
		require.Equal(t, back, r.list(r.keys.Queue("default")))

		release.Store(true)
		handlers.Wait()
		require.Equal(t, back, r.list(r.keys.Queue("default")))
		require.Empty(t, r.counter(r.keys.Processed()))
		require.Empty(t, r.counter(r.keys.Failed()))
		require.Empty(t, r.set(r.keys.Retry()))
	})
}
