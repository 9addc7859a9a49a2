package belaytest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
)

// quiet is a test that notes that it failed.
type quiet struct {
	testing.TB
	said int
}

func (q *quiet) Helper()               {}
func (q *quiet) Errorf(string, ...any) { q.said++ }

// Without a bound such a test would hang until go test ends it, minutes later, with a page of stacks.
func TestAJobThatNeverEndsFailsTheTest(t *testing.T) {
	t.Parallel()
	count := belay.Define[int]("Count")
	for name, again := range map[string]func(ctx context.Context, k *Kit) error{
		"by pushing itself": func(ctx context.Context, k *Kit) error {
			_, err := count.Enqueue(ctx, k.Client(), 1)
			return err
		},
		"by snoozing": func(context.Context, *Kit) error { return belay.Snooze(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &quiet{TB: t}
			k := New(q)
			k.maxRuns = 20
			k.Serve(func(s *belay.Server) {
				count.Handle(s, func(ctx context.Context, _ int) error { return again(ctx, k) })
			})
			_, err := count.Enqueue(t.Context(), k.Client(), 1)
			require.NoError(t, err)
			require.NotEmpty(t, k.DrainAll())
			require.Equal(t, 1, q.said)
		})
	}
}
