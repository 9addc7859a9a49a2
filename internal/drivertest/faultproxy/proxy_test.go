package faultproxy_test

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/proto"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/internal/drivertest/resp"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// A talker is one connection through the proxy.
type talker struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, proxy *faultproxy.Proxy) *talker {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &talker{t: t, conn: conn, in: bufio.NewReader(conn)}
}

func (k *talker) say(commands ...[]string) {
	k.t.Helper()
	var all bytes.Buffer
	for _, words := range commands {
		require.NoError(k.t, proto.Write(&all, words))
	}
	_, err := k.conn.Write(all.Bytes())
	require.NoError(k.t, err)
}

// hear returns the next reply, which may be an error.
func (k *talker) hear() any {
	k.t.Helper()
	require.NoError(k.t, k.conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	value, err := resp.Read(k.in)
	var refused *driver.ServerError
	if errors.As(err, &refused) {
		return err
	}
	require.NoError(k.t, err)
	return value
}

// requireSilence holds that nothing comes for a while, but the connection is open.
func (k *talker) requireSilence() {
	k.t.Helper()
	require.NoError(k.t, k.conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := resp.Read(k.in)
	require.ErrorIs(k.t, err, os.ErrDeadlineExceeded)
}

func (k *talker) requireClosed() {
	k.t.Helper()
	require.NoError(k.t, k.conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err := resp.Read(k.in)
	require.Error(k.t, err)
	require.NotErrorIs(k.t, err, os.ErrDeadlineExceeded)
}

func TestProxy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *faultproxy.Proxy, string){
		"passes_everything_unchanged":            passes,
		"loses_a_reply_after_execution":          losesAReply,
		"loses_a_request_before_execution":       losesARequest,
		"counts_matches":                         countsMatches,
		"forges_an_error_in_its_turn":            forges,
		"replaces_a_reply_with_an_error":         replaces,
		"holds_until_the_gate_opens":             holds,
		"delays":                                 delays,
		"passes_nothing_into_a_black_hole":       blackholes,
		"knows_pushes_from_replies":              pushes,
		"ends_with_its_connections":              ends,
		"ends_a_held_connection_when_one_leaves": endsHeld,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, faultproxy.New(t, drivertest.Redis(t).Addr()), drivertest.Prefix(t))
		})
	}
}

func passes(t *testing.T, proxy *faultproxy.Proxy, p string) {
	k := dial(t, proxy)
	k.say([]string{"SET", p + "a", "x\r\ny"}, []string{"GET", p + "a"}, []string{"GET", p + "b"}, []string{"MGET", p + "a", p + "b"}, []string{"NOSUCH"})
	require.Equal(t, "OK", k.hear())
	require.Equal(t, "x\r\ny", k.hear())
	require.Nil(t, k.hear())
	require.Equal(t, []any{"x\r\ny", nil}, k.hear())
	require.Error(t, k.hear().(error))
	require.Equal(t, map[string]int{"SET": 1, "GET": 2, "MGET": 1, "NOSUCH": 1}, proxy.Counts())
}

func losesAReply(t *testing.T, proxy *faultproxy.Proxy, p string) {
	proxy.Add(faultproxy.DropReply(p + "b"))
	k := dial(t, proxy)
	k.say([]string{"INCR", p + "a"}, []string{"INCR", p + "b"}, []string{"INCR", p + "c"})
	require.Equal(t, int64(1), k.hear())
	k.requireClosed()
	k = dial(t, proxy)
	k.say([]string{"GET", p + "b"})
	require.Equal(t, "1", k.hear())
}

func losesARequest(t *testing.T, proxy *faultproxy.Proxy, p string) {
	proxy.Add(faultproxy.DropRequest(p + "a"))
	k := dial(t, proxy)
	k.say([]string{"INCR", p + "a"})
	k.requireClosed()
	k = dial(t, proxy)
	k.say([]string{"GET", p + "a"})
	require.Nil(t, k.hear())
	require.Equal(t, 1, proxy.Count("INCR"))
}

func countsMatches(t *testing.T, proxy *faultproxy.Proxy, p string) {
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: p, Nth: 3, Do: faultproxy.Fail("MINE third")})
	k := dial(t, proxy)
	for i, want := range []any{int64(1), int64(2), nil, int64(3)} {
		k.say([]string{"INCR", p + "n"})
		heard := k.hear()
		if want == nil {
			require.EqualError(t, heard.(error), "MINE third", i)
		} else {
			require.Equal(t, want, heard)
		}
	}
	proxy.Clear()
}

