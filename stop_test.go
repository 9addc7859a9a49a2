package belay_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

// A stop cancels the handlers at its timeout, and waits a second for those that ignore that (fetch.Moment). The clock
// is that of a bubble: a busy machine may take longer, and that is not what is promised.
func TestAStopEndsSoonAfterItsTimeout(t *testing.T) {
	t.Parallel()
	obey := func(ctx context.Context, _ chan bool) { <-ctx.Done() }
	ignore := func(_ context.Context, release chan bool) { <-release }
	for name, c := range map[string]struct {
		handler func(ctx context.Context, release chan bool)
		most    time.Duration
	}{
		"handlers that obey":   {obey, 100 * time.Millisecond},
		"handlers that do not": {ignore, 1100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := belaytest.New(t).Client()
				const timeout = 500 * time.Millisecond
				server := newServer(t, client, belay.ServerConfig{Concurrency: 3, ShutdownTimeout: timeout})
				long, started, release := belay.Define[int]("Long"), make(chan bool, 2), make(chan bool)
				defer close(release)
				long.Handle(server, func(ctx context.Context, _ int) error {
					started <- true
					c.handler(ctx, release)
					return ctx.Err()
				})
				ended := running(t, server)
				for n := range 2 {
					_, err := long.Enqueue(t.Context(), client, n)
					require.NoError(t, err)
					awaitValue(t, "the run", started)
				}
				asked := time.Now()
				server.Stop()
				require.NoError(t, awaitValue(t, "the end", ended))
				require.GreaterOrEqual(t, time.Since(asked), timeout)
				require.LessOrEqual(t, time.Since(asked)-timeout, c.most)
			})
		})
	}
}
