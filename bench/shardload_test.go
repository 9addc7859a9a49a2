package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/launcher"
)

// A counted client counts calls by the names of their scripts or commands, and waits.
type counted struct {
	driver.Client
	counts *callCounts
}

type callCounts struct {
	mu sync.Mutex
	of map[string]int
}

func (c *callCounts) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[name]++
}

func (c *callCounts) get(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[name]
}

func (c counted) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	for _, call := range calls {
		c.counts.add(call.Name())
	}
	return c.Client.Do(ctx, calls...)
}

func (c counted) Lane(conns int) (driver.Client, error) {
	lane, err := c.Client.Lane(conns)
	return counted{lane, c.counts}, err
}

func (c counted) Waiter() (driver.Waiter, error) {
	waiter, err := c.Client.Waiter()
	return countedWaiter{waiter, c.counts}, err
}

type countedWaiter struct {
	driver.Waiter
	counts *callCounts
}

func (w countedWaiter) Wait(ctx context.Context, from, to string, limit time.Duration) (string, bool, error) {
	w.counts.add("wait")
	return w.Waiter.Wait(ctx, from, to, limit)
}

// The calculated load of an idle fleet is that of real ones, with one shard, with several, and with more queues
// than a process has waits for. The span is so many heartbeats, not so many seconds: on a busy machine all calls
// are late.
func TestTheLoadOfAnIdleFleetIsAsCalculated(t *testing.T) {
	t.Parallel()
	for _, f := range []idleFleet{{3, 1, 1}, {3, 2, 3}, {2, 4, 6}} {
		t.Run(fmt.Sprintf("%d shards", f.shards), func(t *testing.T) {
			t.Parallel()
			server, err := startServer(t.Context(), "")
			require.NoError(t, err)
			t.Cleanup(server.stop)
			counts := &callCounts{of: make(map[string]int)}
			var queues []fetch.Queue
			for n := range f.queues {
				queues = append(queues, fetch.Queue{Name: fmt.Sprint("q", n)})
			}
			var running sync.WaitGroup
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			t.Cleanup(func() {
				cancel()
				running.Wait()
			})
			for range f.processes {
				config := launcher.Config{Concurrency: 30, Queues: queues}
				for shard := range f.shards {
					client, err := goredisdriver.Open(server.url)
					require.NoError(t, err)
					t.Cleanup(func() { _ = client.Close() })
					config.Shards = append(config.Shards, launcher.Shard{Name: fmt.Sprint(shard), Client: counted{client, counts}, Prefix: fmt.Sprint("s", shard)})
				}
				l, err := launcher.New(config)
				require.NoError(t, err)
				running.Go(func() { _ = l.Run(ctx) })
			}
			sessions := f.processes * f.shards
			beaten := func() int { return counts.get("heartbeat") + counts.get("ZADD") } // most are no script
			beats := func(more int) {
				for from := beaten(); beaten() < from+more; time.Sleep(10 * time.Millisecond) {
					require.NoError(t, t.Context().Err())
				}
			}
			beats(2 * sessions) // they have started, and are idle
			waits, takes := counts.get("wait"), counts.get("take")
			const each = 8
			beats(each * sessions)
			want := f.load()
			for name, rates := range map[string][2]float64{
				"wait": {want.waits, float64(counts.get("wait") - waits)}, "take": {want.takes, float64(counts.get("take") - takes)},
			} {
				expected, found := rates[0]/want.beats, rates[1]/float64(each*sessions) // for each heartbeat of a session
				t.Logf("%s: %.3f for each heartbeat, calculated %.3f", name, found, expected)
				if expected == 0 {
					require.Less(t, found, 0.1, name)
					continue
				}
				require.InEpsilon(t, expected, found, 0.25, name)
			}
		})
	}
}

// The table of the documentation is what is calculated.
func TestTheTableOfShardsIsCalculated(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/scaling.md")
	require.NoError(t, err)
	for _, f := range []idleFleet{{1000, 1, 1}, {100, 3, 1}, {500, 12, 1}, {2000, 16, 1}, {2000, 64, 1}} {
		l := f.load()
		row := fmt.Sprintf("| %d | %s | %.0f | %.0f | %.0f | %.0f | %.0f |", f.shards, thousands(f.processes), l.beats, l.waits, l.takes, l.looks, l.sum())
		require.Contains(t, string(text), row)
	}
}

func thousands(n int) string {
	text := fmt.Sprint(n)
	if len(text) > 3 {
		text = text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return strings.TrimSpace(text)
}
