package belay_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/drivertest/faultproxy"
	"github.com/belayq/belay/driver/goredisdriver"
)

// asked is what one of the health paths answered.
type asked struct {
	status int
	OK     bool
	Reason string
	Detail string
}

func ask(t *testing.T, server *belay.Server, path string) asked {
	t.Helper()
	recorder := httptest.NewRecorder()
	server.Health().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	var answer asked
	require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &answer), recorder.Body)
	answer.status = recorder.Code
	require.Equal(t, answer.OK, answer.status == http.StatusOK)
	require.True(t, answer.OK || answer.status == http.StatusServiceUnavailable)
	return answer
}

// awaitReady waits until /readyz gives this reason; empty is ready.
func awaitReady(t *testing.T, server *belay.Server, reason string) {
	t.Helper()
	var last asked
	require.Eventually(t, func() bool {
		last = ask(t, server, "/readyz")
		return last.Reason == reason && (reason != "" || last.OK)
	}, patience, 5*time.Millisecond, "it never said %q", reason)
}

func TestHealth(t *testing.T) {
	t.Parallel()
	t.Run("tells when it takes jobs, and why not", func(t *testing.T) {
		t.Parallel()
		server := belay.NewServer(openShared(t), belay.Capsule("x", belay.Queues("x")))
		require.Equal(t, "not_running", ask(t, server, "/readyz").Reason)
		require.True(t, ask(t, server, "/healthz").OK, "it is about to begin")
		done := running(t, server)
		awaitReady(t, server, "")
		server.Quiet()
		require.Equal(t, "quiet", ask(t, server, "/readyz").Reason, "at once")
		require.True(t, ask(t, server, "/healthz").OK)
		server.Stop()
		require.NoError(t, awaitValue(t, "the end", done))
		require.Equal(t, "not_running", ask(t, server, "/readyz").Reason)
		require.Equal(t, "not_running", ask(t, server, "/healthz").Reason)
	})

	t.Run("says that it stops for as long as jobs run", func(t *testing.T) {
		t.Parallel()
		client := openShared(t)
		server := belay.NewServer(client)
		began, goOn := make(chan bool), make(chan bool)
		server.HandleClass("A", func(context.Context, *belay.Job) error { close(began); <-goOn; return nil })
		_, err := client.Push(t.Context(), belay.Item{Class: "A"})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- server.Run(ctx) }()
		awaitValue(t, "the job", began)
		stop()
		awaitReady(t, server, "stopping")
		require.True(t, ask(t, server, "/healthz").OK)
		close(goOn)
		require.NoError(t, awaitValue(t, "the end", done))
	})

	t.Run("one capsule that a remote control made quiet is enough not to be ready", func(t *testing.T) {
		t.Parallel()
		client := openShared(t)
		server := belay.NewServer(client, belay.Heartbeat(50*time.Millisecond, time.Second), belay.Capsule("x", belay.Queues("x")))
		running(t, server)
		awaitReady(t, server, "")
		reply := client.Driver().Do(t.Context(), driver.Command("LPUSH", client.Config().Prefix+":"+server.Identity()+"-signals", "TSTP"))[0]
		require.NoError(t, reply.Err)
		awaitReady(t, server, "quiet")
	})

	t.Run("an outage is no reason to start it anew, and it is ready again by itself", func(t *testing.T) {
		t.Parallel()
		redis := drivertest.Redis(t)
		proxy := faultproxy.New(t, redis.Addr())
		client, err := belay.Open(t.Context(), proxy.URL(), belay.Prefix(strings.TrimSuffix(drivertest.Prefix(t), ":")))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		server := belay.NewServer(client, belay.Heartbeat(50*time.Millisecond, 400*time.Millisecond))
		running(t, server)
		awaitReady(t, server, "")

		proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Do: faultproxy.Close()})
		proxy.CloseConns()
		awaitReady(t, server, "redis_away")
		alive := ask(t, server, "/healthz")
		require.True(t, alive.OK)
		require.Equal(t, "redis_away", alive.Reason)

		proxy.Clear()
		awaitReady(t, server, "")
	})

	t.Run("is not registered before Redis has answered, and waits for it", func(t *testing.T) {
		t.Parallel()
		redis, err := goredisdriver.Open("redis://127.0.0.1:1/0") // nobody listens there
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, redis.Close()) })
		client, err := belay.NewClient(redis)
		require.NoError(t, err)
		server := belay.NewServer(client)
		running(t, server)
		awaitReady(t, server, "not_registered")
		require.True(t, ask(t, server, "/healthz").OK)
	})

	t.Run("whom Redis does not count among the living is not ready", func(t *testing.T) {
		t.Parallel()
		client := openShared(t)
		server := belay.NewServer(client, belay.Heartbeat(10*time.Second, 0)) // so that no beat comes in between
		running(t, server)
		awaitReady(t, server, "")
		reply := client.Driver().Do(t.Context(), driver.Command("ZADD", client.Config().Prefix+":belay:alive", "1", server.Identity()))[0]
		require.NoError(t, reply.Err)
		answer := ask(t, server, "/readyz")
		require.Equal(t, "no_lease", answer.Reason)
		require.Contains(t, answer.Detail, server.Identity())
		require.True(t, ask(t, server, "/healthz").OK, "the heart may be about to find out")
	})
}
