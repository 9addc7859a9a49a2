// Package relay accepts connections: for a proxy, which gets a connection to the proxied server for each, or
// for a stand-in of a server.
package relay

import (
	"net"
	"sync"
	"testing"
)

// A Conn is a client's connection and the relay's connection to the server for it.
type Conn struct {
	Client net.Conn
	Server net.Conn // nil if the relay was started by Serve
	// Done is closed by Close.
	Done   chan struct{}
	ending sync.Once
}

// NewConn returns the Conn of two connections; server may be nil.
func NewConn(client, server net.Conn) *Conn {
	return &Conn{Client: client, Server: server, Done: make(chan struct{})}
}

// Close closes the connections. A second call does nothing.
func (c *Conn) Close() {
	c.ending.Do(func() {
		close(c.Done)
		_ = c.Client.Close()
		if c.Server != nil {
			_ = c.Server.Close()
		}
	})
}

// A Relay listens on a free loopback port. Its methods may be called from any goroutine.
type Relay struct {
	target   string // "" if serve needs no server
	listener net.Listener
	serve    func(*Conn)
	running  sync.WaitGroup

	mu       sync.Mutex
	conns    map[*Conn]bool // nil once the relay is closed
	accepted int
}

// Serve starts a stand-in of a server, which ends with the test. serve is called with each connection, in a
// goroutine of its own; the connection is closed when it returns, and at the test's end.
func Serve(t testing.TB, serve func(net.Conn)) *Relay {
	t.Helper()
	return New(t, "", func(c *Conn) {
		defer c.Close()
		serve(c.Client)
	})
}

// New starts a relay to the server at target (host:port), which ends with the test. serve is called with each
// connection, in a goroutine of its own, and returns when the connection is closed.
func New(t testing.TB, target string, serve func(*Conn)) *Relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{target: target, listener: listener, serve: serve, conns: make(map[*Conn]bool)}
	r.running.Go(r.accept)
	t.Cleanup(r.Close)
	return r
}

// Addr returns where the relay listens, host:port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// URL returns the redis:// URL of Addr.
func (r *Relay) URL() string { return "redis://" + r.Addr() }

// Open returns how many connections are open.
func (r *Relay) Open() (open int) {
	r.locked(func() { open = len(r.conns) })
	return open
}

// Accepted returns how many connections there have been, including those for which no server was reached.
func (r *Relay) Accepted() (accepted int) {
	r.locked(func() { accepted = r.accepted })
	return accepted
}

// CloseConns closes all open connections; new ones are still accepted.
func (r *Relay) CloseConns() { r.locked(r.closeConns) }

func (r *Relay) closeConns() {
	for c := range r.conns {
		c.Close()
	}
}

// Close closes the relay and all its connections, and returns when its goroutines have ended. A second call
// does nothing.
func (r *Relay) Close() {
	_ = r.listener.Close()
	r.locked(func() {
		r.closeConns()
		r.conns = nil // a connection that comes now is closed at once
	})
	r.running.Wait()
}

func (r *Relay) locked(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.locked(func() { r.accepted++ })
		r.running.Go(func() { r.run(client) })
	}
}

func (r *Relay) run(client net.Conn) {
	var server net.Conn
	if r.target != "" {
		var err error
		if server, err = net.Dial("tcp", r.target); err != nil {
			_ = client.Close()
			return
		}
	}
	c := NewConn(client, server)
	r.locked(func() {
		if r.conns == nil {
			c.Close()
			return
		}
		r.conns[c] = true
	})
	r.serve(c)
	r.locked(func() { delete(r.conns, c) })
}
