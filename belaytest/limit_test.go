package belaytest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
)

// failing is a test that counts its errors.
type failing struct {
	testing.TB
	errors int
}

func (f *failing) Helper()               {}
func (f *failing) Errorf(string, ...any) { f.errors++ }

// Without a bound such a test would hang until go test ends it, minutes later, with pages of stacks.
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
			f := &failing{TB: t}
			k := New(f)
			k.maxRuns = 20
			k.Serve(func(s *belay.Server) {
				count.Handle(s, func(ctx context.Context, _ int) error { return again(ctx, k) })
			})
			_, err := count.Enqueue(t.Context(), k.Client(), 1)
			require.NoError(t, err)
			require.NotEmpty(t, k.DrainAll())
			require.Equal(t, 1, f.errors)
		})
	}
}
