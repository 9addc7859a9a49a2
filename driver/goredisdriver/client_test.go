package goredisdriver

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// userClient is a client as a user makes it: three retries, RESP3.
func userClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func TestAUsersOwnClient(t *testing.T) {
	t.Parallel()
	increment := driver.NewScript("increment", "#!lua\nreturn redis.call('INCR', KEYS[1])")

	t.Run("re-sends_nothing_of_ours", func(t *testing.T) {
		t.Parallel()
		proxy, p := faultproxy.New(t, drivertest.Redis(t).Addr()), drivertest.Prefix(t)
		user := userClient(t, proxy.Addr())
		client := New(user)
		run := driver.Call{Script: increment, Keys: []string{p + "n"}}
		require.NoError(t, client.Do(t.Context(), run)[0].Err)

		proxy.Add(faultproxy.DropReply(p + "n"))
		require.False(t, driver.Certain(client.Do(t.Context(), run)[0].Err))
		require.Equal(t, "2", user.Get(t.Context(), p+"n").Val())

		proxy.Add(faultproxy.DropReply(p + "m"))
		replies := client.Do(t.Context(), driver.Command("INCR", p+"l"), driver.Command("INCR", p+"m"))
		require.Equal(t, driver.Reply{Value: int64(1)}, replies[0])
		require.False(t, driver.Certain(replies[1].Err))
		require.Equal(t, "1", user.Get(t.Context(), p+"l").Val())
		require.Equal(t, "1", user.Get(t.Context(), p+"m").Val())
	})

	t.Run("would_have_been_re-sent_by_go-redis", func(t *testing.T) {
		t.Parallel() // the trap that the test above is about
		proxy, p := faultproxy.New(t, drivertest.Redis(t).Addr()), drivertest.Prefix(t)
		user := userClient(t, proxy.Addr())
		proxy.Add(faultproxy.DropReply(p + "n"))
		require.Equal(t, int64(2), user.Incr(t.Context(), p+"n").Val())
	})

	t.Run("has_answers_of_the_same_shape_in_RESP3", func(t *testing.T) {
		t.Parallel()
		p := drivertest.Prefix(t)
		client := New(userClient(t, drivertest.Redis(t).Addr()))
		shapes := driver.NewScript("shapes", "#!lua\nredis.setresp(3)\n"+
			"return {redis.call('HGETALL', KEYS[1]), {double = 1.5}, true, false, {big_number = '12345678901234567890'}}")
		replies := client.Do(t.Context(),
			driver.Command("HSET", p+"h", "z", "1", "a", "2"),
			driver.Command("HGETALL", p+"h"),
			driver.Command("ZADD", p+"s", "1763703683.123456", "m"),
			driver.Command("ZSCORE", p+"s", "m"),
			driver.Command("HSET", p+"one", "z", "1"),
			driver.Call{Script: shapes, Keys: []string{p + "one"}},
			driver.Command("GET", p+"missing"),
		)
		require.Equal(t, []driver.Reply{
			{Value: int64(2)},
			{Value: []any{"z", "1", "a", "2"}},
			{Value: int64(1)},
			{Value: "1763703683.123456"},
			{Value: int64(1)},
			{Value: []any{[]any{"z", "1"}, "1.5", int64(1), int64(0), "12345678901234567890"}},
			{Value: nil},
		}, replies)
	})

	t.Run("is_left_open", func(t *testing.T) {
		t.Parallel()
		p := drivertest.Prefix(t)
		user := userClient(t, drivertest.Redis(t).Addr())
		client := New(user)
		lane, err := client.Lane(1)
		require.NoError(t, err)
		waiter, err := lane.Waiter()
		require.NoError(t, err)
		require.NoError(t, lane.Do(t.Context(), driver.Command("LPUSH", p+"from", "job"))[0].Err)
		payload, ok, err := waiter.Wait(t.Context(), p+"from", p+"to", time.Second)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "job", payload)
		require.NoError(t, waiter.Close())
		require.NoError(t, lane.Close())
		require.NoError(t, client.Close())
		require.Equal(t, "PONG", user.Ping(t.Context()).Val())
		require.Equal(t, []driver.Reply{{Value: "PONG"}}, client.Do(t.Context(), driver.Command("PING")))
	})
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
	for i := range 3 {
		replies := client.Do(t.Context(), driver.Command("INCR", "a"), driver.Command("ECHO", "read"), driver.Command("PING"))
		require.Equal(t, driver.NewServerError("READONLY You can't write against a read only replica."), replies[0].Err)
		require.Equal(t, []driver.Reply{{Value: "read"}, {Value: "PONG"}}, replies[1:], "answers after it are kept")
		require.Equal(t, i+1, proxy.Accepted())
	}
}

// A recorder takes go-redis' log lines.
type recorder struct{ lines chan string }

func (r recorder) Printf(_ context.Context, format string, _ ...any) { r.lines <- format }

func TestAnOutageIsNotLogged(t *testing.T) {
	// Not parallel: the logger is go-redis' own, one for the process, and is put back.
	lines := make(chan string, 100)
	redis.SetLogger(recorder{lines})
	client, err := Open("redis://127.0.0.1:1")
	require.NoError(t, err)
	for range 30 {
		require.Error(t, client.Do(t.Context(), driver.Command("PING"))[0].Err)
	}
	require.NoError(t, client.Close())
	require.Empty(t, lines)
}

// When go-redis' pool is closed while a connection is in use, it logs a mistake once the reply has come.
func TestClosingWhileCallsRunIsNotLogged(t *testing.T) {
	// Not parallel: the logger is go-redis' own, one for the process.
	lines := make(chan string, 1000)
	redis.SetLogger(recorder{lines})
	url, ping := drivertest.Redis(t).URL(), driver.Command("PING")
	for range 100 {
		client, err := Open(url)
		require.NoError(t, err)
		waiter, err := client.Waiter()
		require.NoError(t, err)
		var calls sync.WaitGroup
		begun := make(chan struct{}, 5)
		until := func(do func() error) {
			calls.Go(func() {
				begun <- struct{}{}
				for do() == nil {
				}
			})
		}
		for range 4 {
			until(func() error { return client.Do(t.Context(), ping)[0].Err })
		}
		until(func() error {
			_, _, err := waiter.Wait(t.Context(), "a", "b", time.Millisecond)
			return err
		})
		for range cap(begun) {
			<-begun
		}
		require.NoError(t, client.Do(t.Context(), ping)[0].Err)
		require.NoError(t, waiter.Close())
		require.NoError(t, client.Close())
		calls.Wait()
	}
	require.Empty(t, lines)
}

// Most often REDIS_URL is not set, or is the address alone.
func TestTheErrorForAWrongURLSaysWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := Open("")
	require.ErrorContains(t, err, "the Redis URL is empty: give one such as redis://")
	_, err = Open("127.0.0.1:6379")
	require.ErrorContains(t, err, "it should look like redis://host:port/db")
}

func TestALengthThatNoRedisAnnouncesIsAnError(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"$9223372036854775806", "$9223372036854775807", "$99999999999999", "=536870913", "*9223372036854775807", "%9223372036854775807", "$99999999999999999999"} {
		_, err := new(reply).Write([]byte(line))
		require.ErrorContains(t, err, "length", line)
	}
	for _, line := range []string{"$-1", "*-1", "$0", "$536870912", "*1048576"} {
		_, err := new(reply).Write([]byte(line))
		require.NoError(t, err, line)
	}
}
