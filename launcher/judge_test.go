package launcher_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// withCapsule builds a Launcher that has a capsule with the queue x.
func (r *rig) withCapsule(cfg launcher.Config) *launcher.Launcher {
	r.t.Helper()
	cfg.Capsules = []launcher.Capsule{{Name: "x", Queues: []fetch.Queue{{Name: "x"}}}}
	return r.build(cfg)
}

// startJudged runs l until the test ends, if stop does not end it before.
func (r *rig) startJudged(l *launcher.Launcher) (done chan error, stop func()) {
	done = make(chan error, 1)
	gone := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer close(gone)
		done <- l.Run(ctx)
	}()
	r.t.Cleanup(func() {
		stop()
		l.Stop()
		l.Stop()
		<-gone
	})
	return done, stop
}

// awaitReady waits until Ready gives this reason; empty is ready.
func (r *rig) awaitReady(l *launcher.Launcher, reason string) {
	r.t.Helper()
	r.eventually("ready: "+reason, func() bool {
		found := l.Ready(r.t.Context())
		return found.Reason == reason && found.OK == (reason == "")
	})
}

func TestLauncherJudges(t *testing.T) {
	t.Parallel()
	t.Run("when it takes jobs, and why not", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		l := r.withCapsule(r.config())
		require.Equal(t, "not_running", l.Ready(t.Context()).Reason)
		require.True(t, l.Alive(t.Context()).OK, "it is about to begin")
		done, _ := r.startJudged(l)
		r.awaitReady(l, "")
		l.Quiet()
		require.Equal(t, "quiet", l.Ready(t.Context()).Reason, "at once")
		require.Equal(t, launcher.Finding{OK: true}, l.Alive(t.Context()))
		l.Stop()
		require.NoError(t, receive(t, "the end", done))
		require.Equal(t, "not_running", l.Ready(t.Context()).Reason)
		found := l.Alive(t.Context())
		require.Equal(t, "not_running", found.Reason)
		require.False(t, found.OK)
	})

	t.Run("that it stops for as long as jobs run", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		l := r.withCapsule(r.config())
		began, goOn := make(chan bool), make(chan bool)
		l.Handle("A", func(context.Context, *job.Job) error { close(began); <-goOn; return nil }, launcher.Class{})
		r.push("A", "[]")
		done, stop := r.startJudged(l)
		receive(t, "the job", began)
		require.Equal(t, 1, l.Busy())
		stop()
		r.awaitReady(l, "stopping")
		require.True(t, l.Alive(t.Context()).OK)
		close(goOn)
		require.NoError(t, receive(t, "the end", done))
	})

	t.Run("itself not ready when a remote control made it quiet", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		cfg := r.config()
		cfg.Beat = 50 * time.Millisecond
		l := r.withCapsule(cfg)
		r.startJudged(l)
		r.awaitReady(l, "")
		r.do("LPUSH", r.keys.Signals(l.Identity()), "TSTP")
		r.awaitReady(l, "quiet")
	})

	t.Run("an outage no reason to start it anew, and is ready again by itself", func(t *testing.T) {
		t.Parallel()
		proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
		r := newRig(t, openers["go-redis"], proxy.URL(), drivertest.Prefix(t))
		cfg := r.config()
		cfg.Beat, cfg.TTL = 50*time.Millisecond, 400*time.Millisecond
		l := r.withCapsule(cfg)
		r.startJudged(l)
		r.awaitReady(l, "")

		proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Do: faultproxy.Close()})
		proxy.CloseConns()
		r.awaitReady(l, "redis_away")
		found := l.Alive(t.Context())
		require.True(t, found.OK)
		require.Equal(t, "redis_away", found.Reason)
		require.NotEmpty(t, found.Detail)
		host, port, _ := net.SplitHostPort(proxy.Addr())
		for _, detail := range []string{found.Detail, l.Ready(t.Context()).Detail} {
			require.NotContains(t, detail, host)
			require.NotContains(t, detail, port)
		}

		proxy.Clear()
		r.awaitReady(l, "")
	})

	t.Run("itself not registered before Redis has answered, and waits for it", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, openers["go-redis"], "redis://127.0.0.1:1/0", drivertest.Prefix(t)) // no server listens there
		l := r.withCapsule(r.config())
		r.startJudged(l)
		r.awaitReady(l, "not_registered")
		require.True(t, l.Alive(t.Context()).OK)
	})

	t.Run("itself not ready when Redis does not count it among the living", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		cfg := r.config()
		cfg.Beat, cfg.TTL = 10*time.Second, 0 // so that hardly a beat comes in between
		l := r.withCapsule(cfg)
		r.startJudged(l)
		r.awaitReady(l, "")
		var found launcher.Finding
		drivertest.Eventually(t, func() bool { // the first beat may come after it is ready
			r.do("ZADD", r.keys.Alive(), "1", l.Identity())
			found = l.Ready(t.Context())
			return found.Reason == "no_lease"
		}, 10*time.Second, 10*time.Millisecond)
		require.Contains(t, found.Detail, l.Identity())
		require.True(t, l.Alive(t.Context()).OK, "the heart may be about to find out")
	})
}
