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

// A fresh connection is one that the server may have closed at once, because it has too many. What the server said then is read
// for the error: a write that fails would tell of a broken pipe alone. (Servers with TLS say nothing before the handshake.)
type fresh struct {
	net.Conn
	tcp   *net.TCPConn
	heard atomic.Bool // the server has said something that was read
	full  atomic.Bool // and that was that it has too many connections
}

// SyscallConn implements syscall.Conn: go-redis asks the system whether an idle connection is still open.
func (f *fresh) SyscallConn() (syscall.RawConn, error) { return f.tcp.SyscallConn() }

// Read implements net.Conn.
func (f *fresh) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	switch {
	case f.full.Load() && err != nil:
		// go-redis takes the first error of a connection for that of an old server that has no HELLO, and goes on.
		err = turnedAway(err)
	case f.heard.Load():
	case n > 0:
		f.full.Store(bytes.HasPrefix(p[:n], []byte(refusal)))
		f.heard.Store(true)
	case closed(err):
		err = turnedAway(err)
	}
	return n, err
}

// refusal is how a server answers that has too many connections, before it closes the new one.
const refusal = "-ERR max number of clients"

// Write implements net.Conn.
func (f *fresh) Write(p []byte) (int, error) {
	n, err := f.Conn.Write(p)
	if err != nil && f.full.Load() {
		return n, turnedAway(err)
	}
	if err == nil || f.heard.Load() || !closed(err) {
		return n, err
	}
	said := make([]byte, 256)
	_ = f.SetReadDeadline(time.Now().Add(lastWords))
	if length, _ := f.Conn.Read(said); length > 0 && said[0] == '-' {
		line, _, _ := strings.Cut(string(said[1:length]), "\r\n")
		return n, fmt.Errorf("%s: %w", line, err)
	}
	return n, turnedAway(err)
}

// lastWords is how long is waited for what a server said before it closed the connection. It is there, or will not come.
const lastWords = 10 * time.Millisecond

// closed says whether an error is what is left of a connection that the server has closed with something unread.
func closed(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func turnedAway(err error) error { return fmt.Errorf("%w: %w", driver.ErrTurnedAway, err) }
