package belay_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
)

func TestAServerRunsTheJobsOfAllShardsOfItsClient(t *testing.T) {
	t.Parallel()
	prefix := strings.Trim(drivertest.Prefix(t), ":")
	client, err := belay.Open(t.Context(), drivertest.Redis(t).URL(), &belay.ClientConfig{Prefix: prefix, Shards: belay.ClusterShards(3)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	d := belay.Define[int]("Sharded")
	server := newServer(t, client, belay.ServerConfig{})
	ran := make(chan int, 30)
	d.Handle(server, func(_ context.Context, n int) error { ran <- n; return nil })
	shards := make(map[string]bool)
	for n := range 30 {
		receipt, err := d.Enqueue(t.Context(), client, n)
		require.NoError(t, err)
		shards[receipt.Shard] = true
	}
	require.Len(t, shards, 3)
	done := running(t, server)
	var all []int
	for range 30 {
		all = append(all, awaitValue(t, "a run", ran))
	}
	for n := range 30 {
		require.Contains(t, all, n)
	}

	d2, err := goredisdriver.Open(drivertest.Redis(t).URL())
	require.NoError(t, err)
	fewer, err := belay.NewClient(d2, &belay.ClientConfig{Prefix: prefix, Shards: belay.ClusterShards(2)}) // compares nothing yet
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fewer.Close()) })
	other := newServer(t, fewer, belay.ServerConfig{})
	belay.Define[int]("Sharded").Handle(other, func(context.Context, int) error { return nil })
	require.ErrorIs(t, other.Run(t.Context()), belay.ErrShards, "a server with another list of shards")
	server.Stop()
	require.NoError(t, awaitValue(t, "the stop", done))
}

// Ticks are enqueued on one shard, and a limit that is on another one would not count their jobs.
func TestAServerRefusesAPeriodicJobWhoseLimitIsOnAnotherShard(t *testing.T) {
	t.Parallel()
	prefix := strings.Trim(drivertest.Prefix(t), ":")
	client, err := belay.Open(t.Context(), drivertest.Redis(t).URL(), &belay.ClientConfig{Prefix: prefix, Shards: belay.ClusterShards(3)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	limit := belay.Limit{Name: "tenants", Concurrency: 1}
	d := belay.Define[int]("ShardedTick", belay.Limited(limit, func(n int) string { return strconv.Itoa(n) }))
	refused := 0
	for n := range 40 {
		err := newServer(t, client, belay.ServerConfig{}).Schedule(belay.Periodic{Name: "tick", Cron: "@daily", Job: d.Job(n)})
		if err != nil {
			require.ErrorContains(t, err, "its limit is on shard")
			refused++
		}
	}
	require.NotZero(t, refused)
	require.Less(t, refused, 40)
}
