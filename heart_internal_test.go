package belay

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/drivertest/faultproxy"
)

// In the package, because nobody wants to wait for heartGrace.
func TestAHeartThatHasStoppedIsFoundOut(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
	client, err := Open(t.Context(), proxy.URL(), Prefix(strings.TrimSuffix(drivertest.Prefix(t), ":")))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	server := NewServer(client, Heartbeat(50*time.Millisecond, 200*time.Millisecond))
	server.launcher.ttl = 300*time.Millisecond - heartGrace
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { done <- server.Run(ctx) }()
	await := func(ask func(context.Context) finding, want finding) {
		t.Helper()
		require.Eventually(t, func() bool {
			found := ask(t.Context())
			return found.OK == want.OK && found.Reason == want.Reason
		}, 20*time.Second, 10*time.Millisecond)
	}
	await(server.ready, finding{OK: true})

	// Redis answers what we ask, and refuses the heart its script.
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "EVAL", Do: faultproxy.Fail("ERR no scripts today")},
		faultproxy.Rule{On: faultproxy.Requests, Token: "evalsha", Do: faultproxy.Fail("ERR no scripts today")})
	await(server.ready, finding{Reason: "no_lease"})
	require.True(t, server.alive(t.Context()).OK, "it is given some time")
	await(server.alive, finding{Reason: "no_heartbeat"})

	proxy.Clear()
	await(server.alive, finding{OK: true})
	await(server.ready, finding{OK: true})
	stop()
	require.NoError(t, <-done)
}

// Somebody stops a capsule in Sidekiq's dashboard: the rest of the process is not to be started anew for it.
func TestACapsuleThatIsStoppedAloneIsNoStoppedHeart(t *testing.T) {
	t.Parallel()
	client, err := Open(t.Context(), drivertest.Redis(t).URL(), Prefix(strings.TrimSuffix(drivertest.Prefix(t), ":")))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	server := NewServer(client, Heartbeat(50*time.Millisecond, time.Second), Capsule("x", Queues("x")))
	server.launcher.ttl = -heartGrace // no patience at all
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { done <- server.Run(ctx) }()
	require.Eventually(t, func() bool { return server.ready(t.Context()).OK }, 20*time.Second, 5*time.Millisecond)

	keys := client.Config().Prefix + ":"
	itself := server.launcher.identities()[1]
	reply := client.Driver().Do(t.Context(), driver.Command("LPUSH", keys+itself+"-signals", "TERM"))[0]
	require.NoError(t, reply.Err)
	require.Eventually(t, func() bool {
		reply := client.Driver().Do(t.Context(), driver.Command("ZSCORE", keys+"belay:alive", itself))[0]
		return reply.Err == nil && reply.Value == nil
	}, 20*time.Second, 5*time.Millisecond)
	for range 3 {
		require.Equal(t, finding{OK: true}, server.alive(t.Context()))
	}
	require.Equal(t, "stopping", server.ready(t.Context()).Reason)
	require.Empty(t, done, "the others work on")
	stop()
	require.NoError(t, <-done)
}
