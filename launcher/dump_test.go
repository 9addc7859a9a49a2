package launcher_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/logbook"
)

// An operator dumps a worker that does nothing: it may still be waiting for Redis.
func TestDump_works_before_the_process_does(t *testing.T) {
	t.Parallel()
	var output bytes.Buffer
	log := slog.New(logbook.JSON(&output, slog.LevelDebug))
	worker, err := launcher.New(launcher.Config{Client: struct{ driver.Client }{}, Log: log})
	require.NoError(t, err)
	worker.Dump()
	require.Contains(t, output.String(), "TestDump_works_before_the_process_does")
	require.Empty(t, worker.Running())
}

// A profile of goroutines names the processor, also in goroutines that a handler starts, and after a handler has
// set labels of its own. It is not parallel: the profile has the goroutines of all tests.
func TestGoroutinesOfARunAreLabelledWithTheirProcessor(t *testing.T) {
	r := oneClient(t)
	cfg := r.config()
	cfg.Concurrency = 1
	l := r.build(cfg)
	profiles := make(chan string, 2)
	l.Handle("A", func(ctx context.Context, _ *job.Job) error {
		done := make(chan struct{})
		go func() {
			defer close(done)
			var text bytes.Buffer
			_ = pprof.Lookup("goroutine").WriteTo(&text, 1)
			profiles <- text.String()
		}()
		<-done
		pprof.SetGoroutineLabels(ctx)
		return nil
	}, launcher.Class{})
	r.start(l)
	r.push("A", "[1]")
	r.push("A", "[2]")
	for range 2 {
		// The goroutine of the run, and the one that its handler has started.
		require.Equal(t, 2, strings.Count(<-profiles, `"belay_processor":"0"`))
	}
}
