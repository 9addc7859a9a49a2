package belay

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
