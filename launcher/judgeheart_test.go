package launcher

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/drivertest/faultproxy"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/lua"
)

// runGroup runs a Group that is given grace instead of heartGrace, for which nobody wants to wait: hence a test in the
// package.
func runGroup(t *testing.T, url string, cfg Config, grace time.Duration, capsules ...Capsule) (g *Group, end func() error) {
	t.Helper()
	client, err := goredisdriver.Open(url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	cfg.Client, cfg.Prefix = client, drivertest.Prefix(t)
	g, err = NewGroup(cfg, capsules...)
	require.NoError(t, err)
	g.ttl = grace - heartGrace
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(stop)
	awaitFinding(t, g.Ready, Finding{OK: true})
	return g, func() error {
		require.Empty(t, done, "it works until it is stopped")
		stop()
		return <-done
	}
}

func awaitFinding(t *testing.T, ask func(context.Context) Finding, want Finding) {
	t.Helper()
	require.Eventually(t, func() bool {
		found := ask(t.Context())
		return found.OK == want.OK && found.Reason == want.Reason
	}, 20*time.Second, 10*time.Millisecond)
}

func TestAHeartThatHasStoppedIsFoundOut(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
	g, end := runGroup(t, proxy.URL(), Config{Beat: 50 * time.Millisecond, TTL: 200 * time.Millisecond}, 3*time.Second)

	// Redis answers what we ask, and refuses the heart its script.
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "EVAL", Do: faultproxy.Fail("ERR no scripts today")},
		faultproxy.Rule{On: faultproxy.Requests, Token: "evalsha", Do: faultproxy.Fail("ERR no scripts today")})
	awaitFinding(t, g.Ready, Finding{Reason: "no_lease"})
	require.True(t, g.Alive(t.Context()).OK, "it is given some time")
	awaitFinding(t, g.Alive, Finding{Reason: "no_heartbeat"})

	proxy.Clear()
	awaitFinding(t, g.Alive, Finding{OK: true})
	awaitFinding(t, g.Ready, Finding{OK: true})
	require.NoError(t, end())
}

// Our own question is refused as the heart is, and other connections of the worker still have answers: no outage.
func TestAHeartThatAloneIsSilentIsFoundOut(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
	g, end := runGroup(t, proxy.URL(), Config{Beat: 50 * time.Millisecond, TTL: 200 * time.Millisecond}, 0)
	for _, token := range []string{"TIME", "EVAL", "evalsha"} {
		proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: token, Do: faultproxy.Fail("ERR max number of clients reached")})
	}
	awaitFinding(t, g.Alive, Finding{Reason: "no_heartbeat"})
	proxy.Clear()
	awaitFinding(t, g.Alive, Finding{OK: true})
	require.NoError(t, end())
}

// Somebody stops a capsule in Sidekiq's dashboard: the rest of the process is not to be started anew for it.
func TestACapsuleThatIsStoppedAloneIsNoStoppedHeart(t *testing.T) {
	t.Parallel()
	g, end := runGroup(t, drivertest.Redis(t).URL(), Config{Beat: 50 * time.Millisecond, TTL: time.Second}, 0,
		Capsule{Name: "x", Queues: []fetch.Queue{{Name: "x"}}})
	keys := lua.NewKeys(g.cfg.Prefix)
	itself := g.identities()[1]
	reply := g.cfg.Client.Do(t.Context(), driver.Command("LPUSH", keys.Signals(itself), "TERM"))[0]
	require.NoError(t, reply.Err)
	require.Eventually(t, func() bool {
		reply := g.cfg.Client.Do(t.Context(), driver.Command("ZSCORE", keys.Alive(), itself))[0]
		return reply.Err == nil && reply.Value == nil
	}, 20*time.Second, 5*time.Millisecond)
	for range 3 {
		require.Equal(t, Finding{OK: true}, g.Alive(t.Context()))
	}
	require.Equal(t, "stopping", g.Ready(t.Context()).Reason)
	require.NoError(t, end())
}
