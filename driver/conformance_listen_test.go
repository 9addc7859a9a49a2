package driver_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
)

var listenPromises = []promise{
	{name: "a_listen_receives_what_is_published_after_it_subscribed", keep: aListenReceives, memory: true},
	{name: "a_listen_receives_from_several_channels", keep: aListenOnSeveral, memory: true},
	{name: "what_announces_a_script_comes_after_it_though_the_script_had_to_be_loaded", keep: anAnnouncement},
	{name: "a_listen_ends_with_its_context_and_closes_its_connection", keep: aListenEnds},
	{name: "a_broken_connection_ends_a_listen", keep: aBrokenListen, fake: noClientKill},
	{name: "a_silent_server_ends_a_listen", keep: aSilentListen, anyKind: true, fake: noSignals, rests: true},
	{name: "a_replaced_server_that_another_connection_finds_ends_a_listen", keep: aMisledListen, fake: noReplica},
	{name: "a_quiet_channel_ends_no_listen", keep: aQuietListen, anyKind: true, memory: true, rests: true},
	{name: "a_listen_without_probes_outlasts_a_silent_server", keep: anUnprobedListen, fake: noSignals, rests: true},
	{name: "a_denied_channel_is_an_error_reply", keep: aDeniedListen, fake: noACL},
}

// A listening is a Listen under way.
type listening struct {
	subscribed chan struct{}
	messages   chan string
	ended      chan error
	end        context.CancelFunc
}

// listen starts a Listen that ends with the test at the latest.
func listen(t *testing.T, client driver.Client, channels ...string) *listening {
	t.Helper()
	return listenProbing(t, client, driver.ListenProbe, channels...)
}

func listenProbing(t *testing.T, client driver.Client, probe time.Duration, channels ...string) *listening {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &listening{make(chan struct{}, 1), make(chan string, 1000), make(chan error, 1), cancel}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		l.ended <- client.Listen(ctx, channels, probe, func() { l.subscribed <- struct{}{} }, func(m string) { l.messages <- m })
	}()
	t.Cleanup(func() {
		cancel()
		<-gone
	})
	return l
}

// on waits for the subscription.
func (l *listening) on(t *testing.T) {
	t.Helper()
	select {
	case <-l.subscribed:
	case err := <-l.ended:
		t.Fatal("not subscribed: ", err)
	case <-time.After(patience):
		t.Fatal("not subscribed")
	}
}

// over returns the error with which it ends.
func (l *listening) over(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.ended:
		return err
	case <-time.After(patience):
		t.Fatal("the Listen has not ended")
		return nil
	}
}

func aListenReceives(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	get(t, client, "PUBLISH", p+"news", "too early")
	l := listen(t, client, p+"news")
	l.on(t)
	get(t, client, "PUBLISH", p+"other", "elsewhere")
	large := strings.Repeat("x", 100_000)
	want := []string{"", "two\nlines\r\n", large}
	for n := range 100 {
		want = append(want, strconv.Itoa(n))
	}
	for _, message := range want {
		require.Equal(t, int64(1), get(t, client, "PUBLISH", p+"news", message))
	}
	for _, message := range want {
		select {
		case got := <-l.messages:
			require.Equal(t, message, got)
		case <-time.After(patience):
			t.Fatal("a message is missing")
		}
	}
	l.end()
	require.ErrorIs(t, l.over(t), context.Canceled)
}

func aListenOnSeveral(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	l := listen(t, client, p+"news", p+"weather")
	l.on(t)
	for _, channel := range []string{"weather", "news", "weather"} {
		require.Equal(t, int64(1), get(t, client, "PUBLISH", p+channel, channel))
		require.Equal(t, channel, <-l.messages)
	}
	l.end()
	require.ErrorIs(t, l.over(t), context.Canceled)
	require.Empty(t, l.subscribed, "it says so once")
}

func aListenEnds(t *testing.T, w *world) {
	proxy := w.proxy(t)
	client := w.open(t, proxy.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, client.Listen(ctx, []string{"none"}, driver.ListenProbe, func() {}, func(string) {}))
	l := listen(t, client, prefix(t))
	l.on(t)
	require.Equal(t, 1, proxy.Open())
	l.end()
	require.ErrorIs(t, l.over(t), context.Canceled)
	drivertest.Eventually(t, func() bool { return proxy.Open() == 0 }, patience, time.Millisecond)

	// Nor does it outlive its context while the server does not even answer a new connection.
	server := drivertest.Start(t)
	client = w.open(t, server.Addr())
	server.Stop()
	defer server.Cont()
	var took time.Duration
	for range 5 { // a busy machine may delay some of them
		l = listen(t, client, "none")
		select {
		case err := <-l.ended:
			t.Fatal("it ended: ", err)
		case <-time.After(100 * time.Millisecond): // it is dialling
		}
		began := time.Now()
		l.end()
		require.ErrorIs(t, l.over(t), context.Canceled)
		if took = time.Since(began); took < driver.DialTimeout/2 {
			return
		}
	}
	t.Fatal("it does not end before the dial gives up, but after ", took)
}

