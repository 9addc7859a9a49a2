package belay_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
)

func TestCapsule(t *testing.T) {
	t.Parallel()
	t.Run("has processors of its own, and the server's handlers and hooks", func(t *testing.T) {
		t.Parallel()
		client := openShared(t)
		server := newServer(t, client, belay.ServerConfig{Concurrency: 2,
			Capsules: []belay.Capsule{{Name: "unsafe", Concurrency: 1, Queues: belay.Queues("unsafe")}}})
		started, goOn := make(chan string, 10), make(chan struct{})
		server.HandleRaw("Slow", func(ctx context.Context, _ *belay.Job) error {
			info, _ := belay.Info(ctx)
			started <- info.Queue + " " + info.Identity
			<-goOn
			return nil
		})
		var starts, exits atomic.Int64
		server.OnStart(func(context.Context) error { starts.Add(1); return nil })
		server.OnExit(func() { exits.Add(1) })
		stopped := make(chan bool, 2)
		server.OnStop(func() { stopped <- true })
		for range 2 {
			for _, queue := range []string{"unsafe", "default"} {
				_, err := client.Push(t.Context(), belay.RawJob{Class: "Slow", Queue: queue})
				require.NoError(t, err)
			}
		}
		done := running(t, server)
		identities := make(map[string]string)
		count := make(map[string]int)
		for range 3 {
			queue, identity, _ := strings.Cut(awaitValue(t, "a run", started), " ")
			identities[queue] = identity
			count[queue]++
		}
		require.Equal(t, map[string]int{"unsafe": 1, "default": 2}, count)
		require.Equal(t, identities["unsafe"], identities["default"])
		require.Equal(t, server.Identity(), identities["default"])
		drivertest.Eventually(t, func() bool {
			processes := client.Driver().Do(t.Context(), driver.Command("SCARD", client.Config().Prefix+":processes"))[0]
			return processes == driver.Reply{Value: int64(1)}
		}, patience, 5*time.Millisecond, "they are one process to Sidekiq's readers")
		close(goOn)
		require.Equal(t, identities["unsafe"], awaitValue(t, "the last run", started)[len("unsafe "):])
		server.Stop()
		require.NoError(t, awaitValue(t, "the end", done))
		awaitValue(t, "the stop hook", stopped)
		require.Empty(t, stopped, "it is reported once")
		require.Equal(t, [2]int64{1, 1}, [2]int64{starts.Load(), exits.Load()})
	})

	t.Run("shares no queue with another, and every mistake is named at once", func(t *testing.T) {
		t.Parallel()
		_, err := belay.NewServer(openShared(t), belay.ServerConfig{
			Queues: belay.Queues("a", "b"), Heartbeat: time.Second, TTL: time.Second,
			Capsules: []belay.Capsule{
				{Name: "x", Queues: belay.Queues("b", "c")}, {Name: "y", Queues: belay.Queues("c")}, {Name: "y", Queues: belay.Queues("d")},
				{}, {Name: "default", Queues: belay.Queues("e")}, {Name: "z", Concurrency: -1, Queues: belay.Queues("")}, {Name: "none"},
			},
		})
		for _, part := range []string{
			`queue "b" is in the capsules "default" and "x"`, `queue "c" is in the capsules "x" and "y"`, `"y": there are two`,
			"a capsule has no name", `capsule "default": this is the server itself`, `capsule "z": `, "concurrency -1",
			`capsule "none": it has no queues`, "ttl 1s",
		} {
			require.ErrorContains(t, err, part)
		}
	})
}
