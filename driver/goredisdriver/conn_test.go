package goredisdriver

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
)

// A closedConn is a connection that the server has closed: writes fail, and reads return what it sent before.
type closedConn struct {
	net.Conn
	sent io.Reader
}

func (c *closedConn) Write([]byte) (int, error)       { return 0, syscall.EPIPE }
func (c *closedConn) SetReadDeadline(time.Time) error { return nil }
func (c *closedConn) Read(p []byte) (int, error) {
	n, err := c.sent.Read(p)
	if err != nil {
		err = syscall.ECONNRESET
	}
	return n, err
}

// A closedTCPConn can be asked for its socket, which a connection with TLS cannot.
type closedTCPConn struct{ *closedConn }

func (closedTCPConn) SyscallConn() (syscall.RawConn, error) { return nil, syscall.EBADF }

func TestAConnectionThatIsClosedAtOnceIsExplained(t *testing.T) {
	t.Parallel()
	p := &pool{over: context.Background()}
	tcp := func(sent string) net.Conn {
		return p.newConn(closedTCPConn{&closedConn{sent: strings.NewReader(sent)}}, 0)
	}
	write := func(c net.Conn) error { _, err := c.Write([]byte("PING")); return err }
	read := func(c net.Conn) error { _, err := c.Read(make([]byte, 256)); return err }

	err := write(tcp("-ERR max number of clients reached\r\n"))
	require.ErrorIs(t, err, syscall.EPIPE)
	require.True(t, driver.TooManyClients(err), "%v", err)
	require.True(t, strings.HasPrefix(err.Error(), "ERR max number of clients reached"), "the server's own words: %v", err)
	require.ErrorIs(t, write(tcp("")), driver.ErrClosedAtOnce, "its words were lost")
	require.ErrorIs(t, read(tcp("")), driver.ErrClosedAtOnce)

	refused := tcp("-ERR max number of clients reached\r\n")
	require.NoError(t, read(refused), "go-redis takes it for a server without HELLO")
	require.ErrorIs(t, write(refused), driver.ErrClosedAtOnce)
	require.ErrorIs(t, read(refused), driver.ErrClosedAtOnce)

	served := tcp("+OK\r\n")
	require.NoError(t, read(served))
	require.NotErrorIs(t, write(served), driver.ErrClosedAtOnce, "it had room for this one")
	require.NotErrorIs(t, read(served), driver.ErrClosedAtOnce)

	require.NotErrorIs(t, read(p.newConn(&closedConn{sent: strings.NewReader("")}, 0)), driver.ErrClosedAtOnce, "with TLS")
	_, checkable := tcp("").(syscall.Conn)
	require.True(t, checkable, "go-redis could not check whether an idle connection was closed")
	_, checkable = p.newConn(tls.Client(closedTCPConn{}, &tls.Config{MinVersion: tls.VersionTLS12}), 0).(syscall.Conn)
	require.True(t, checkable, "with TLS")
}
