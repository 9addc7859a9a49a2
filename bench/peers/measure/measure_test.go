package measure_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/peers/measuretest"
	"github.com/belayq/belay/bench/subject"
)

// A fake is a job system in memory. It loses and doubles jobs on demand.
type fake struct {
	lose, double int // numbers of jobs; -1 is none

	mu     sync.Mutex
	stored []measure.Job
	handle measure.Handler
	runs   int
}

func (f *fake) Enqueue(_ context.Context, job measure.Job) error {
	f.mu.Lock()
	f.stored = append(f.stored, job)
	f.mu.Unlock()
	return f.drain()
}

func (f *fake) EnqueueAll(ctx context.Context, count int, job func(n int) measure.Job) error {
	for n := range count {
		if err := f.Enqueue(ctx, job(n)); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) Rest(context.Context) error { return nil }

func (f *fake) Start(_ context.Context, _ string, handle measure.Handler) error {
	f.mu.Lock()
	f.handle = handle
	f.mu.Unlock()
	return f.drain()
}

// drain runs at once whatever it can, due or not.
func (f *fake) drain() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.handle == nil {
		return nil
	}
	for _, job := range f.stored {
		times := 1
		switch job.N {
		case f.lose:
			times = 0
		case f.double:
			times = 2
		}
		for range times {
			if err := f.handle(job.N, "id"); err != nil {
				return err
			}
		}
		f.runs++
	}
	f.stored = nil
	return nil
}

func (f *fake) WaitAcknowledged(context.Context, int) error { return nil }
func (f *fake) Settings() string                            { return "none" }
func (f *fake) Close(context.Context) error                 { return nil }

// do runs a task and returns its events, and the text of a failure.
func do(t *testing.T, f *fake, task subject.Task) (events []subject.Event, failed string) {
	t.Helper()
	open := func(context.Context, subject.Task) (measure.Peer, error) { return f, nil }
	events = measuretest.Events(t, measure.System{Name: "fake", Open: open}, task)
	return events, events[len(events)-1].Text
}

func kinds(events []subject.Event) (kinds []string) {
	for _, event := range events {
		kinds = append(kinds, event.Event)
	}
	return kinds
}

func TestDrain(t *testing.T) {
	t.Parallel()
	task := subject.Task{Measure: "drain", Jobs: 100}
	t.Run("waits when it is ready and when all is stored", func(t *testing.T) {
		t.Parallel()
		events, failed := do(t, &fake{lose: -1, double: -1}, task)
		require.Empty(t, failed)
		require.Equal(t, []string{subject.Ready, subject.Pushed, subject.Done}, kinds(events))
		require.Positive(t, events[2].Seconds)
		require.Equal(t, "none", events[2].Settings)
	})
	t.Run("has no figure when a job is lost", func(t *testing.T) {
		t.Parallel()
		_, failed := do(t, &fake{lose: 42, double: -1}, task)
		require.Contains(t, failed, "job 42 ran 0 times")
	})
	t.Run("has no figure when a job runs twice", func(t *testing.T) {
		t.Parallel()
		_, failed := do(t, &fake{lose: -1, double: 42}, task)
		require.Contains(t, failed, "job 42 ran 2 times")
	})
}

func TestEnqueueStoresEveryNumberOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"enqueue", "bulk", "push"} {
		f := &fake{}
		_, failed := do(t, f, subject.Task{Measure: name, Jobs: 50, Producers: 7})
		require.Empty(t, failed, name)
		seen := map[int]bool{}
		for _, job := range f.stored {
			seen[job.N] = true
		}
		require.Len(t, f.stored, 50, name)
		require.Len(t, seen, 50, name)
	}
}

func TestLatencyIsCountedFromTheInstantFixedBeforehand(t *testing.T) {
	t.Parallel()
	events, failed := do(t, &fake{lose: -1, double: -1}, subject.Task{Measure: "latency", Rate: 1000, Seconds: 0.05})
	require.Empty(t, failed)
	done := events[len(events)-1]
	require.Len(t, done.LatenciesUS, 50)
	for _, us := range done.LatenciesUS {
		require.GreaterOrEqual(t, us, 0.0)
	}
}

func TestAnEarlyRunIsNegative(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"schedule", "burst"} {
		events, failed := do(t, &fake{lose: -1, double: -1}, subject.Task{Measure: name, Jobs: 20, Rate: 20, Seconds: 1})
		require.Empty(t, failed, name)
		done := events[len(events)-1]
		require.Len(t, done.LatenciesUS, 20, name)
		for _, us := range done.LatenciesUS {
			require.Less(t, us, -2e6, "%s: jobs are stored at least three seconds ahead", name)
		}
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	events, failed := do(t, &fake{}, subject.Task{Measure: "dance"})
	require.Contains(t, failed, `measure "dance": this subject knows`)
	require.Len(t, events, 1, "it never was ready")
}

func TestVersionNeedsNoStore(t *testing.T) {
	t.Parallel()
	events, failed := do(t, nil, subject.Task{Measure: "version"})
	require.Empty(t, failed)
	require.Equal(t, []string{subject.Ready, subject.Done}, kinds(events))
	require.Contains(t, events[1].Settings, "fake, go1.")
}

func TestAVictimThatCouldNotTakeAllItsJobsIsRefused(t *testing.T) {
	t.Parallel()
	_, failed := do(t, &fake{}, subject.Task{Measure: "victim", Jobs: 11, Concurrency: 10})
	require.Contains(t, failed, "cannot all start")
}
