package driver_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

var connectionPromises = []promise{
	{name: "nothing_is_dialled_before_the_first_use", keep: nothingIsDialled},
	{name: "concurrent_calls_get_their_own_replies", keep: manyMayCall, memory: true},
	{name: "a_lane_keeps_to_its_connections", keep: aLaneKeepsToItsConnections},
	{name: "a_silent_lane_does_not_delay_others", keep: aSilentLane},
	{name: "a_server_that_was_silent_is_dialled_anew", keep: aSilentServer},
	{name: "connections_closed_while_idle_repeat_no_call", keep: idleConnections, fake: noClientKill},
	{name: "connections_with_tls_closed_while_idle_repeat_no_call", keep: idleTLSConnections, anyKind: true, fake: "it has no TLS"},
	{name: "a_restart_is_survived", keep: aRestart, fake: noSignals},
	{name: "closing_ends_what_is_under_way", keep: closingEnds},
	{name: "a_password_is_in_no_error", keep: aPasswordIsInNoError, anyKind: true},
	{name: "a_unix_socket_works", keep: aUnixSocket, anyKind: true, fake: "it listens on TCP alone"},
	{name: "tls_works", keep: overTLS, anyKind: true, fake: "it has no TLS"},
	{name: "a_refused_password_is_certain", keep: aRefusedPassword, fake: noACL},
	{name: "a_password_file_is_read_for_each_connection", keep: aPasswordFile, fake: noACL},
	{name: "it_sends_nothing_of_its_own_that_a_tight_acl_can_deny", keep: nothingOfItsOwn, fake: noACL},
}

func nothingIsDialled(t *testing.T, w *world) {
	proxy := w.proxy(t)
	client := w.open(t, proxy.Addr())
	lane := w.lane(t, client, 2)
	w.waiter(t, client)
	w.waiter(t, lane)
	require.Zero(t, proxy.Accepted())
	_, err := client.Lane(0)
	require.Error(t, err)
	require.Equal(t, "PONG", get(t, lane, "PING"))
	require.Equal(t, 1, proxy.Accepted())
}

func manyMayCall(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	script := counting(p, "many")
	client.Do(t.Context(), driver.Call{Script: script, Keys: []string{p + "warm"}}) // or it would run after the rest
	const callers, times = 50, 20
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			own := p + strconv.Itoa(i)
			for n := range times {
				replies := client.Do(t.Context(),
					driver.Call{Script: script, Keys: []string{own}}, driver.Command("INCR", p+"all"), driver.Command("GET", own))
				if replies[0].Value != int64(n+1) || replies[1].Err != nil || replies[2].Value != strconv.Itoa(n+1) {
					t.Errorf("caller %d, call %d: %v", i, n, replies)
					return
				}
			}
		})
	}
	running.Wait()
	require.Equal(t, strconv.Itoa(callers*times), get(t, client, "GET", p+"all"))
}

func aLaneKeepsToItsConnections(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	lane := w.lane(t, w.open(t, proxy.Addr()), 2)
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p, Do: faultproxy.Delay(5 * time.Millisecond)})
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() {
			lane.Do(within(t, patience), driver.Command("INCR", p+"n"))
			lane.Do(within(t, patience), driver.Command("INCR", p+"n"), driver.Command("INCR", p+"n"))
		})
	}
	running.Wait()
	require.Equal(t, "60", get(t, lane, "GET", p+"n"))
	require.LessOrEqual(t, proxy.Accepted(), 2)
}

func aSilentLane(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	client := w.open(t, proxy.Addr())
	silent, other := w.lane(t, client, 1), w.lane(t, client, 1)
	gate := faultproxy.NewGate()
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p + "slow", Nth: 1, Do: faultproxy.Hold(gate)})
	slow := make(chan []driver.Reply, 1)
	go func() { slow <- silent.Do(context.WithoutCancel(t.Context()), driver.Command("INCR", p+"slow")) }()
	<-gate.Arrived()
	for _, free := range []driver.Client{client, other} {
		replies := free.Do(within(t, patience), driver.Command("PING"), driver.Command("PING"))
		require.Equal(t, []driver.Reply{{Value: "PONG"}, {Value: "PONG"}}, replies)
	}
	gate.Open()
	require.Equal(t, []driver.Reply{{Value: int64(1)}}, <-slow)
}

// A server that was frozen may have been replaced meanwhile, under the same name.
func aSilentServer(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	lane := w.lane(t, w.open(t, proxy.Addr()), 1)
	require.Equal(t, []any{"PONG", "PONG"}, []any{get(t, lane, "PING"), get(t, lane, "PING")})
	gate := faultproxy.NewGate()
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p + "slow", Nth: 1, Do: faultproxy.Hold(gate)})
	go func() {
		<-gate.Arrived()
		time.Sleep(driver.Silence)
		gate.Open()
	}()
	before := proxy.Accepted() // 1, unless the machine is so busy that a PING took as long
	require.Equal(t, int64(1), get(t, lane, "INCR", p+"slow"))
	require.Equal(t, []any{"PONG", "PONG"}, []any{get(t, lane, "PING"), get(t, lane, "PING")})
	require.Greater(t, proxy.Accepted(), before)
}