func aBrokenListen(t *testing.T, w *world) {
	server := drivertest.Start(t)
	l := listen(t, w.open(t, server.Addr()), "news")
	l.on(t)
	_, err := server.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub")
	require.NoError(t, err)
	require.True(t, driver.Outage(l.over(t)))
}

func aSilentListen(t *testing.T, w *world) {
	server := drivertest.Start(t)
	l := listen(t, w.open(t, server.Addr()), "news")
	l.on(t)
	server.Stop()
	defer server.Cont()
	require.True(t, driver.Outage(l.over(t)))
}

// A server becomes a replica while a Listen is at it. The Listen ends when a lane has learned that, and the next one
// stands until another connection learns that anew.
func aMisledListen(t *testing.T, w *world) {
	server := drivertest.Start(t)
	client := w.open(t, server.Addr())
	lane := w.lane(t, client, 1)
	first := listen(t, client, "news")
	first.on(t)
	write := func() error { return lane.Do(t.Context(), driver.Command("SET", "k", "v"))[0].Err }
	require.NoError(t, write())
	require.Error(t, lane.Do(t.Context(), driver.Command("INCR", "k"))[0].Err, "any other refusal")
	host, port, err := net.SplitHostPort(drivertest.FreeAddr(t))
	require.NoError(t, err)
	_, err = server.Do(t.Context(), "REPLICAOF", host, port)
	require.NoError(t, err)
	select {
	case err := <-first.ended:
		t.Fatal("it ended, though nothing has shown that the server was replaced: ", err)
	case <-time.After(100 * time.Millisecond):
	}
	require.ErrorContains(t, write(), "READONLY")
	err = first.over(t)
	require.True(t, driver.Outage(err), err)
	second := listen(t, client, "news")
	second.on(t)
	second.end()
	require.ErrorIs(t, second.over(t), context.Canceled)
}

func aQuietListen(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	l := listen(t, client, p)
	l.on(t)
	select {
	case err := <-l.ended:
		t.Fatal("it ended: ", err)
	case <-time.After(2*driver.ListenProbe + time.Second):
	}
	get(t, client, "PUBLISH", p, "at last")
	require.Equal(t, "at last", <-l.messages)
}

// It stands through a silence of its server of twice the usual probe: nothing but its own connection ends it.
func anUnprobedListen(t *testing.T, w *world) {
	server := drivertest.Start(t)
	client := w.open(t, server.Addr())
	l := listenProbing(t, client, 0, "news")
	l.on(t)
	server.Stop()
	select {
	case err := <-l.ended:
		server.Cont()
		t.Fatal("it ended: ", err)
	case <-time.After(2*driver.ListenProbe + time.Second):
	}
	server.Cont()
	get(t, client, "PUBLISH", "news", "at last")
	require.Equal(t, "at last", <-l.messages)
	_, err := server.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub")
	require.NoError(t, err)
	require.True(t, driver.Outage(l.over(t)))
}

func aDeniedListen(t *testing.T, w *world) {
	server := drivertest.Start(t)
	_, err := server.Do(t.Context(), "ACL", "SETUSER", "tight", "on", ">secret", "~*", "+@all", "resetchannels")
	require.NoError(t, err)
	err = listen(t, w.open(t, "tight:secret@"+server.Addr()), "news").over(t)
	var refused *driver.ServerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "NOPERM", refused.Code)
}

// A server that has lost its scripts runs them after the commands of their pipeline.
func anAnnouncement(t *testing.T, w *world) {
	client, p := w.open(t, w.addr(t)), prefix(t)
	client.Do(t.Context(), driver.Call{Script: counting(p, "first"), Keys: []string{p + "n"}}) // it shows whether the server knows flags
	l := listen(t, client, p+"ended")
	l.on(t)
	write := driver.Call{Script: driver.NewScript("write", "#!lua\n-- "+p+"\nreturn redis.call('SET', KEYS[1], ARGV[1])"), Keys: []string{p + "k"}, Args: []string{"done"}}
	announce := driver.Command("PUBLISH", p+"ended", "it ended")
	announce.Announces = true
	for _, reply := range client.Do(t.Context(), write, announce) {
		require.NoError(t, reply.Err)
	}
	for range 2 {
		select {
		case <-l.messages:
		case <-time.After(patience):
			t.Fatal("it was announced only before it happened")
		}
	}
	require.Equal(t, "done", get(t, client, "GET", p+"k"))
	client.Do(t.Context(), write, announce)
	require.Equal(t, "it ended", <-l.messages)
	require.Empty(t, l.messages, "what a known script did is announced once")
}