func forges(t *testing.T, proxy *faultproxy.Proxy, p string) {
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: p + "b", Do: faultproxy.Fail("LOADING not yet")})
	k := dial(t, proxy)
	k.say([]string{"INCR", p + "a"}, []string{"INCR", p + "b"}, []string{"INCR", p + "b"}, []string{"INCR", p + "c"})
	require.Equal(t, int64(1), k.hear())
	require.EqualError(t, k.hear().(error), "LOADING not yet")
	require.EqualError(t, k.hear().(error), "LOADING not yet")
	require.Equal(t, int64(1), k.hear())
	proxy.Clear()
	k.say([]string{"GET", p + "b"})
	require.Nil(t, k.hear(), "the server was not asked")
}

func replaces(t *testing.T, proxy *faultproxy.Proxy, p string) {
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "INCR", Do: faultproxy.Fail("OOM no room")})
	k := dial(t, proxy)
	k.say([]string{"INCR", p + "a"}, []string{"GET", p + "a"})
	require.EqualError(t, k.hear().(error), "OOM no room")
	require.Equal(t, "1", k.hear())
}

func holds(t *testing.T, proxy *faultproxy.Proxy, p string) {
	gate := faultproxy.NewGate()
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: p + "a", Nth: 1, Do: faultproxy.Hold(gate)})
	k, other := dial(t, proxy), dial(t, proxy)
	k.say([]string{"INCR", p + "a"})
	<-gate.Arrived()
	other.say([]string{"GET", p + "a"})
	require.Nil(t, other.hear(), "it has not reached the server")
	gate.Open()
	gate.Open()
	require.Equal(t, int64(1), k.hear())
}

func delays(t *testing.T, proxy *faultproxy.Proxy, p string) {
	const d = 60 * time.Millisecond
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p, Do: faultproxy.Delay(d)})
	k := dial(t, proxy)
	start := time.Now()
	k.say([]string{"INCR", p + "a"})
	require.Equal(t, int64(1), k.hear())
	require.GreaterOrEqual(t, time.Since(start), d)
}

func blackholes(t *testing.T, proxy *faultproxy.Proxy, p string) {
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p + "a", Nth: 1, Do: faultproxy.Blackhole()})
	k := dial(t, proxy)
	k.say([]string{"INCR", p + "a"})
	k.requireSilence()
	k.say([]string{"INCR", p + "a"})
	k.requireSilence()
	other := dial(t, proxy)
	other.say([]string{"GET", p + "a"})
	require.Equal(t, "1", other.hear(), "the first was executed, the second never arrived")
}

func pushes(t *testing.T, proxy *faultproxy.Proxy, p string) {
	k, other := dial(t, proxy), dial(t, proxy)
	k.say([]string{"HELLO", "3"}, []string{"CLIENT", "TRACKING", "ON"}, []string{"GET", p + "a"})
	require.Contains(t, k.hear(), "proto")
	require.Equal(t, "OK", k.hear())
	require.Nil(t, k.hear())
	other.say([]string{"SET", p + "a", "1"})
	require.Equal(t, "OK", other.hear())
	require.Equal(t, []any{"invalidate", []any{p + "a"}}, k.hear(), "it has no request")
	k.say([]string{"HSET", p + "h", "f", "1"}, []string{"HGETALL", p + "h"})
	require.Equal(t, int64(1), k.hear())
	require.Equal(t, []any{"f", "1"}, k.hear())

	k = dial(t, proxy) // RESP2 has no type for pushes
	k.say([]string{"SUBSCRIBE", p + "news", p + "weather"})
	require.Equal(t, []any{"subscribe", p + "news", int64(1)}, k.hear())
	require.Equal(t, []any{"subscribe", p + "weather", int64(2)}, k.hear())
	other.say([]string{"PUBLISH", p + "weather", "rain"})
	require.Equal(t, int64(1), other.hear())
	require.Equal(t, []any{"message", p + "weather", "rain"}, k.hear())
}

func ends(t *testing.T, proxy *faultproxy.Proxy, _ string) {
	k := dial(t, proxy)
	k.say([]string{"PING"})
	require.Equal(t, "PONG", k.hear())
	require.Equal(t, 1, proxy.Open())
	proxy.CloseConns()
	k.requireClosed()
	k = dial(t, proxy)
	k.say([]string{"PING"})
	require.Equal(t, "PONG", k.hear())
	require.Equal(t, 2, proxy.Accepted())
	proxy.Close()
	k.requireClosed()
	_, err := net.Dial("tcp", proxy.Addr())
	require.Error(t, err)
	proxy.Close()
}

func endsHeld(t *testing.T, proxy *faultproxy.Proxy, p string) {
	gate := faultproxy.NewGate()
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: p, Nth: 1, Do: faultproxy.Hold(gate)})
	k := dial(t, proxy)
	k.say([]string{"INCR", p + "a"})
	<-gate.Arrived()
	require.NoError(t, k.conn.Close())
	require.Eventually(t, func() bool { return proxy.Open() == 0 }, 10*time.Second, time.Millisecond)
}
