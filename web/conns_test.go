package web

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeConns is a listener of connections that tests make.
type fakeConns chan net.Conn

func (f fakeConns) Accept() (net.Conn, error) {
	conn, open := <-f
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (f fakeConns) Close() error   { close(f); return nil }
func (f fakeConns) Addr() net.Addr { return nil }

// A fakeConn has an address, and ended is closed with it.
type fakeConn struct {
	net.Conn
	from  string
	ended chan struct{}
}

func (c fakeConn) RemoteAddr() net.Addr {
	at, _ := net.ResolveTCPAddr("tcp", c.from)
	return at
}

func (c fakeConn) Close() error { close(c.ended); return nil }

func (c fakeConn) open() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// connsOf returns a limiter, and a function that opens a connection and waits until it is accepted.
func connsOf(t *testing.T, most, maxOfOne int) (*limiter, func(from string) (fakeConn, *limited)) {
	t.Helper()
	listener := make(fakeConns, 1)
	l := limit(listener, most, maxOfOne)
	return l, func(from string) (fakeConn, *limited) {
		conn := fakeConn{from: from, ended: make(chan struct{})}
		listener <- conn
		accepted, err := l.Accept()
		require.NoError(t, err)
		return conn, accepted.(*limited)
	}
}

func TestTheLongestIdleConnectionGivesWay(t *testing.T) {
	t.Parallel()
	_, open := connsOf(t, 3, 3)
	first, _ := open("192.0.2.1:1")
	second, held := open("192.0.2.2:1")
	third, _ := open("192.0.2.3:1")
	require.True(t, held.hold())
	open("192.0.2.4:1")
	require.False(t, first.open())
	open("192.0.2.5:1")
	require.True(t, second.open(), "a request is being served")
	require.False(t, third.open())
	held.release()
	open("192.0.2.6:1")
	require.True(t, second.open(), "it has been idle only since the end of its request")
}

func TestOneAddressHasABoundOfItsOwn(t *testing.T) {
	t.Parallel()
	l, open := connsOf(t, 4, 2)
	other, _ := open("198.51.100.1:1")
	first, _ := open("[2001:db8::1]:1")
	_, second := open("[2001:db8::2]:2")
	open("[2001:db8::3]:3")
	require.False(t, first.open(), "one client has all addresses of its network")
	require.True(t, other.open())
	require.True(t, second.hold())
	_, fourth := open("[2001:db8::4]:4")
	require.True(t, fourth.hold())
	require.Nil(t, l.admit(fakeConn{from: "[2001:db8::5]:5", ended: make(chan struct{})}), "all of its connections serve requests")
	open("198.51.100.2:1")
}

func TestAConnectionWaitsWhileAllServeRequests(t *testing.T) {
	t.Parallel()
	l, open := connsOf(t, 1, 1)
	_, busy := open("192.0.2.1:1")
	require.True(t, busy.hold())
	accepted := make(chan *limited)
	wait := func() { accepted <- l.admit(fakeConn{from: "192.0.2.2:1", ended: make(chan struct{})}) }
	go wait()
	select {
	case <-accepted:
		require.Fail(t, "there was no room")
	case <-time.After(50 * time.Millisecond):
	}
	busy.release()
	next := <-accepted
	require.NotNil(t, next)
	require.True(t, next.hold())
	go wait()
	require.NoError(t, l.Close())
	require.Nil(t, <-accepted, "nothing is accepted after the end")
}

// A request whose connection has given way must not act: its answer would be lost.
func TestARequestOnAClosedConnectionIsNotServed(t *testing.T) {
	t.Parallel()
	_, open := connsOf(t, 1, 1)
	_, gone := open("192.0.2.1:1")
	_, there := open("192.0.2.2:1")
	served := 0
	handler := held(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served++
		_, _ = io.WriteString(w, "done")
	}))
	request := func(on net.Conn) {
		r := httptest.NewRequestWithContext(withConn(context.Background(), on), "POST", "/", nil)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { request(gone) })
	require.Zero(t, served)
	request(there)
	require.Equal(t, 1, served)
}
