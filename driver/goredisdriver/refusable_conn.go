package goredisdriver

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/belayq/belay/driver"
)

// A refusableConn is a connection that the server may close at once, because it has too many clients. If a
// write fails, the server's last reply is read for the error; the write's own error would only be a broken
// pipe. (Servers with TLS send nothing before the handshake.)
type refusableConn struct {
	net.Conn
	tcp     *net.TCPConn
	replied atomic.Bool // a reply has been read
	full    atomic.Bool // it refused the connection, because the server has too many
}

// SyscallConn implements syscall.Conn: go-redis asks the system whether an idle connection is still open.
func (c *refusableConn) SyscallConn() (syscall.RawConn, error) { return c.tcp.SyscallConn() }

// Read implements net.Conn.
func (c *refusableConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case c.full.Load() && err != nil:
		// go-redis takes the first error of a connection for that of an old server that has no HELLO, and
		// goes on.
		err = closedAtOnce(err)
	case c.replied.Load():
	case n > 0:
		c.full.Store(bytes.HasPrefix(p[:n], []byte(refusal)))
		c.replied.Store(true)
	case closed(err):
		err = closedAtOnce(err)
	}
	return n, err
}

// refusal is the reply of a server with too many connections, before it closes the new one.
const refusal = "-ERR max number of clients"

// Write implements net.Conn.
func (c *refusableConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && c.full.Load() {
		return n, closedAtOnce(err)
	}
	if err == nil || c.replied.Load() || !closed(err) {
		return n, err
	}
	reply := make([]byte, 256)
	_ = c.SetReadDeadline(time.Now().Add(lastWords))
	if length, _ := c.Conn.Read(reply); length > 0 && reply[0] == '-' {
		line, _, _ := strings.Cut(string(reply[1:length]), "\r\n")
		return n, fmt.Errorf("%s: %w", line, err)
	}
	return n, closedAtOnce(err)
}

// lastWords bounds the read of the server's last reply after it closed the connection: the bytes are there
// already, or never arrive.
const lastWords = 10 * time.Millisecond

// closed reports whether an error means that the server closed the connection, possibly with an unread
// reply.
func closed(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func closedAtOnce(err error) error { return fmt.Errorf("%w: %w", driver.ErrClosedAtOnce, err) }
