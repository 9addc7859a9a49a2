package driver

import (
	"sync"
	"time"
)

// Silence is how long a server may let a call wait before its connection is replaced: a server that was frozen
// for a while may have been replaced meanwhile, and does not know it.
const Silence = time.Second

// A ReconnectLimiter decides whether a client replaces a connection that works: one whose server answers
// READONLY, or was silent. The name that was dialled may belong to another server by now. While it does not,
// each new connection leads to the same server again, and a fleet that dials at every call is a burden; so each
// of a client's connections is replaced once a second at most. The zero value is ready.
type ReconnectLimiter struct {
	mu       sync.Mutex
	since    time.Time
	replaced int
}

// Due reports whether a client with so many connections replaces the one that it has just waited on for a
// reply, which may be a refusal.
func (l *ReconnectLimiter) Due(refused *ServerError, waited time.Duration, connections int) bool {
	readOnly := refused != nil && refused.Code == "READONLY"
	return (readOnly || waited >= Silence) && l.allow(connections)
}

func (l *ReconnectLimiter) allow(connections int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.since) >= time.Second {
		l.since, l.replaced = time.Now(), 0
	}
	l.replaced++
	return l.replaced <= connections
}
