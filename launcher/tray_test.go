package launcher

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
)

// Handlers that wait take nothing more: each of their jobs needs a processor of its own, which somebody must have woken.
func TestAProcessorIsWokenForEachJobThatStays(t *testing.T) {
	t.Parallel()
	const processors = 50
	tray, taken, home := newTray(), make(chan *fetch.Held), sync.WaitGroup{}
	release := make(chan struct{})
	for range processors {
		home.Go(func() {
			held, ok := tray.take()
			require.True(t, ok)
			taken <- held
			<-release
		})
	}
	for laid := 0; laid < processors; laid += 10 {
		jobs := make([]*fetch.Held, 10)
		for i := range jobs {
			jobs[i] = &fetch.Held{}
		}
		tray.lay(jobs)
		seen := make(map[*fetch.Held]bool)
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

func TestWhatIsLaidDownIsTakenOnce(t *testing.T) {
	t.Parallel()
	const rounds, each, processors = 2000, 7, 8
	tray, back := newTray(), newEnds()
	var home sync.WaitGroup
	for range processors {
		home.Go(func() {
			for held, ok := tray.take(); ok; held, ok = tray.take() {
				back.lay(ended{held: held})
			}
		})
	}
	times := make(map[*fetch.Held]int)
	var room []ended
	collect := func() {
		room = back.take(room)
		for _, end := range room {
			times[end.held]++
		}
		clear(room)
		room = room[:0]
	}
	for range rounds {
		jobs := make([]*fetch.Held, each)
		for i := range jobs {
			jobs[i] = &fetch.Held{}
			times[jobs[i]] = 0
		}
		tray.lay(jobs)
		collect()
	}
	tray.close()
	home.Wait()
	collect()
	require.Len(t, times, rounds*each)
	for _, n := range times {
		require.Equal(t, 1, n)
	}
}

func TestATrayThatIsNeverEmptyStaysSmall(t *testing.T) {
	t.Parallel()
	tray := newTray()
	tray.lay([]*fetch.Held{{}})
	for range 10_000 {
		tray.lay([]*fetch.Held{{}})
		_, ok := tray.take()
		require.True(t, ok)
	}
	require.Len(t, tray.jobs, 2, "one that waits, and the room of one that was taken")
	require.Nil(t, tray.jobs[0], "what was taken is not kept")
	require.Less(t, cap(tray.jobs), 10)
}

func TestEndsAreToldOfUntilTheyAreTaken(t *testing.T) {
	t.Parallel()
	e := newEnds()
	e.lay(ended{})
	e.lay(ended{})
	hear(t, "the word of ends", e.some)
	require.Len(t, e.take(nil), 2)
	e.lay(ended{})
	require.Len(t, e.take(nil), 1)
	require.Empty(t, e.take(nil))
	select {
	case <-e.some:
		t.Fatal("there are none")
	default:
	}
	e.lay(ended{})
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