func idleConnections(t *testing.T, w *world) {
	server := drivertest.Start(t)
	closedWhileIdle(t, server, w.open(t, server.Addr()))
}

func idleTLSConnections(t *testing.T, w *world) {
	authority := drivertest.NewAuthority(t)
	cert, key := authority.Issue(t, nil)
	server, addr := drivertest.StartTLS(t, authority, cert, key)
	closedWhileIdle(t, server, w.openURL(t, "rediss://"+addr+"?ca="+authority.File))
}

func closedWhileIdle(t *testing.T, server *drivertest.Server, client driver.Client) {
	t.Helper()
	script := counting("", "idle")
	run := driver.Call{Script: script, Keys: []string{"n"}}
	done, doubtful := 0, 0
	count := func(reply driver.Reply) bool {
		switch {
		case reply.Err == nil:
			done++
		case !driver.Certain(reply.Err):
			doubtful++
		}
		return reply.Err == nil
	}
	closeIdle := func() {
		require.True(t, count(client.Do(t.Context(), run)[0]))
		_, err := server.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal")
		require.NoError(t, err)
	}
	for range 20 {
		closeIdle()
		if !count(client.Do(t.Context(), run)[0]) {
			require.True(t, count(client.Do(t.Context(), run)[0]), "the next one works")
		}
	}
	value, err := server.Do(t.Context(), "GET", "n")
	require.NoError(t, err)
	n, err := strconv.Atoi(value.(string))
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, done)
	require.LessOrEqual(t, n, done+doubtful)
	t.Logf("%d done, %d doubtful", done, doubtful)

	// Once a client can have noticed, no call is lost.
	pause := time.Millisecond
	drivertest.Eventually(t, func() bool {
		closeIdle()
		time.Sleep(pause)
		pause *= 2
		return client.Do(t.Context(), run)[0].Err == nil
	}, patience, time.Millisecond, "each call on a connection that was closed is doubtful")
}

func aRestart(t *testing.T, w *world) {
	server := drivertest.Start(t)
	client := w.open(t, server.Addr())
	run := driver.Call{Script: counting("", "restarted"), Keys: []string{"n"}}
	require.NoError(t, client.Do(t.Context(), run, run)[1].Err)
	server.Kill()
	for range 30 {
		require.Error(t, client.Do(t.Context(), run, run)[0].Err)
	}
	server.Restart(t)
	if client.Do(t.Context(), driver.Command("PING"))[0].Err != nil { // it may have just noticed
		require.Equal(t, "PONG", get(t, client, "PING"), "without a pause")
	}
	require.Equal(t, []driver.Reply{{Value: int64(1)}, {Value: int64(2)}}, client.Do(t.Context(), run, run))
}

func closingEnds(t *testing.T, w *world) {
	proxy, p := w.proxy(t), prefix(t)
	lane := w.lane(t, w.open(t, proxy.Addr()), 1)
	gate := faultproxy.NewGate()
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p + "slow", Nth: 1, Do: faultproxy.Hold(gate)})
	slow := make(chan []driver.Reply, 1)
	go func() { slow <- lane.Do(context.WithoutCancel(t.Context()), driver.Command("INCR", p+"slow")) }()
	<-gate.Arrived()
	require.NoError(t, lane.Close())
	requireUncertain(t, (<-slow)[0].Err) // without a close it would have none, for the reply never comes
	require.NoError(t, lane.Close())
	requireNotSent(t, lane.Do(t.Context(), driver.Command("PING"))[0].Err)
	drivertest.Eventually(t, func() bool { return proxy.Open() == 0 }, patience, time.Millisecond)
}

// canary is a password that must be seen nowhere.
const canary = "S3cr3tCanary"

func aPasswordIsInNoError(t *testing.T, w *world) {
	for _, url := range []string{
		"redis://:" + canary, "redis://user:" + canary, "redis://user:" + canary + "@host:port", "redis://user:" + canary + "@host/" + canary,
		"redis://user:" + canary + "/@host:6379", "redis://user:%zz" + canary + "@host", canary, canary + "://host", "://" + canary,
		"redis://user:" + canary + "@host/0?" + canary + "=" + canary, "redis://[" + canary, "unix://user:" + canary + "@",
	} {
		client, err := w.maker(url)
		if err == nil {
			require.NoError(t, client.Close())
			continue
		}
		require.NotContains(t, err.Error(), canary)
		require.NotContains(t, strings.ToLower(err.Error()), strings.ToLower(canary))
	}
	client, err := w.maker("redis://user:" + canary + "@127.0.0.1:1/0")
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	err = client.Do(t.Context(), driver.Command("PING"))[0].Err
	requireNotSent(t, err)
	require.NotContains(t, err.Error(), canary)
	_, _, err = w.waiter(t, client).Wait(t.Context(), "a", "b", time.Second)
	requireNotSent(t, err)
	require.NotContains(t, err.Error(), canary)
}

