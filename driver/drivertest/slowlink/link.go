package slowlink

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A Speed is the latency and bandwidth of a link. The zero Speed adds no latency and limits nothing.
type Speed struct {
	// RoundTrip is the latency of both directions together; each has half of it.
	RoundTrip time.Duration
	// BitsPerSecond is the bandwidth of each direction; 0 is no limit.
	BitsPerSecond int64
}

// Mbit is a bandwidth of 1 Mbit/s, for Speed.BitsPerSecond.
const Mbit = 1_000_000

// transmission is how long it takes to send n bytes, without latency.
func (s Speed) transmission(n int) time.Duration {
	if s.BitsPerSecond == 0 {
		return 0
	}
	return time.Duration(int64(n) * 8 * int64(time.Second) / s.BitsPerSecond)
}

// A Link forwards connections to one server. Its methods may be called from any goroutine.
type Link struct {
	target   string
	listener net.Listener
	up, down lane // to the server, and from it
	done     chan struct{}
	ending   sync.Once
	running  sync.WaitGroup
}

// New starts a link to the server at target (host:port) on a free loopback port. It ends with the test.
func New(t testing.TB, target string, speed Speed) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{target: target, listener: listener, done: make(chan struct{})}
	l.Set(speed)
	l.running.Go(l.accept)
	t.Cleanup(l.Close)
	return l
}

// Addr returns the address of the link, host:port.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// URL returns the redis:// URL of Addr.
func (l *Link) URL() string { return "redis://" + l.Addr() }

// Set changes the speed of all bytes sent from now on. Bytes in flight arrive as before, and no bytes
// overtake them.
func (l *Link) Set(speed Speed) {
	l.up.set(speed)
	l.down.set(speed)
}

// Bytes returns how many bytes have been sent to the server and from it, on all connections.
func (l *Link) Bytes() (up, down int64) { return l.up.sent(), l.down.sent() }

// Close ends the link with all its connections, and returns when all its goroutines have ended. Closing
// again does nothing.
func (l *Link) Close() {
	l.ending.Do(func() {
		close(l.done)
		_ = l.listener.Close()
	})
	l.running.Wait()
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.running.Go(func() { l.serve(client) })
	}
}

// serve forwards both directions until both ends are closed.
func (l *Link) serve(client net.Conn) {
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		_ = client.Close()
		return
	}
	// Bytes in the kernel's buffer are not on the link yet. A buffer of megabytes would hide the link's
	// speed from the sender.
	_, _ = client.(*net.TCPConn).SetReadBuffer(chunk), server.(*net.TCPConn).SetReadBuffer(chunk)
	pass(client, server, &l.up, &l.down, l.done)
}
