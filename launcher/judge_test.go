package launcher_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/drivertest/faultproxy"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// group builds a Group whose capsule is the queue x.
func (r *rig) group(cfg launcher.Config) *launcher.Group {
	r.t.Helper()
	g, err := launcher.NewGroup(cfg, launcher.Capsule{Name: "x", Queues: []fetch.Queue{{Name: "x"}}})
	require.NoError(r.t, err)
	return g
}

// startGroup runs g until the test ends, if stop does not end it before.
func (r *rig) startGroup(g *launcher.Group) (done chan error, stop func()) {
	done = make(chan error, 1)
	gone := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer close(gone)
		done <- g.Run(ctx)
	}()
	r.t.Cleanup(func() {
		stop()
		g.Stop()
		g.Stop()
		<-gone
	})
	return done, stop
}

// awaitReady waits until Ready gives this reason; empty is ready.
func (r *rig) awaitReady(g *launcher.Group, reason string) {
	r.t.Helper()
	r.eventually("ready: "+reason, func() bool {
		found := g.Ready(r.t.Context())
		return found.Reason == reason && found.OK == (reason == "")
	})
}

func TestGroupJudges(t *testing.T) {
	t.Parallel()
	t.Run("when it takes jobs, and why not", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		g := r.group(r.config())
		require.Equal(t, "not_running", g.Ready(t.Context()).Reason)
		require.True(t, g.Alive(t.Context()).OK, "it is about to begin")
		done, _ := r.startGroup(g)
		r.awaitReady(g, "")
		g.Quiet()
		require.Equal(t, "quiet", g.Ready(t.Context()).Reason, "at once")
		require.Equal(t, launcher.Finding{OK: true}, g.Alive(t.Context()))
		g.Stop()
		require.NoError(t, receive(t, "the end", done))
		require.Equal(t, "not_running", g.Ready(t.Context()).Reason)
		found := g.Alive(t.Context())
		require.Equal(t, "not_running", found.Reason)
		require.False(t, found.OK)
	})

	t.Run("that it stops for as long as jobs run", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		g := r.group(r.config())
		began, goOn := make(chan bool), make(chan bool)
		g.Handle("A", func(context.Context, *job.Job) error { close(began); <-goOn; return nil }, launcher.Class{})
		r.push("A", "[]")
		done, stop := r.startGroup(g)
		receive(t, "the job", began)
		require.Equal(t, 1, g.Busy())
		stop()
		r.awaitReady(g, "stopping")
		require.True(t, g.Alive(t.Context()).OK)
		close(goOn)
		require.NoError(t, receive(t, "the end", done))
	})

	t.Run("one capsule that a remote control made quiet enough not to be ready", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		cfg := r.config()
		cfg.Beat = 50 * time.Millisecond
		g := r.group(cfg)
		r.startGroup(g)
		r.awaitReady(g, "")
		r.do("LPUSH", r.keys.Signals(g.Identity()), "TSTP")
		r.awaitReady(g, "quiet")
	})

	t.Run("an outage no reason to start it anew, and is ready again by itself", func(t *testing.T) {
		t.Parallel()
		proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
		r := newRig(t, openers["go-redis"], proxy.URL(), drivertest.Prefix(t))
		cfg := r.config()
		cfg.Beat, cfg.TTL = 50*time.Millisecond, 400*time.Millisecond
		g := r.group(cfg)
		r.startGroup(g)
		r.awaitReady(g, "")

		proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Do: faultproxy.Close()})
		proxy.CloseConns()
		r.awaitReady(g, "redis_away")
		found := g.Alive(t.Context())
		require.True(t, found.OK)
		require.Equal(t, "redis_away", found.Reason)
		require.NotEmpty(t, found.Detail)
		host, port, _ := net.SplitHostPort(proxy.Addr())
		for _, detail := range []string{found.Detail, g.Ready(t.Context()).Detail} {
			require.NotContains(t, detail, host)
			require.NotContains(t, detail, port)
		}

		proxy.Clear()
		r.awaitReady(g, "")
	})

	t.Run("itself not registered before Redis has answered, and waits for it", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, openers["go-redis"], "redis://127.0.0.1:1/0", drivertest.Prefix(t)) // nobody listens there
		g := r.group(r.config())
		r.startGroup(g)
		r.awaitReady(g, "not_registered")
		require.True(t, g.Alive(t.Context()).OK)
	})

	t.Run("itself not ready when Redis does not count it among the living", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		cfg := r.config()
		cfg.Beat, cfg.TTL = 10*time.Second, 0 // so that no beat comes in between
		g := r.group(cfg)
		r.startGroup(g)
		r.awaitReady(g, "")
		r.do("ZADD", r.keys.Alive(), "1", g.Identity())
		found := g.Ready(t.Context())
		require.Equal(t, "no_lease", found.Reason)
		require.Contains(t, found.Detail, g.Identity())
		require.True(t, g.Alive(t.Context()).OK, "the heart may be about to find out")
	})
}