func aUnixSocket(t *testing.T, w *world) {
	socket := filepath.Join(t.TempDir(), "s")
	drivertest.Start(t, "--unixsocket", socket)
	client := w.openURL(t, "unix://"+socket+"?db=3")
	require.Equal(t, "OK", get(t, client, "SET", "a", "1"))
	waitInVain(t, w.waiter(t, w.lane(t, client, 1)), "from", "to", 10*time.Millisecond)
}

func aRefusedPassword(t *testing.T, w *world) {
	server := drivertest.Start(t, "--requirepass", "right")
	for user, code := range map[string]string{":" + canary + "@": "WRONGPASS", "unknown:" + canary + "@": "WRONGPASS", "": "NOAUTH"} {
		client, err := w.maker(w.kind.url(t, user+server.Addr()))
		require.NoError(t, err)
		replies := client.Do(t.Context(), driver.Command("PING"), driver.Command("PING"))
		_, _, waitErr := w.waiter(t, client).Wait(t.Context(), "a", "b", time.Second)
		for _, err := range []error{replies[0].Err, replies[1].Err, waitErr} {
			var refused *driver.ServerError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, code, refused.Code)
			require.True(t, driver.Certain(err))
			require.True(t, driver.Outage(err))
			require.NotEmpty(t, driver.Denial(err))
			require.NotContains(t, err.Error(), canary)
		}
		// Without authentication the server refuses a command with so many arguments by another error.
		many := client.Do(t.Context(), driver.Command("MGET", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"))
		require.NotEmpty(t, driver.Denial(many[0].Err), "%v", many[0].Err)
		require.NoError(t, client.Close())
	}
	client, err := w.maker(w.kind.url(t, ":right@"+server.Addr()))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	require.Equal(t, "OK", get(t, client, "SET", "a", "1"))
}

func aPasswordFile(t *testing.T, w *world) {
	server, file := drivertest.Start(t, "--requirepass", "one"), filepath.Join(t.TempDir(), "password")
	write := func(password string) { require.NoError(t, os.WriteFile(file, []byte(password+"\n"), 0o600)) }
	write("one")
	url := w.kind.url(t, server.Addr())
	joint := "?"
	if strings.Contains(url, "?") {
		joint = "&"
	}
	client := w.openURL(t, url+joint+"password_file="+file)
	require.Equal(t, "PONG", get(t, client, "PING"))
	require.Equal(t, "OK", get(t, client, "CONFIG", "SET", "requirepass", "two"))
	require.Equal(t, "PONG", get(t, client, "PING"), "the connection that exists keeps its password")
	lane := w.lane(t, client, 1)
	err := lane.Do(t.Context(), driver.Command("PING"))[0].Err
	requireNotSent(t, err)
	require.NotEmpty(t, driver.Denial(err), "%v", err)
	require.True(t, driver.Outage(err))
	write("two")
	require.Equal(t, "PONG", get(t, lane, "PING"))
	waitInVain(t, w.waiter(t, client), "from", "to", time.Millisecond)
}

// nothingOfItsOwn allows a user only what the test asks for, and the number of a connection, without which
// nothing could release its wait. An adapter also greets and authenticates, which no ACL denies. The proxy
// sees what else it sends, such as the name of its library: a newer server may know a command that this one
// does not.
func nothingOfItsOwn(t *testing.T, w *world) {
	server := drivertest.Start(t)
	words := []string{"ACL", "SETUSER", "tight", "on", ">pass", "~*", "&news", "-@all", "+client|id", "+client|unblock"}
	expected := []string{"HELLO", "AUTH", "CLIENT"}
	for _, command := range []string{"GET", "EVAL", "EVALSHA", "INCR", "BLMOVE", "SUBSCRIBE"} {
		words, expected = append(words, "+"+command), append(expected, command)
	}
	_, err := server.Do(t.Context(), words...)
	require.NoError(t, err)
	proxy := faultproxy.New(t, server.Addr())
	client := w.open(t, "tight:pass@"+proxy.Addr())
	for _, c := range []driver.Client{client, w.lane(t, client, 2)} {
		require.Nil(t, get(t, c, "GET", "nothing"))
		for range 2 { // the script is unknown, then known
			require.NoError(t, c.Do(t.Context(), driver.Call{Script: counting("", "own"), Keys: []string{"own"}}, driver.Command("GET", "own"))[0].Err)
		}
	}
	l := listen(t, client, "news")
	l.on(t)
	require.Zero(t, proxy.Count("CLIENT"))
	waiter := w.waiter(t, client)
	require.NoError(t, released(t, waiter, wait(t, waiter, "from", "to", 10*time.Second)).err)
	l.end()
	require.ErrorIs(t, l.over(t), context.Canceled)

	require.Subset(t, expected, slices.Collect(maps.Keys(proxy.Counts())))
	denied, err := server.Do(t.Context(), "ACL", "LOG")
	require.NoError(t, err)
	require.Empty(t, denied)
}
