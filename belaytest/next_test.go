package belaytest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

func TestDrainRunsNextJobs(t *testing.T) {
	t.Parallel()
	keys, err := belay.ParseKeys("k1:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")
	require.NoError(t, err)
	extract := belay.DefineResult[int, int]("Extract", belay.Track(time.Hour))
	report := belay.Define[string]("Report", belay.Queue("low"), belay.Encrypted(keys))
	k := belaytest.New(t)
	var ran []any
	k.Serve(func(s *belay.Server) {
		extract.Handle(s, func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		report.Handle(s, func(ctx context.Context, name string) error {
			n, err := belay.Previous[int](ctx)
			ran = append(ran, name, n)
			return err
		})
	})
	receipt, err := extract.Enqueue(t.Context(), k.Client(), 21, belay.Then(report.Job("secret name")))
	require.NoError(t, err)
	waiting := belaytest.RequireEnqueued(t, k, extract.Definition, 21)
	require.NotContains(t, waiting.Job.Raw(), "secret name", "a next job is encrypted at the push")
	belaytest.RequireNotEnqueued(t, k, report)
	runs := k.Drain()
	require.Len(t, runs, 2)
	require.Equal(t, receipt.JID, runs[1].After)
	require.Equal(t, "low", runs[1].Queue)
	require.Equal(t, []any{"secret name", 42}, ran)
	require.Empty(t, k.Drain())
}
