package driver

import (
	"sync"
	"time"
)

// Silence is how long a server may let a call wait before a Turnover replaces the connection: a server that
// was frozen for a while may have been replaced meanwhile, and does not know it.
const Silence = time.Second

// A Turnover decides whether a client replaces a connection that works: one whose server answers READONLY, or
// was silent. The name that was dialled may belong to another server by now. While it does not, each new
// connection leads to the same server again, and a fleet that dials at every call is a burden; so each of a
// client's connections is replaced once a second at most. The zero value is ready.
type Turnover struct {
	mu       sync.Mutex
	since    time.Time
	replaced int
}

// Due reports whether a client with so many connections replaces the one that it has just waited on for a
// reply, which may be a refusal.
func (t *Turnover) Due(refused *ServerError, waited time.Duration, connections int) bool {
	readOnly := refused != nil && refused.Code == "READONLY"
	return (readOnly || waited >= Silence) && t.allow(connections)
}

func (t *Turnover) allow(connections int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.since) >= time.Second {
		t.since, t.replaced = time.Now(), 0
	}
	t.replaced++
	return t.replaced <= connections
}
