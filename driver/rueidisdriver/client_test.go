package rueidisdriver

import (
	"crypto/tls"
	"math"
	"net"
	"sync/atomic"
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

// A function of the program that panics for a new connection fails the calls that need it, and no later ones.
func TestAPanicForANewConnectionFailsItsCall(t *testing.T) {
	t.Parallel()
	addr := drivertest.Redis(t).Addr()
	for name, options := range map[string]func(fail func()) rueidis.ClientOption{
		"the dialer": func(fail func()) rueidis.ClientOption {
			return rueidis.ClientOption{DialFn: func(addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) { fail(); return d.Dial("tcp", addr) }}
		},
		"the function for credentials": func(fail func()) rueidis.ClientOption {
			return rueidis.ClientOption{AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
				fail()
				return rueidis.AuthCredentials{}, nil
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fixed atomic.Bool
			o := options(func() {
				if !fixed.Load() {
					panic("of no use")
				}
			})
			o.InitAddress = []string{addr}
			client, err := New(o)
			require.NoError(t, err)
			defer func() { require.NoError(t, client.Close()) }()
			ping := func() error {
				reply := make(chan error, 1)
				go func() { reply <- client.Do(t.Context(), driver.Command("PING"))[0].Err }()
				select {
				case err := <-reply:
					return err
				case <-time.After(20 * time.Second):
					require.FailNow(t, "the call hangs")
					return nil
				}
			}
			for range 2 {
				err := ping()
				require.ErrorContains(t, err, name+" panicked: of no use")
				require.True(t, driver.Certain(err), "nothing was sent: %v", err)
			}
			fixed.Store(true)
			require.NoError(t, ping())
			require.True(t, client.calls.TryLock(), "a call counts as under way for ever")
			client.calls.Unlock()
		})
	}
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
