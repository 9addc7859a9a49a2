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
	queue, taken, home := newRunQueue(), make(chan *Run), sync.WaitGroup{}
	release := make(chan struct{})
	for range processors {
		home.Go(func() {
			held, ok := queue.take()
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
		queue.add(jobs)
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
	queue, back := newRunQueue(), newResults()
	var home sync.WaitGroup
	for range processors {
		home.Go(func() {
			for held, ok := queue.take(); ok; held, ok = queue.take() {
				back.add(Result{Run: held})
			}
		})
	}
	times := make(map[*Run]int)
	var room []Result
	collect := func() {
		room = back.take(room)
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
		queue.add(jobs)
		collect()
	}
	queue.close()
	home.Wait()
	collect()
	require.Len(t, times, rounds*each)
	for _, n := range times {
		require.Equal(t, 1, n)
	}
}

func TestARunQueueThatIsNeverEmptyStaysSmall(t *testing.T) {
	t.Parallel()
	queue := newRunQueue()
	queue.add([]*Run{{}})
	for range 10_000 {
		queue.add([]*Run{{}})
		_, ok := queue.take()
		require.True(t, ok)
	}
	require.Len(t, queue.runs, 2, "one that waits, and the room of one that was taken")
	require.Nil(t, queue.runs[0], "what was taken is not kept")
	require.Less(t, cap(queue.runs), 10)
}

func TestResultsAreSignalledUntilTheyAreTaken(t *testing.T) {
	t.Parallel()
	e := newResults()
	e.add(Result{})
	e.add(Result{})
	hear(t, "the word of ends", e.some)
	require.Len(t, e.take(nil), 2)
	e.add(Result{})
	require.Len(t, e.take(nil), 1)
	require.Empty(t, e.take(nil))
	select {
	case <-e.some:
		t.Fatal("there are none")
	default:
	}
	e.add(Result{})
	hear(t, "the word of one more", e.some)
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
