package rueidisdriver

import (
	"context"
	"crypto/tls"
	"math"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

func TestNewRefusesWhatItCannotServe(t *testing.T) {
	t.Parallel()
	for _, options := range []rueidis.ClientOption{
		{},
		{InitAddress: []string{"a:1", "b:1"}},
		{Sentinel: rueidis.SentinelOption{MasterSet: "m"}},
	} {
		_, err := New(options)
		require.Error(t, err)
	}
}

func TestALifetimeDoesNotReSend(t *testing.T) {
	t.Parallel()
	proxy, p := faultproxy.New(t, drivertest.Redis(t).Addr()), drivertest.Prefix(t)
	client, err := New(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, ConnLifetime: 200 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p + "n", Nth: 1, Do: faultproxy.Delay(2 * time.Second)})
	require.Equal(t, []driver.Reply{{Value: int64(1)}}, client.Do(t.Context(), driver.Command("INCR", p+"n")))
	require.Equal(t, 1, proxy.Count("INCR"))
}

// A dialer of the program that panics fails its call, and leaves nothing locked.
func TestADialerThatPanicsFailsItsCall(t *testing.T) {
	t.Parallel()
	client, err := New(rueidis.ClientOption{
		InitAddress: []string{drivertest.Redis(t).Addr()},
		DialCtxFn:   func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { panic("a dialer of no use") },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	require.ErrorContains(t, client.Do(t.Context(), driver.Command("PING"))[0].Err, "a dialer of no use")
	require.True(t, client.calls.TryLock(), "the call counts as one under way for ever")
	client.calls.Unlock()
}

// A call that gives up while the connection serves others leaves them alone.
func TestAMissedDeadlineOfOneIsNotThatOfAll(t *testing.T) {
	t.Parallel()
	proxy, p := faultproxy.New(t, drivertest.Redis(t).Addr()), drivertest.Prefix(t)
	client, err := Open(proxy.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	gate := faultproxy.NewGate()
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p + "slow", Nth: 1, Do: faultproxy.Hold(gate)})
	slow := make(chan driver.Reply, 1)
	go func() { slow <- client.Do(t.Context(), driver.Command("INCR", p+"slow"))[0] }()
	<-gate.Arrived()

	client.link.conn.Load().last.Store(math.MaxInt64) // as if bytes arrived all the time
	results, how, _ := client.exec(time.Now().Add(500*time.Millisecond), []rueidis.Completed{client.redis.B().Ping().Build()})
	require.Equal(t, gaveUp, how)
	require.Error(t, results[0].Error())
	gate.Open()
	require.Equal(t, driver.Reply{Value: int64(1)}, <-slow)
	require.Equal(t, 1, proxy.Accepted())
}

// A server that has become a replica answers READONLY; the name that was dialled may be another server's by
// now.
func TestAReplicaIsDialledAnew(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
	client, err := Open(proxy.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "INCR", Do: faultproxy.Fail("READONLY You can't write against a read only replica.")})
	require.Equal(t, []driver.Reply{{Value: "PONG"}}, client.Do(t.Context(), driver.Command("PING")))
	refused := func() int {
		replies := client.Do(t.Context(), driver.Command("INCR", "a"), driver.Command("ECHO", "read"))
		require.Equal(t, driver.NewServerError("READONLY You can't write against a read only replica."), replies[0].Err)
		require.Equal(t, driver.Reply{Value: "read"}, replies[1], "answers after it are kept")
		return proxy.Accepted()
	}
	started := time.Now()
	require.Equal(t, []int{1, 2}, []int{refused(), refused()}, "at once")
	drivertest.Eventually(t, func() bool { return refused() == 3 }, 10*time.Second, 10*time.Millisecond, "while it is a replica")
	require.Greater(t, time.Since(started), time.Second, "each second, not each call")
}

// Most often REDIS_URL is not set, or is the address alone.
func TestTheErrorForAWrongURLSaysWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := Open("")
	require.ErrorContains(t, err, "the Redis URL is empty: give one such as redis://")
	_, err = Open("127.0.0.1:6379")
	require.ErrorContains(t, err, "it should look like redis://host:port/db")
}
