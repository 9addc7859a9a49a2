package goredisdriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/belayq/belay/driver"
)

// A dialer connects to an address.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// A failedDial is a connection that could not be made. All of its methods return the reason.
type failedDial struct{ err error }

func (f failedDial) Read([]byte) (int, error)         { return 0, f.err }
func (f failedDial) Write([]byte) (int, error)        { return 0, f.err }
func (f failedDial) Close() error                     { return nil }
func (f failedDial) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (f failedDial) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (f failedDial) SetDeadline(time.Time) error      { return nil }
func (f failedDial) SetReadDeadline(time.Time) error  { return nil }
func (f failedDial) SetWriteDeadline(time.Time) error { return nil }

// A conn is a connection that was made. It explains the error if the server closes it before any reply, because
// it has too many clients: go-redis would report a reset or a broken pipe. With a grace, its deadline does not
// interrupt a reply that is arriving.
type conn struct {
	net.Conn
	grace    time.Duration             // bytes that arrive extend the deadline to this much later; 0: they do not
	deadline atomic.Pointer[time.Time] // of reads
	replied  atomic.Bool               // a reply has been read
	full     atomic.Bool               // that reply was the refusal of a server with too many clients
	encoded  bool                      // with TLS: a server that refuses a connection does so before the end of the handshake
	unwatch  func() bool               // ends the watch of the pool, whose end closes the connection
}

func (p *pool) newConn(raw net.Conn, grace time.Duration) net.Conn {
	c := &conn{Conn: raw, grace: grace}
	c.unwatch = context.AfterFunc(p.over, func() { _ = raw.Close() })
	socket, plain := raw.(syscall.Conn)
	c.encoded = !plain
	if outer, ok := raw.(interface{ NetConn() net.Conn }); ok && c.encoded { // a *tls.Conn
		socket, _ = outer.NetConn().(syscall.Conn)
	}
	if socket == nil {
		return c
	}
	// go-redis asks the socket whether an idle connection was closed, and reconnects. With TLS it asks only
	// if it is given the socket: with RESP3 it would read on after a record of TLS without a reply, and wait.
	// With RESP2 such a record costs no more than a reconnect.
	return struct {
		*conn
		syscall.Conn
	}{c, socket}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	if !c.unwatch() { // the pool's end has closed it, too
		return nil
	}
	return err
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.extend()
	}
	switch {
	case !c.replied.Load():
		return c.first(p, n, err)
	case c.full.Load() && err != nil:
		// go-redis takes the first error of a connection for that of an old server that has no HELLO, and
		// goes on.
		err = closedAtOnce(err)
	}
	return n, err
}

// first returns the result of a read before any reply.
func (c *conn) first(p []byte, n int, err error) (int, error) {
	switch refused := driver.ExplainFirstRead(c.Conn, p[:n], err); {
	case refused != nil:
		return 0, firstError(refused)
	case n > 0:
		c.full.Store(driver.IsFull(p[:n]))
		c.replied.Store(true)
	case closed(err) && !c.encoded:
		err = closedAtOnce(err)
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && c.full.Load() {
		return n, closedAtOnce(err)
	}
	if err == nil || c.replied.Load() || !closed(err) {
		return n, err
	}
	if refused := driver.ExplainFirstWrite(c.Conn, err); refused != nil {
		return n, firstError(refused)
	}
	if c.encoded {
		return n, err
	}
	return n, closedAtOnce(err)
}

// firstError returns the error of a connection that the server has not accepted. go-redis unwraps such an error
// once.
func firstError(err error) error { return &driver.NotSentError{Err: err} }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(at time.Time) error {
	c.note(at)
	return c.Conn.SetDeadline(at)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(at time.Time) error {
	c.note(at)
	return c.Conn.SetReadDeadline(at)
}

func (c *conn) note(at time.Time) {
	if c.grace > 0 {
		noted := at // allocated only here: most connections have no grace, and a deadline for each call
		c.deadline.Store(&noted)
	}
}

// extend moves the deadline of reads, if there is one, to the end of a new grace, but never to an earlier time.
func (c *conn) extend() {
	at := c.deadline.Load()
	if later := time.Now().Add(c.grace); at != nil && !at.IsZero() && at.Before(later) {
		_ = c.SetReadDeadline(later) // if it cannot be set, the reply ends sooner
	}
}

// closed reports whether an error means that the server closed the connection, possibly with an unread
// reply.
func closed(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func closedAtOnce(err error) error { return fmt.Errorf("%w: %w", driver.ErrClosedAtOnce, err) }
