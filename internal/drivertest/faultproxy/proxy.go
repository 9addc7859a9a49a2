package faultproxy

import (
	"maps"
	"sync"
	"testing"

	"github.com/belayq/belay/internal/drivertest/relay"
)

// A Proxy forwards to one server. Its methods are safe for concurrent use.
type Proxy struct {
	*relay.Relay

	mu     sync.Mutex
	rules  []*Rule
	counts map[string]int
}

// New starts a proxy on a free loopback port before the server at target (host:port). It ends with the
// test.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{counts: make(map[string]int)}
	p.Relay = relay.New(t, target, func(c *relay.Conn) { (&conn{Conn: c, proxy: p}).run() })
	return p
}

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

// decide returns what happens to a request, which it counts, or to its reply.
func (p *Proxy) decide(on Direction, request string) Action {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on == Requests {
		p.counts[name(request)]++
	}
	for _, rule := range p.rules {
		if rule.matches(on, request) {
			return rule.Do
		}
	}
	return Pass()
}
