package launcher_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

func TestGroup(t *testing.T) {
	t.Parallel()
	t.Run("gives a capsule processors of its own, and all of them its handlers, and its hooks once", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		cfg := r.config()
		cfg.Concurrency = 2
		cfg.Logging.RedactError = func(string, error) string { return "unsaid" }
		g, err := launcher.NewGroup(cfg, launcher.Capsule{Name: "unsafe", Concurrency: 1, Queues: []fetch.Queue{{Name: "unsafe"}}})
		require.NoError(t, err)
		type place struct{ queue, identity string }
		started, goOn := make(chan place, 10), make(chan struct{})
		g.Handle("Slow", func(ctx context.Context, _ *job.Job) error {
			info, _ := launcher.Info(ctx)
			started <- place{info.Queue, info.Identity}
			<-goOn
			return nil
		}, launcher.Class{})
		var starts, exits atomic.Int64
		g.OnStart(func(context.Context) error { starts.Add(1); return nil })
		g.OnExit(func() { exits.Add(1); panic("s3cr3t, which harms nobody") })
		stopped := make(chan bool, 2)
		g.OnStop(func() { stopped <- true })
		for range 2 {
			for _, queue := range []string{"unsafe", "default"} {
				r.do("LPUSH", r.keys.Queue(queue), job.Draft{Class: "Slow", Queue: queue, ArgsJSON: "[]", CreatedAt: time.Now(), EnqueuedAt: time.Now()}.Encode())
			}
		}
		done, _ := r.startGroup(g)
		identities, count := make(map[string]string), make(map[string]int)
		for range 3 {
			at := receive(t, "a run", started)
			identities[at.queue] = at.identity
			count[at.queue]++
		}
		require.Equal(t, map[string]int{"unsafe": 1, "default": 2}, count)
		require.Equal(t, 3, g.Busy())
		require.NotEqual(t, identities["unsafe"], identities["default"])
		require.Equal(t, g.Identity(), identities["default"])
		close(goOn)
		require.Equal(t, place{"unsafe", identities["unsafe"]}, receive(t, "the last run", started))
		g.Stop()
		require.NoError(t, receive(t, "the end", done))
		receive(t, "the stop hook", stopped)
		require.Empty(t, stopped, "it is told once")
		require.Equal(t, [2]int64{1, 1}, [2]int64{starts.Load(), exits.Load()})
		require.Contains(t, r.log.String(), `"panic":"unsaid","message":"exit hook panicked"`)
	})

	t.Run("shares no queue among its capsules, and names every mistake at once", func(t *testing.T) {
		t.Parallel()
		queues := func(names ...string) (list []fetch.Queue) {
			for _, name := range names {
				list = append(list, fetch.Queue{Name: name})
			}
			return list
		}
		cfg := oneClient(t).config()
		cfg.Queues, cfg.Beat, cfg.TTL = queues("a", "b"), time.Second, time.Second
		_, err := launcher.NewGroup(cfg,
			launcher.Capsule{Name: "x", Queues: queues("b", "c")}, launcher.Capsule{Name: "y", Queues: queues("c")},
			launcher.Capsule{Name: "y", Queues: queues("d")}, launcher.Capsule{}, launcher.Capsule{Name: "default", Queues: queues("e")},
			launcher.Capsule{Name: "z", Concurrency: -1, Queues: queues("")}, launcher.Capsule{Name: "none"})
		for _, part := range []string{
			`queue "b" is in the capsules "default" and "x"`, `queue "c" is in the capsules "x" and "y"`, `"y": there are two`,
			"a capsule has no name", `capsule "default": this is the server itself`, `capsule "z": configure a worker`, "concurrency -1",
			`capsule "none": it has no queues`, "ttl 1s",
		} {
			require.ErrorContains(t, err, part)
		}
	})

	t.Run("whose start fails stops all, and that error is Run's", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		g := r.group(r.config())
		cause := errors.New("no database")
		g.OnStart(func(context.Context) error { return cause })
		g.OnExit(func() { t.Error("nothing has begun, and so nothing ends") })
		done, _ := r.startGroup(g)
		require.ErrorIs(t, receive(t, "the end", done), cause)
	})
}
