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
	done     chan struct{}
	running  sync.WaitGroup
	ending   sync.Once

	mu       sync.Mutex
	rules    []*Rule
	counts   map[string]int
	conns    map[*conn]bool
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
	p := &Proxy{target: target, listener: listener, done: make(chan struct{}),
		counts: map[string]int{}, conns: map[*conn]bool{}}
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
func (p *Proxy) Count(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[name]
}

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
func (p *Proxy) CloseConns() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close()
	}
}

// Close closes the proxy and all its connections, and returns when its goroutines have ended. A second call
// does nothing.
func (p *Proxy) Close() {
	p.ending.Do(func() {
		close(p.done)
		_ = p.listener.Close()
		p.CloseConns()
	})
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.dialled()
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) dialled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	c := newConn(p, client, server)
	if !p.enter(c) {
		c.close()
		return
	}
	defer p.leave(c)
	c.run()
}

// enter registers a connection so that Close closes it. It reports false if the proxy has been closed
// already.
func (p *Proxy) enter(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return false
	default:
		p.conns[c] = true
		return true
	}
}

func (p *Proxy) leave(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) arrived(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[name]++
}

func (p *Proxy) decide(on Direction, request []byte) Action {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rule := range p.rules {
		if rule.matches(on, request) {
			return rule.Do
		}
	}
	return Pass()
}
