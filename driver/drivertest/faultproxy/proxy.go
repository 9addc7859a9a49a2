package faultproxy

import (
	"maps"
	"net"
	"sync"
	"testing"
)

// A Proxy forwards to one server. Its methods are safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	rules    []*Rule
	counts   map[string]int
	conns    map[*conn]bool // nil once the proxy is closed
	accepted int
}

// New starts a proxy on a free loopback port before the server at target (host:port). It ends with the
// test.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: listener, counts: map[string]int{}, conns: map[*conn]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Addr is where the proxy listens, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL is the redis:// URL of Addr.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Add appends rules. The first rule that matches a frame acts on it.
func (p *Proxy) Add(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rule := range rules {
		p.rules = append(p.rules, &rule)
	}
}

// Clear removes all rules. Frames that a rule already holds stay held.
func (p *Proxy) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Count returns how many requests with this name, in capitals, have arrived.
func (p *Proxy) Count(name string) int { return p.Counts()[name] }

// Counts returns Count for every name.
func (p *Proxy) Counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Open returns how many connections are open.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Accepted returns how many connections there have been, including those for which no server was reached.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// CloseConns closes all open connections; new ones are still accepted.
func (p *Proxy) CloseConns() { p.locked(p.closeConns) }

func (p *Proxy) closeConns() {
	for c := range p.conns {
		c.close()
	}
}

// Close closes the proxy and all its connections, and returns when its goroutines have ended. A second call
// does nothing.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.locked(func() {
		p.closeConns()
		p.conns = nil // a connection that comes now is closed at once
	})
	p.running.Wait()
}

func (p *Proxy) locked(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.locked(func() { p.accepted++ })
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &conn{proxy: p, client: client, server: server, done: make(chan struct{})}
	p.locked(func() {
		if p.conns == nil {
			c.close()
			return
		}
		p.conns[c] = true
	})
	c.run()
	p.locked(func() { delete(p.conns, c) })
}

func (p *Proxy) decide(on Direction, request string) Action {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rule := range p.rules {
		if rule.matches(on, request) {
			return rule.Do
		}
	}
	return Pass()
}
