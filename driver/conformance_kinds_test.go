package driver_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/relay"
	"github.com/belayq/belay/internal/drivertest/resp"
)

// A kind of server that the promises are tested with. Where a client has to look for its server, a stand-in of
// a sentinel or of a node tells it the address, so that a proxy can be between them; conformance_finder_test.go
// has the real ones.
type kind struct {
	// addr returns the address of a server that other tests use, too.
	addr func(t *testing.T) string
	// url returns the URL for a server at host:port, or at user:password@host:port.
	url func(t *testing.T, at string) string
	// found says that this is a further way to a real server: promises that do not depend on it are left out.
	found bool
	// fake says that it is miniredis.
	fake bool
}

// kinds returns the kinds of servers by name.
func kinds(t *testing.T) map[string]kind {
	t.Helper()
	plain := func(_ *testing.T, at string) string { return "redis://" + at }
	redis := func(t *testing.T) string { t.Helper(); return drivertest.Redis(t).Addr() }
	node := drivertest.StartCluster(t, 1).Servers[0]
	authority := drivertest.NewAuthority(t)
	cert, key := authority.Issue(t, nil)
	return map[string]kind{
		"redis":     {addr: redis, url: plain},
		"miniredis": {fake: true, addr: func(t *testing.T) string { t.Helper(); return drivertest.Miniredis(t).Addr() }, url: plain},
		"tls": {found: true, addr: redis, url: func(t *testing.T, at string) string {
			t.Helper()
			user, addr := divide(at)
			return "rediss://" + user + terminator(t, addr, cert, key) + "?ca=" + authority.File
		}},
		"sentinel": {found: true, addr: redis, url: func(t *testing.T, at string) string {
			t.Helper()
			user, addr := divide(at)
			return "redis+sentinel://" + user + standIn(t, addr) + "/m"
		}},
		"cluster": {found: true, addr: func(*testing.T) string { return node.Addr() }, url: func(t *testing.T, at string) string {
			t.Helper()
			user, addr := divide(at)
			return "redis+cluster://" + user + standIn(t, addr)
		}},
	}
}

// divide returns the user with the @, and the address.
func divide(at string) (user, addr string) {
	end := strings.LastIndex(at, "@") + 1
	return at[:end], at[end:]
}

// standIn starts a stand-in that names a server as a sentinel does, and as a node of a Cluster does. It returns
// the address of the stand-in.
func standIn(t *testing.T, addr string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return relay.Serve(t, func(conn net.Conn) {
		for in := bufio.NewReader(conn); ; {
			call, err := resp.Read(in)
			words, _ := call.([]any)
			if err != nil || len(words) == 0 {
				return
			}
			reply := "-ERR unknown command\r\n"
			switch strings.ToUpper(fmt.Sprint(words[0])) {
			case "AUTH":
				reply = "+OK\r\n"
			case "HELLO":
				reply = "*0\r\n"
			case "SENTINEL":
				reply = fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
			case "CLUSTER":
				reply = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
			}
			if _, err := io.WriteString(conn, reply); err != nil {
				return
			}
		}
	}).Addr()
}

// terminator starts a relay that takes off the TLS before the server at addr.
func terminator(t *testing.T, addr, cert, key string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return relay.New(t, addr, func(c *relay.Conn) {
		defer c.Close()
		client := tls.Server(c.Client, config)
		go func() {
			defer c.Close()
			_, _ = io.Copy(c.Server, client)
		}()
		_, _ = io.Copy(client, c.Server)
	}).Addr()
}
