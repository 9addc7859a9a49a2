package rueidisdriver

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/belayq/belay/driver"
)

var errClosed = errors.New("rueidisdriver: the client is closed")

// A link stands between one rueidis client and the network. It knows the client's one connection, which rueidis
// itself does not show, and can end it.
type link struct {
	dial dialer
	born time.Time

	mu   sync.Mutex
	shut bool // nothing is dialled: the client is being made, or closed
	conn *heard
	// dials counts connections; one and the same number means one and the same connection.
	dials int64

	// asked is the last connection on which anything but the handshake may have been written.
	asked atomic.Int64
}

// A dialer connects to an address, with TLS where there is a configuration for it.
type dialer func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// newLink makes the link of a client with these options, through their own dialer.
func newLink(o rueidis.ClientOption) *link {
	l := &link{born: time.Now(), dial: dialPlain, shut: true}
	switch {
	case o.DialCtxFn != nil:
		l.dial = o.DialCtxFn
	case o.DialFn != nil:
		l.dial = func(_ context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
			return o.DialFn(addr, d, c)
		}
	}
	if o.Sentinel.MasterSet != "" {
		l.dial = throughSentinels(o, l.dial)
	}
	return l
}

func dialPlain(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config != nil {
		return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", addr)
	}
	return dialer.DialContext(ctx, "tcp", addr)
}

// Dial is the client's DialCtxFn. Its errors are certain: nothing was sent.
func (l *link) Dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if l.isShut() {
		return nil, &driver.NotSentError{Err: errClosed}
	}
	raw, err := l.dial(ctx, addr, dialer, config)
	if err != nil {
		return nil, &driver.NotSentError{Err: err}
	}
	conn := &heard{Conn: raw, link: l, gone: make(chan struct{})}
	conn.note()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		_ = raw.Close()
		return nil, &driver.NotSentError{Err: errClosed}
	}
	l.conn = conn
	l.dials++
	conn.generation = l.dials
	if dialled, _ := ctx.Value(dialledKey{}).(*int64); dialled != nil {
		*dialled = l.dials
	}
	return conn, nil
}

func (l *link) isShut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shut
}

// open lets the client dial.
func (l *link) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = false
}

// close ends the connection and lets no other be dialled.
func (l *link) close() {
	l.mu.Lock()
	l.shut = true
	l.mu.Unlock()
	l.cut()
}

// generation names the connection dialled last; 0 is none.
func (l *link) generation() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials
}

// unasked says that nothing of ours has been written on the connection of the generation, nor on any dialled
// after it. (0, before the first dial, is written on by nobody.)
func (l *link) unasked(generation int64) bool { return l.asked.Load() < max(generation, 1) }

// cut ends the connection: what is in flight on it fails now, and the next call dials another.
func (l *link) cut() {
	if conn := l.current(); conn != nil {
		_ = conn.Conn.Close()
	}
}

// gone is closed once rueidis itself has ended the connection of the generation; nil if another has been
// dialled.
func (l *link) gone(generation int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil || l.dials != generation {
		return nil
	}
	return l.conn.gone
}

// ended says that rueidis itself has ended the connection of the generation, or dialled another.
func (l *link) ended(generation int64) bool {
	gone := l.gone(generation)
	if gone == nil {
		return true
	}
	select {
	case <-gone:
		return true
	default:
		return false
	}
}

// silent says that the connection has brought nothing for d.
func (l *link) silent(d time.Duration) bool {
	conn := l.current()
	return conn != nil && time.Since(l.born)-time.Duration(conn.last.Load()) >= d
}

// outlast waits until no bytes have arrived for d, and reports true; it reports false if over ends first.
func (l *link) outlast(d time.Duration, over <-chan struct{}) bool {
	for !l.silent(d) {
		select {
		case <-over:
			return false
		case <-time.After(d / 8):
		}
		if l.current() == nil {
			return true
		}
	}
	return true
}

func (l *link) current() *heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// A heard is a connection that knows when it last brought anything, on the monotonic clock.
type heard struct {
	net.Conn
	link *link
	last atomic.Int64 // nanoseconds since the link was made

	generation int64
	answered   atomic.Bool // the server has said something

	ending sync.Once
	gone   chan struct{}
}

// Close is what rueidis calls when it gives the connection up.
func (h *heard) Close() error {
	h.ending.Do(func() { close(h.gone) })
	return h.Conn.Close()
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if n > 0 {
		h.answered.Store(true)
		h.note()
	}
	return n, err
}

// Write takes note of whether what is written may be ours. rueidis begins a connection with a handshake, and
// lets nothing else onto it before the server has answered all of that: what is written before any answer is
// the handshake alone.
func (h *heard) Write(p []byte) (int, error) {
	if h.answered.Load() {
		h.link.note(h.generation)
	}
	return h.Conn.Write(p)
}

// note says that something of ours may be on the connection of the generation.
func (l *link) note(generation int64) {
	for {
		last := l.asked.Load()
		if last >= generation || l.asked.CompareAndSwap(last, generation) {
			return
		}
	}
}

func (h *heard) note() { h.last.Store(int64(time.Since(h.link.born))) }
