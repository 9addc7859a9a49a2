package slowlink

import (
	"net"
	"testing"
	"time"

	"github.com/belayq/belay/internal/drivertest/relay"
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
	*relay.Relay
	up, down lane // to the server, and from it
}

// New starts a link to the server at target (host:port) on a free loopback port. It ends with the test.
func New(t testing.TB, target string, speed Speed) *Link {
	t.Helper()
	l := &Link{}
	l.Set(speed)
	l.Relay = relay.New(t, target, func(c *relay.Conn) {
		// Bytes in the kernel's buffer are not on the link yet. A buffer of megabytes would hide the link's
		// speed from the sender.
		_, _ = c.Client.(*net.TCPConn).SetReadBuffer(chunk), c.Server.(*net.TCPConn).SetReadBuffer(chunk)
		pass(c, &l.up, &l.down)
	})
	return l
}

// Set changes the speed of all bytes sent from now on. Bytes in flight arrive as before, and no bytes
// overtake them.
func (l *Link) Set(speed Speed) {
	l.up.set(speed)
	l.down.set(speed)
}

// Bytes returns how many bytes have been sent to the server and from it, on all connections.
func (l *Link) Bytes() (up, down int64) { return l.up.sent(), l.down.sent() }
