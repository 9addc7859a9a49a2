package belaytest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

func TestLimitedJobsRunInADrain(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]belay.Limit{
		"concurrency": {Name: "one", Concurrency: 1}, "window": {Name: "window", Rate: belay.Window(2, time.Hour)},
		"leaky": {Name: "leaky", Rate: belay.Leaky(1, time.Hour)},
	} {
		for _, processors := range []int{1, 4} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				kit := belaytest.New(t)
				kit.Configure(belay.ServerConfig{Concurrency: processors})
				work := belay.Define[int]("Work", belay.LimitedTo(limit))
				kit.Serve(func(s *belay.Server) { work.Handle(s, func(context.Context, int) error { return nil }) })
				for n := range 6 {
					_, err := work.Enqueue(t.Context(), kit.Client(), n)
					require.NoError(t, err)
				}
				require.Len(t, kit.Drain(), 6)
				require.Empty(t, kit.Waiting())
			})
		}
	}
}

func TestAdvanceEndsARateLimit(t *testing.T) {
	t.Parallel()
	kit := belaytest.New(t)
	call := belay.Define[int]("Call", belay.LimitedTo(belay.Limit{Name: "api", Concurrency: 2}))
	refused := true
	kit.Serve(func(s *belay.Server) {
		call.Handle(s, func(context.Context, int) error {
			if refused {
				return belay.RateLimited(30 * time.Second)
			}
			return nil
		})
	})
	_, err := call.Enqueue(t.Context(), kit.Client(), 1)
	require.NoError(t, err)
	require.Len(t, kit.Drain(), 1)
	require.Len(t, kit.Waiting(), 1)
	require.Equal(t, "Call [1] in queue default, waits for the limit api", kit.Waiting()[0].String())
	require.Empty(t, kit.Advance(20*time.Second))
	refused = false
	require.Len(t, kit.Advance(20*time.Second), 1)
	require.Empty(t, kit.Waiting())
}
