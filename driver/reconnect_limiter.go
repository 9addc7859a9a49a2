package driver

import (
	"sync"
	"time"
)

// Silence is how long a server may let a call wait before its connection is replaced: a server that was frozen
// for a while may have been replaced meanwhile, and does not know it.
const Silence = time.Second

// A ReconnectLimiter decides whether a client replaces a connection that works: one whose server answered
// READONLY, or was silent. The name that was dialled may belong to another server by now. While it does not,
// each new connection leads to the same server again, which a fleet that dials at every call would overload; so
// each of a client's connections is replaced once a second at most. The zero ReconnectLimiter is ready.
type ReconnectLimiter struct {
	mu       sync.Mutex
	since    time.Time
	replaced int
}

// Due reports whether a client replaces the connection on which a reply has just arrived. refused is the
// reply if it was an error, waited is how long the call waited for it, and connections is how many the client
// has.
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
