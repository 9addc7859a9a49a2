package belay_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A counted is a client that counts the round trips of all its connections, by the name of their first call.
type counted struct {
	driver.Client
	*tripCount
}

type tripCount struct {
	mu    sync.Mutex
	trips map[string]int
}

func (c counted) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	c.add(calls[0].Name())
	return c.Client.Do(ctx, calls...)
}

func (c counted) Lane(conns int) (driver.Client, error) {
	lane, err := c.Client.Lane(conns)
	return counted{lane, c.tripCount}, err
}

func (c counted) Waiter() (driver.Waiter, error) {
	waiter, err := c.Client.Waiter()
	return countedWaiter{waiter, c.tripCount}, err
}

type countedWaiter struct {
	driver.Waiter
	*tripCount
}

func (w countedWaiter) Wait(ctx context.Context, from, to string, limit time.Duration) (string, bool, error) {
	w.add("wait")
	return w.Waiter.Wait(ctx, from, to, limit)
}

func (c *tripCount) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trips == nil {
		c.trips = make(map[string]int)
	}
	c.trips[name]++
}

// take returns the round trips since the last take.
func (c *tripCount) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	trips := c.trips
	c.trips = make(map[string]int)
	return trips
}

// What an idle server sends that has no lease is what a fleet costs when idle. The clock is that of a
// bubble, so that a busy machine delays nothing.
func TestAnIdleServerSendsLittleMoreThanHeartbeatsAndWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit, trips := belaytest.New(t), &tripCount{}
		for range 2 { // they have the leases: one polls, sweeps and watches, the other one watches it
			holder := newServer(t, kit.Client(), belay.ServerConfig{PollInterval: time.Second})
			holder.HandleUnknown(idle)
			running(t, holder)
		}
		time.Sleep(time.Minute)
		client, err := belay.NewClient(counted{kit.Client().Driver(), trips}, nil)
		require.NoError(t, err)
		server := newServer(t, client, belay.ServerConfig{})
		server.HandleUnknown(idle)
		running(t, server)
		time.Sleep(time.Minute)

		trips.take()
		time.Sleep(10 * time.Minute)
		sent := trips.take()
		t.Log(sent)
		want := map[string]int{
			"ZADD":      380, // heartbeats without a script
			"heartbeat": 20,
			"wait":      150,
			"lengths":   3, // its own lists, for the sake of the connection
		}
		for name, count := range want {
			require.InDelta(t, count, sent[name], 2, name)
			delete(sent, name)
		}
		require.Empty(t, sent)

		// Its heartbeats keep its entry in Sidekiq's list, and if that is gone, it is written anew.
		entry := lua.NewKeys(client.Config().Prefix).Process(server.Identity())
		read := func(field string) string {
			value, _ := client.Driver().Do(t.Context(), driver.Command("HGET", entry, field))[0].Value.(string)
			return value
		}
		for range 5 {
			beat, err := strconv.ParseFloat(read("beat"), 64)
			require.NoError(t, err)
			require.InDelta(t, float64(time.Now().Unix()), beat, 30)
			time.Sleep(33 * time.Second)
		}
		require.Equal(t, int64(1), client.Driver().Do(t.Context(), driver.Command("DEL", entry))[0].Value)
		time.Sleep(30 * time.Second)
		require.NotEmpty(t, read("info"))
	})
}
