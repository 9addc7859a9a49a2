package rueidisdriver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/belayq/belay/driver"
)

var errClosed = errors.New("rueidisdriver: the client is closed")

// A link is between one rueidis client and the network. It has the client's one connection, which rueidis
// itself does not expose, and can close it.
type link struct {
	dial dialer
	born time.Time

	shut atomic.Bool             // nothing is dialled: the client is not complete, or closed
	conn atomic.Pointer[tracked] // the connection dialled last
	// dials counts connections; the number of a connection is its generation.
	dials atomic.Int64
	// written is the generation of the last connection on which more than the handshake may have been written.
	written atomic.Int64
}

// A dialer connects to an address, with TLS where there is a configuration for it.
type dialer func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// newLink returns the link of a client with these options. It uses their dialer, if there is one.
func newLink(o rueidis.ClientOption) *link {
	l := &link{born: time.Now(), dial: dialerOf(o)}
	l.shut.Store(true)
	return l
}

// dialerOf returns the dialer of a user's options.
func dialerOf(o rueidis.ClientOption) dialer {
	switch {
	case o.DialCtxFn != nil:
		return o.DialCtxFn
	case o.DialFn != nil:
		return func(_ context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
			return o.DialFn(addr, d, c)
		}
	}
	return dialPlain
}

// contained calls a function of the program for a new connection. A panic is its error: rueidis would make all
// later calls wait for that connection.
func contained[T any](what string, call func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &driver.NotSentError{Err: fmt.Errorf("rueidisdriver: %s panicked: %v", what, p)}
		}
	}()
	return call()
}

func dialPlain(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config != nil {
		return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", addr)
	}
	return dialer.DialContext(ctx, "tcp", addr)
}

// dialledKey is the key of a context's *int64, in which Dial stores the generation of a connection that it
// dials with this context.
type dialledKey struct{}

// Dial is the client's DialCtxFn. After its errors it is certain that nothing was sent.
func (l *link) Dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if l.shut.Load() {
		return nil, &driver.NotSentError{Err: errClosed}
	}
	raw, err := contained("the dialer", func() (net.Conn, error) { return l.dial(ctx, addr, dialer, config) })
	if err != nil {
		if config != nil {
			err = driver.ExplainTLS(err)
		}
		return nil, &driver.NotSentError{Err: err}
	}
	conn := &tracked{Conn: raw, link: l, gone: make(chan struct{}), generation: l.dials.Add(1)}
	conn.noteReceived()
	l.conn.Store(conn)
	if l.shut.Load() { // a close before the store has not closed this connection
		_ = raw.Close()
		return nil, &driver.NotSentError{Err: errClosed}
	}
	if dialled, _ := ctx.Value(dialledKey{}).(*int64); dialled != nil {
		*dialled = conn.generation
	}
	return conn, nil
}

func (l *link) close() {
	l.shut.Store(true)
	l.cut()
}

// generation returns the generation of the connection dialled last; 0 is none.
func (l *link) generation() int64 {
	if conn := l.conn.Load(); conn != nil {
		return conn.generation
	}
	return 0
}

// unwritten reports whether no call has been written on the connection of the generation, nor on any dialled
// after it. (Nothing is written on generation 0, before the first dial.)
func (l *link) unwritten(generation int64) bool { return l.written.Load() < max(generation, 1) }

// cut closes the connection: calls in flight on it fail, and the next call dials another one.
func (l *link) cut() {
	if conn := l.conn.Load(); conn != nil {
		_ = conn.Conn.Close()
	}
}

// gone returns a channel that is closed when rueidis itself has closed the connection of the generation;
// nil if another one has been dialled.
func (l *link) gone(generation int64) <-chan struct{} {
	if conn := l.conn.Load(); conn != nil && conn.generation == generation {
		return conn.gone
	}
	return nil
}

// ended reports whether rueidis itself has closed the connection of the generation, or dialled another one.
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

// silent reports whether the connection has received nothing for d.
func (l *link) silent(d time.Duration) bool {
	conn := l.conn.Load()
	return conn != nil && time.Since(l.born)-time.Duration(conn.last.Load()) >= d
}

// waited returns the longest time for which the connection of the generation let a call wait; 0 if another one
// has been dialled.
func (l *link) waited(generation int64) time.Duration {
	if conn := l.conn.Load(); conn != nil && conn.generation == generation {
		return time.Duration(conn.maxWait.Load())
	}
	return 0
}

// outlast waits until no bytes have arrived for d, and reports true; it reports false if over ends first.
func (l *link) outlast(d time.Duration, over <-chan struct{}) bool {
	for !l.silent(d) {
		select {
		case <-over:
			return false
		case <-time.After(d / 8):
		}
		if l.conn.Load() == nil {
			return true
		}
	}
	return true
}

// A tracked connection records when it last received bytes, and how long it waited for them, on the monotonic
// clock.
type tracked struct {
	net.Conn
	link    *link
	last    atomic.Int64 // when bytes last arrived, in nanoseconds since the link was made
	since   atomic.Int64 // when the oldest unanswered call was written, likewise; 0 if there is none
	maxWait atomic.Int64 // the longest wait for an answer, in nanoseconds

	generation int64
	answered   atomic.Bool // the server has sent bytes

	ending sync.Once
	gone   chan struct{}
}

// Close is called by rueidis when it drops the connection.
func (t *tracked) Close() error {
	t.ending.Do(func() { close(t.gone) })
	return t.Conn.Close()
}

func (t *tracked) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if !t.answered.Load() {
		refused := driver.ExplainFirstRead(t.Conn, p[:n], err)
		switch {
		case refused != nil:
		case driver.IsFull(p[:n]):
			// With a password, rueidis takes this reply to HELLO for that of an old server, and goes on.
			refused = driver.NewServerError(strings.TrimSpace(string(p[1:n])))
		case errors.Is(err, syscall.ECONNRESET):
			refused = fmt.Errorf("%w: %w", driver.ErrClosedAtOnce, err)
		}
		if refused != nil {
			return 0, &driver.NotSentError{Err: refused}
		}
	}
	if n > 0 {
		t.answered.Store(true)
		t.noteReceived()
		if since := t.since.Swap(0); since != 0 { // only this goroutine writes maxWait
			t.maxWait.Store(max(t.maxWait.Load(), t.last.Load()-since))
		}
	}
	return n, err
}

// Write records whether a call may have been written. rueidis begins a connection with a handshake and
// writes nothing else before the server has answered all of it, so bytes written before any reply are only
// the handshake.
func (t *tracked) Write(p []byte) (int, error) {
	if t.answered.Load() {
		t.link.noteWritten(t.generation)
	}
	t.since.CompareAndSwap(0, int64(time.Since(t.link.born)))
	n, err := t.Conn.Write(p)
	if err != nil && !t.answered.Load() {
		if refused := driver.ExplainFirstWrite(t.Conn, err); refused != nil {
			return n, &driver.NotSentError{Err: refused}
		}
	}
	return n, err
}

// noteWritten records that a call may have been written on the connection of the generation.
func (l *link) noteWritten(generation int64) {
	for {
		last := l.written.Load()
		if last >= generation || l.written.CompareAndSwap(last, generation) {
			return
		}
	}
}

// noteReceived records that bytes have just arrived; a new connection counts as one on which some have.
func (t *tracked) noteReceived() { t.last.Store(int64(time.Since(t.link.born))) }
