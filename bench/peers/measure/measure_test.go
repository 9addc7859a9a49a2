package measure_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/peers/talk"
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

// do runs a task from its line and returns its events, and the error that main would report.
func do(t *testing.T, f *fake, task talk.Task) ([]talk.Event, error) {
	t.Helper()
	line, err := json.Marshal(task)
	require.NoError(t, err)
	var out bytes.Buffer
	wire := talk.Open(strings.NewReader(string(line)+"\ngo\ngo\n"), &out, func() {})
	failed := measure.Run(t.Context(), wire, measure.System{
		Name:    "fake",
		Open:    func(context.Context, talk.Task) (measure.Peer, error) { return f, nil },
		Refuses: func(name string) string { return map[string]string{"survivor": "it takes an hour"}[name] },
	})
	var events []talk.Event
	decoder := json.NewDecoder(&out)
	for {
		var event talk.Event
		if err := decoder.Decode(&event); err == io.EOF {
			return events, failed
		}
		events = append(events, event)
	}
}

func kinds(events []talk.Event) (kinds []string) {
	for _, event := range events {
		kinds = append(kinds, event.Event)
	}
	return kinds
}

func TestDrain(t *testing.T) {
	t.Parallel()
	task := talk.Task{Measure: "drain", Jobs: 100}
	t.Run("waits when it is ready and when all is stored", func(t *testing.T) {
		t.Parallel()
		events, err := do(t, &fake{lose: -1, double: -1}, task)
		require.NoError(t, err)
		require.Equal(t, []string{talk.Ready, talk.Pushed, talk.Done}, kinds(events))
		require.Positive(t, events[2].Seconds)
		require.Equal(t, "none", events[2].Settings)
	})
	t.Run("has no figure when a job is lost", func(t *testing.T) {
		t.Parallel()
		_, err := do(t, &fake{lose: 42, double: -1}, task)
		require.ErrorContains(t, err, "job 42 ran 0 times")
	})
	t.Run("has no figure when a job runs twice", func(t *testing.T) {
		t.Parallel()
		_, err := do(t, &fake{lose: -1, double: 42}, task)
		require.ErrorContains(t, err, "job 42 ran 2 times")
	})
}

func TestEnqueueStoresEveryNumberOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"enqueue", "bulk", "push"} {
		f := &fake{}
		_, err := do(t, f, talk.Task{Measure: name, Jobs: 50, Producers: 7})
		require.NoError(t, err, name)
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
	events, err := do(t, &fake{lose: -1, double: -1}, talk.Task{Measure: "latency", Rate: 1000, Seconds: 0.05})
	require.NoError(t, err)
	done := events[len(events)-1]
	require.Len(t, done.Latencies, 50)
	for _, us := range done.Latencies {
		require.GreaterOrEqual(t, us, int64(0))
	}
}

func TestAnEarlyRunIsNegative(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"schedule", "burst"} {
		events, err := do(t, &fake{lose: -1, double: -1}, talk.Task{Measure: name, Jobs: 20, Rate: 20, Seconds: 1})
		require.NoError(t, err, name)
		done := events[len(events)-1]
		require.Len(t, done.Latencies, 20, name)
		for _, us := range done.Latencies {
			require.Less(t, us, -2*time.Second.Microseconds(), "%s: jobs are stored at least three seconds ahead", name)
		}
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"survivor": "it takes an hour", "dance": `no measure is called "dance"`} {
		events, err := do(t, &fake{}, talk.Task{Measure: name})
		require.ErrorContains(t, err, want)
		require.Empty(t, events, "it never was ready")
	}
}

func TestVersionNeedsNoStore(t *testing.T) {
	t.Parallel()
	events, err := do(t, nil, talk.Task{Measure: "version"})
	require.NoError(t, err)
	require.Equal(t, []string{talk.Ready, talk.Done}, kinds(events))
	require.Contains(t, events[1].Settings, "fake, go1.")
}

func TestAVictimThatCouldNotTakeAllItsJobsIsRefused(t *testing.T) {
	t.Parallel()
	_, err := do(t, &fake{}, talk.Task{Measure: "victim", Jobs: 11, Concurrency: 10})
	require.ErrorContains(t, err, "cannot all start")
}
