package belay_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
	"github.com/belayq/belay/inspect"
)

// overlapped are the runs of periodic jobs that are due every second and take two and a half, by name, on two
// servers with free processors.
type overlapped struct {
	mu       sync.Mutex
	running  map[string]int
	most     map[string]int
	ticks    map[string][]time.Time
	pauses   map[string]time.Duration // the longest between the end of a run and the start of the next one
	endedAt  map[string]time.Time
	finished int
}

func (o *overlapped) run(ctx context.Context, took time.Duration) error {
	info, _ := belay.Info(ctx)
	name := info.Periodic
	o.mu.Lock()
	o.running[name]++
	o.most[name] = max(o.most[name], o.running[name])
	o.ticks[name] = append(o.ticks[name], info.TickAt)
	if ended := o.endedAt[name]; !ended.IsZero() && o.running[name] == 1 {
		o.pauses[name] = max(o.pauses[name], time.Since(ended))
	}
	o.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running[name]--
	o.endedAt[name] = time.Now()
	o.finished++
	return nil
}

// Each mode of overlap does what it says while jobs take longer than their interval: skip and queue run one at a
// time, allow runs each tick. With queue one tick waits while another's job runs, so the next run begins at
// once; with skip it begins at a tick.
func TestEachOverlapKeepsItsWordUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // by the clock of a bubble, so that a busy machine delays no tick
		const took, span = 2500 * time.Millisecond, 13 * time.Second
		client := belaytest.New(t).Client()
		o := &overlapped{
			running: make(map[string]int), most: make(map[string]int), ticks: make(map[string][]time.Time),
			pauses: make(map[string]time.Duration), endedAt: make(map[string]time.Time),
		}
		slow := belay.Define[struct{}]("Slow", belay.Idempotent())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var servers sync.WaitGroup
		for range 2 {
			server := newServer(t, client, belay.ServerConfig{Concurrency: 20, ShutdownTimeout: -1})
			slow.Handle(server, func(ctx context.Context, _ struct{}) error { return o.run(ctx, took) })
			require.NoError(t, server.Schedule(
				belay.Periodic{Name: "skip", Cron: "@every 1s", Job: slow.Job(struct{}{}), Overlap: belay.OverlapSkip},
				belay.Periodic{Name: "queue", Cron: "@every 1s", Job: slow.Job(struct{}{}), Overlap: belay.OverlapQueue},
				belay.Periodic{Name: "allow", Cron: "@every 1s", Job: slow.Job(struct{}{}), Overlap: belay.OverlapAllow},
			))
			servers.Go(func() {
				if err := server.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(span)
		_, history, err := inspect.New(client).PeriodicHistory(t.Context(), "queue")
		require.NoError(t, err)
		stop()
		servers.Wait()
		o.mu.Lock()
		defer o.mu.Unlock()
		for name, ticks := range o.ticks {
			require.True(t, slices.IsSortedFunc(ticks, time.Time.Compare), "%s: %v", name, ticks)
			require.Len(t, slices.CompactFunc(slices.Clone(ticks), time.Time.Equal), len(ticks), "%s: %v", name, ticks)
		}
		t.Logf("most at once: %v; longest pauses: %v; runs: skip %d, queue %d, allow %d", o.most, o.pauses,
			len(o.ticks["skip"]), len(o.ticks["queue"]), len(o.ticks["allow"]))
		require.Equal(t, 1, o.most["skip"])
		require.Equal(t, 1, o.most["queue"])
		require.GreaterOrEqual(t, o.most["allow"], 3)
		require.GreaterOrEqual(t, len(o.ticks["skip"]), 3)
		require.GreaterOrEqual(t, len(o.ticks["queue"]), 4)
		require.Less(t, o.pauses["queue"], time.Second, "one that waits begins when the one before it ends")
		first, last := o.ticks["allow"][0], o.ticks["allow"][len(o.ticks["allow"])-1]
		require.Len(t, o.ticks["allow"], int(last.Sub(first)/time.Second)+1, "each tick runs")
		require.True(t, slices.ContainsFunc(history, func(run inspect.PeriodicRun) bool { return run.Outcome == "refused" }),
			"of the ticks that come while one waits")
	})
}
