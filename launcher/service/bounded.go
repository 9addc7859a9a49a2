package service

import (
	"net"
	"slices"
	"sync"
)

// maxProbes bounds the connections of the health endpoint: far more than concurrent probes, and few of the
// 1,024 descriptors that a process usually has.
const maxProbes = 64

// A bounded listener keeps at most maxProbes connections open. A further connection closes the oldest
// instead of waiting for it: clients that connect and send nothing must not delay a probe.
type bounded struct {
	net.Listener

	mu   sync.Mutex
	open []*probe // the oldest first
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	added := &probe{Conn: conn, of: b}
	b.mu.Lock()
	b.open = append(b.open, added)
	var oldest *probe
	if len(b.open) > maxProbes {
		oldest = b.open[0]
	}
	b.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return added, nil
}

// A probe is one connection of a bounded listener.
type probe struct {
	net.Conn
	of *bounded
}

// Close implements net.Conn.
func (p *probe) Close() error {
	p.of.mu.Lock()
	p.of.open = slices.DeleteFunc(p.of.open, func(other *probe) bool { return other == p })
	p.of.mu.Unlock()
	return p.Conn.Close()
}
