package belay_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
)

// leaving are the ways in which a server ceases to poll.
var leaving = map[string]func(s *belay.Server){"quiet": (*belay.Server).Quiet, "stop": (*belay.Server).Stop}

// The server that polls becomes quiet or stops, and a job is due a moment later: another server has taken its
// place already, instead of waiting for the end of its lease. The clock is that of a bubble, so that a busy
// machine delays nothing.
func TestTheNextPollerIsThereAtOnce(t *testing.T) {
	t.Parallel()
	later := belay.Define[struct{}]("Later")
	for name, leave := range leaving {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, ran := belaytest.New(t).Client(), make(chan time.Time, 1)
				start := func() *belay.Server {
					server := newServer(t, client, belay.ServerConfig{})
					later.Handle(server, func(context.Context, struct{}) error {
						ran <- time.Now()
						return nil
					})
					running(t, server)
					time.Sleep(time.Second) // it has asked once to poll, and would ask again in a second
					return server
				}
				first := start()
				require.Equal(t, first.Identity(), pollerOf(t, client))
				start()
				leave(first)
				dueAt := time.Now().Add(100 * time.Millisecond)
				_, err := later.Enqueue(t.Context(), client, struct{}{}, belay.At(dueAt))
				require.NoError(t, err)
				const soon = 100 * time.Millisecond // a lease lasts for two seconds
				require.Less(t, awaitValue(t, "the job", ran).Sub(dueAt), soon)
			})
		})
	}
}

// A server that ceases to poll says so to those that stand by, with each driver on a real Redis.
func TestALeavingPollerWakesThoseThatStandBy(t *testing.T) {
	t.Parallel()
	for name, leave := range leaving {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachDriver(t, func(t *testing.T, client *belay.Client) {
				t.Helper()
				start := func() *belay.Server {
					server := newServer(t, client, belay.ServerConfig{})
					server.HandleUnknown(idle)
					running(t, server)
					return server
				}
				first := start()
				drivertest.Eventually(t, func() bool { return pollerOf(t, client) != "" }, patience, tick)
				listening, left := make(chan bool, 1), make(chan bool, 1)
				go func() {
					_ = client.Driver().Listen(t.Context(), []string{lua.NewKeys(client.Config().Prefix).PollerLeft()}, driver.ListenProbe,
						func() { listening <- true }, func(string) { left <- true })
				}()
				awaitValue(t, "a subscription", listening)
				leave(first)
				awaitValue(t, "word of it", left)
				second := start()
				drivertest.Eventually(t, func() bool { return pollerOf(t, client) == second.Identity() }, patience, tick)
			})
		})
	}
}

// pollerOf returns the identity of the process that polls.
func pollerOf(t *testing.T, client *belay.Client) string {
	t.Helper()
	reply := client.Driver().Do(t.Context(), driver.Command("GET", lua.NewKeys(client.Config().Prefix).Poller()))[0]
	require.NoError(t, reply.Err)
	holder, _ := reply.Value.(string)
	return holder
}
