package fetch

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Handlers that wait take nothing more: each of their jobs needs a processor of its own, which must be
// woken.
func TestAProcessorIsWokenForEachJobThatStays(t *testing.T) {
	t.Parallel()
	const processors = 50
	p, taken, home := newPool(), make(chan *Run), sync.WaitGroup{}
	release := make(chan struct{})
	for range processors {
		home.Go(func() {
			held, ok := p.take()
			require.True(t, ok)
			taken <- held
			<-release
		})
	}
	for laid := 0; laid < processors; laid += 10 {
		jobs := make([]*Run, 10)
		for i := range jobs {
			jobs[i] = &Run{}
		}
		p.add(jobs)
		seen := make(map[*Run]bool)
		for range jobs {
			seen[hear(t, "a job to be taken", taken)] = true
		}
		for _, held := range jobs {
			require.True(t, seen[held])
		}
	}
	close(release)
	home.Wait()
}

func TestWhatIsQueuedIsTakenOnce(t *testing.T) {
	t.Parallel()
	const rounds, each, processors = 2000, 7, 8
	p := newPool()
	var home sync.WaitGroup
	for range processors {
		home.Go(func() {
			for held, ok := p.take(); ok; held, ok = p.take() {
				p.end(Result{Run: held})
			}
		})
	}
	times := make(map[*Run]int)
	var room []Result
	collect := func() {
		room = p.ended(room)
		for _, end := range room {
			times[end.Run]++
		}
		clear(room)
		room = room[:0]
	}
	for range rounds {
		jobs := make([]*Run, each)
		for i := range jobs {
			jobs[i] = &Run{}
			times[jobs[i]] = 0
		}
		p.add(jobs)
		collect()
	}
	p.close()
	home.Wait()
	collect()
	require.Len(t, times, rounds*each)
	for _, n := range times {
		require.Equal(t, 1, n)
	}
}

func TestAPoolThatIsNeverEmptyStaysSmall(t *testing.T) {
	t.Parallel()
	p := newPool()
	p.add([]*Run{{}})
	for range 10_000 {
		p.add([]*Run{{}})
		_, ok := p.take()
		require.True(t, ok)
	}
	require.Len(t, p.runs, 2, "one that waits, and the room of one that was taken")
	require.Nil(t, p.runs[0], "what was taken is not kept")
	require.Less(t, cap(p.runs), 10)
}

func TestResultsAreSignalledUntilTheyAreTaken(t *testing.T) {
	t.Parallel()
	p := newPool()
	p.end(Result{})
	p.end(Result{})
	hear(t, "the signal", p.signal)
	require.Len(t, p.ended(nil), 2)
	p.end(Result{})
	require.Len(t, p.ended(nil), 1)
	require.Empty(t, p.ended(nil))
	select {
	case <-p.signal:
		t.Fatal("there are none")
	default:
	}
	p.end(Result{})
	hear(t, "the signal for one more", p.signal)
}

// The loop is not woken for each result while processors still take runs.
func TestResultsWaitForTheirBatchButNotForLong(t *testing.T) {
	t.Parallel()
	p := newPool()
	p.add([]*Run{{}, {}, {}})
	for range 2 {
		_, _ = p.take()
	}
	p.since = time.Now().Add(time.Hour) // for this test, no time passes
	p.results = append(p.results, Result{})
	p.end(Result{})
	require.Empty(t, p.signal, "a run is there to be taken")
	_, _ = p.take()
	hear(t, "the signal, now that all runs are taken", p.signal)
	require.Len(t, p.ended(nil), 2)

	p.add([]*Run{{}})
	p.end(Result{})
	for range manyResults - 1 {
		p.since = time.Now().Add(time.Hour)
		require.Empty(t, p.signal)
		p.end(Result{})
	}
	hear(t, "the signal for many results", p.signal)
	require.Len(t, p.ended(nil), manyResults)

	p.end(Result{})
	require.Empty(t, p.signal)
	time.Sleep(2 * promptly)
	p.end(Result{})
	hear(t, "the signal for a result that has waited", p.signal)
}

// hear waits for what comes through a channel, but not for ever.
func hear[T any](t *testing.T, what string, channel <-chan T) (came T) {
	t.Helper()
	select {
	case came = <-channel:
	case <-time.After(10 * time.Second):
		t.Fatalf("waited in vain for %s", what)
	}
	return came
}
