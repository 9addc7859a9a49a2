package launcher

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
)

// loggingRun is a run of a job whose log goes to out, and its context.
func loggingRun(t *testing.T, out *bytes.Buffer) (*run, context.Context) {
	t.Helper()
	log := slog.New(logbook.JSON(out, slog.LevelDebug))
	s := newShard(&Launcher{cfg: Config{Log: log}.WithDefaults()}, Shard{})
	parsed, err := job.Parse(`{"class":"A","jid":"abc","args":[],"retry_count":1}`)
	require.NoError(t, err)
	r := &run{shard: s, processor: &processor{pool: &pool{launcher: s.launcher}}, job: parsed, Context: t.Context(), Run: &fetch.Run{Queue: "q", Session: &fetch.Session{Context: t.Context()}}}
	return r, r
}

func TestARunThatLogsNothingPaysNothingForItsLoggers(t *testing.T) { //nolint:paralleltest // allocations are the whole program's
	r, ctx := loggingRun(t, &bytes.Buffer{})
	type key struct{}
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = ctx.Value(key{}) }))
	require.Nil(t, r.made.Load())
}

// Package fmt reads a value's fields unless it has a String method, and other goroutines change those of a run.
// Mocks format the contexts that they are called with.
func TestAHandlersContextPrintsItsJob(t *testing.T) {
	t.Parallel()
	r, ctx := loggingRun(t, &bytes.Buffer{})
	require.Equal(t, "belay.run abc", fmt.Sprintf("%v", ctx))
	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	require.Equal(t, "belay.run abc.WithCancel", fmt.Sprintf("%v", derived))
	found, ok := derived.Value(runKey{}).(*run)
	require.True(t, ok)
	require.Same(t, r, found)
}

func TestLog(t *testing.T) {
	t.Parallel()
	t.Run("is one for all of a run's goroutines, as slog and as zerolog", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		_, ctx := loggingRun(t, &out)
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		loggers := make([]*slog.Logger, 16)
		var askers sync.WaitGroup
		for i := range loggers {
			askers.Go(func() { loggers[i] = Log(derived) })
		}
		askers.Wait()
		for _, log := range loggers {
			require.Same(t, loggers[0], log)
		}
		require.Same(t, zerolog.Ctx(ctx), zerolog.Ctx(derived))

		zerolog.Ctx(derived).Info().Msg("by zerolog")
		loggers[0].Info("by slog")
		require.Regexp(t, `^{"level":"info","jid":"abc","class":"A","queue":"q","attempt":3,"time":"[^"]+","message":"by zerolog"}
{"level":"info","jid":"abc","class":"A","queue":"q","attempt":3,"time":"[^"]+","message":"by slog"}
$`, out.String())
	})
	t.Run("gives way to a logger that the handler's own code puts in", func(t *testing.T) {
		t.Parallel()
		var handlerLog, runLog bytes.Buffer
		_, ctx := loggingRun(t, &runLog)
		ctx = zerolog.New(&handlerLog).WithContext(ctx)
		zerolog.Ctx(ctx).Info().Msg("here")
		require.Contains(t, handlerLog.String(), "here")
		require.Empty(t, runLog.String())
	})
}
