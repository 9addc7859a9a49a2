package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

func TestCapsules(t *testing.T) {
	t.Parallel()
	t.Run("have processors of their own, and share the session, the handlers and the hooks", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		cfg := r.config()
		cfg.Concurrency = 2
		cfg.Logging.RedactError = func(string, error) string { return "unsaid" }
		cfg.Capsules = []launcher.Capsule{{Name: "unsafe", Concurrency: 1, Queues: []fetch.Queue{{Name: "unsafe"}}}}
		l := r.build(cfg)
		type place struct{ queue, identity string }
		started, goOn := make(chan place, 10), make(chan struct{})
		l.Handle("Slow", func(ctx context.Context, _ *job.Job) error {
			info, _ := launcher.Info(ctx)
			started <- place{info.Queue, info.Identity}
			<-goOn
			return nil
		}, launcher.Class{})
		var starts, exits atomic.Int64
		l.OnStart(func(context.Context) error { starts.Add(1); return nil })
		l.OnExit(func() { exits.Add(1); panic("s3cr3t, which harms no session") })
		stopped := make(chan bool, 2)
		l.OnStop(func() { stopped <- true })
		for range 2 {
			for _, queue := range []string{"unsafe", "default"} {
				r.do("LPUSH", r.keys.Queue(queue), job.Draft{Class: "Slow", Queue: queue, ArgsJSON: "[]", CreatedAt: time.Now(), EnqueuedAt: time.Now()}.Encode())
			}
		}
		done, _ := r.startJudged(l)
		identities, count := make(map[string]string), make(map[string]int)
		for range 3 {
			at := receive(t, "a run", started)
			identities[at.queue] = at.identity
			count[at.queue]++
		}
		require.Equal(t, map[string]int{"unsafe": 1, "default": 2}, count)
		require.Equal(t, 3, l.Busy())
		require.Equal(t, identities["unsafe"], identities["default"], "they are one process")
		require.Equal(t, l.Identity(), identities["default"])
		close(goOn)
		require.Equal(t, place{"unsafe", identities["unsafe"]}, receive(t, "the last run", started))
		l.Stop()
		require.NoError(t, receive(t, "the end", done))
		receive(t, "the stop hook", stopped)
		require.Empty(t, stopped, "it is reported once")
		require.Equal(t, [2]int64{1, 1}, [2]int64{starts.Load(), exits.Load()})
		require.Regexp(t, `"panic":"unsaid","stack":"[^"]+capsule_test.go[^"]+","time":"[^"]+","message":"exit hook panicked"`, r.log.String())
	})

	t.Run("share no queue, and every mistake is named at once", func(t *testing.T) {
		t.Parallel()
		queues := func(names ...string) (list []fetch.Queue) {
			for _, name := range names {
				list = append(list, fetch.Queue{Name: name})
			}
			return list
		}
		cfg := oneClient(t).config()
		cfg.Queues, cfg.Beat, cfg.TTL = queues("a", "b"), time.Second, time.Second
		cfg.Capsules = []launcher.Capsule{
			{Name: "x", Queues: queues("b", "c")}, {Name: "y", Queues: queues("c")}, {Name: "y", Queues: queues("d")},
			{}, {Name: "default", Queues: queues("e")}, {Name: "z", Concurrency: -1, Queues: queues("")}, {Name: "none"},
		}
		_, err := launcher.New(cfg)
		for _, part := range []string{
			`queue "b" is in the capsules "default" and "x"`, `queue "c" is in the capsules "x" and "y"`, `"y": there are two`,
			"a capsule has no name", `capsule "default": this is the server itself`, `capsule "z": `, "concurrency -1",
			`capsule "none": it has no queues`, "ttl 1s",
		} {
			require.ErrorContains(t, err, part)
		}
	})

	t.Run("do not start when a start hook fails, whose error is Run's", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		l := r.withCapsule(r.config())
		cause := errors.New("no database")
		l.OnStart(func(context.Context) error { return cause })
		l.OnExit(func() { t.Error("nothing has begun, and so nothing ends") })
		done, _ := r.startJudged(l)
		require.ErrorIs(t, receive(t, "the end", done), cause)
	})
}

// A process with capsules has no more connections than one without, besides one for each queue at which it waits.
func TestCapsulesShareTheirConnections(t *testing.T) {
	t.Parallel()
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := drivertest.Start(t) // of its own, so that no other connections are counted
			opened := func(prefix string) (opened int) {
				r := newRig(t, open, server.URL(), prefix)
				before := len(connections(t, server))
				cfg := r.config()
				cfg.Queues = []fetch.Queue{{Name: "a"}}
				for _, queue := range []string{"b", "c"} {
					cfg.Capsules = append(cfg.Capsules, launcher.Capsule{Name: queue, Queues: []fetch.Queue{{Name: queue}}})
				}
				w := r.start(r.build(cfg))
				r.eventually("the idle waits", func() bool {
					all := connections(t, server)
					opened = len(all) - before
					return count(all, "blmove") == 3 && count(all, "subscribe") > 0 && strings.Contains(r.log.String(), "working")
				})
				w.Stop()
				w.wait(t)
				return opened
			}
			// Calls that coincide by chance open one more connection of a pool, so it may take some tries.
			count := opened("app")
			for try := 1; count > idleConnections+3 && try < 10; try++ {
				t.Logf("%d connections", count)
				count = opened(fmt.Sprint("app", try))
			}
			require.LessOrEqual(t, count, idleConnections+3)
		})
	}
}
