package belaytest_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

func TestBatch(t *testing.T) {
	t.Parallel()
	row, finish := belay.Define[int]("Row"), belay.Define[string]("Finish")
	k := belaytest.New(t)
	var ran []string
	k.Serve(func(s *belay.Server) {
		row.Handle(s, func(context.Context, int) error {
			ran = append(ran, "row")
			return nil
		})
		finish.Handle(s, func(ctx context.Context, name string) error {
			b, ok := belay.BatchOf(ctx)
			require.True(t, ok)
			status, err := b.Status(ctx)
			require.Equal(t, 2, status.Total)
			ran = append(ran, name)
			return err
		})
	})
	_, err := belay.NewBatch(t.Context(), k.Client(), belay.BatchConfig{OnSuccess: finish.Job("done")}, func(b *belay.Batch) error {
		_, err := row.EnqueueMany(t.Context(), k.Client(), slices.Values([]int{1, 2}), belay.InBatch(b))
		return err
	})
	require.NoError(t, err)
	k.Drain()
	require.Equal(t, []string{"row", "row", "done"}, ran)
}
