package driver

import (
	"sync"
	"time"
)

// A Turnover bounds how often a client replaces connections whose server answers READONLY: the name that was
// dialled may belong to another server by now, but while it does not, each new connection is the same one
// again, and a fleet that makes them at every call is a burden. The zero value is ready.
type Turnover struct {
	mu       sync.Mutex
	since    time.Time
	replaced int
}

// Allow reports whether one more connection is replaced: each of a client's connections once a second.
func (t *Turnover) Allow(connections int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.since) >= time.Second {
		t.since, t.replaced = time.Now(), 0
	}
	t.replaced++
	return t.replaced <= connections
}
