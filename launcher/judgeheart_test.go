package launcher

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// runJudged runs a Launcher that is given grace instead of heartGrace, which is too long for a test: hence a
// test in the package.
func runJudged(t *testing.T, url string, cfg Config, grace time.Duration) (l *Launcher, end func() error) {
	t.Helper()
	client, err := goredisdriver.Open(url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	cfg.Client, cfg.Prefix = client, drivertest.Prefix(t)
	l, err = New(cfg)
	require.NoError(t, err)
	l.grace = grace - cfg.TTL
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(stop)
	awaitFinding(t, l.Ready, Finding{OK: true})
	return l, func() error {
		require.Empty(t, done, "it works until it is stopped")
		stop()
		return <-done
	}
}

func awaitFinding(t *testing.T, ask func(context.Context) Finding, want Finding) {
	t.Helper()
	drivertest.Eventually(t, func() bool {
		found := ask(t.Context())
		return found.OK == want.OK && found.Reason == want.Reason
	}, 20*time.Second, 10*time.Millisecond)
}

func TestAHeartThatHasStoppedIsFoundOut(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
	cfg := Config{Beat: 50 * time.Millisecond, TTL: 200 * time.Millisecond}
	short, endShort := runJudged(t, proxy.URL(), cfg, time.Second)
	patient, endPatient := runJudged(t, proxy.URL(), cfg, time.Hour)

	// Redis answers what we ask, and refuses the hearts their script.
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "EVAL", Do: faultproxy.Fail("ERR no scripts today")},
		faultproxy.Rule{On: faultproxy.Requests, Token: "evalsha", Do: faultproxy.Fail("ERR no scripts today")})
	awaitFinding(t, short.Ready, Finding{Reason: "no_lease"})
	awaitFinding(t, patient.Ready, Finding{Reason: "no_lease"})
	require.True(t, patient.Alive(t.Context()).OK, "it counts from the first question")
	awaitFinding(t, short.Alive, Finding{Reason: "no_heartbeat"})
	require.True(t, patient.Alive(t.Context()).OK, "it is given some time")

	proxy.Clear()
	for _, l := range []*Launcher{short, patient} {
		awaitFinding(t, l.Alive, Finding{OK: true})
		awaitFinding(t, l.Ready, Finding{OK: true})
	}
	require.NoError(t, endShort())
	require.NoError(t, endPatient())
}

// Our own question is refused as the heart is, and other connections of the worker still have answers: no
// outage.
func TestAHeartThatAloneIsSilentIsFoundOut(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
	l, end := runJudged(t, proxy.URL(), Config{Beat: 50 * time.Millisecond, TTL: 200 * time.Millisecond}, 0)
	drivertest.Eventually(t, func() bool { return l.shards[0].report.AnsweredWithin(time.Minute) }, 10*time.Second, time.Millisecond,
		"another connection has had a reply")
	for _, token := range []string{"TIME", "EVAL", "evalsha"} {
		proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: token, Do: faultproxy.Fail("ERR max number of clients reached")})
	}
	awaitFinding(t, l.Alive, Finding{Reason: "no_heartbeat"})
	proxy.Clear()
	awaitFinding(t, l.Alive, Finding{OK: true})
	require.NoError(t, end())
}
