package driver

import (
	"sync"
	"time"
)

// Silence is how long a server may let a call wait before its connection is replaced: a server that was frozen
// for a while may have been replaced meanwhile, and does not know it.
const Silence = time.Second

// wrongServer are the error replies of a server that another one has replaced, or that is cut off from the
// others: a replica, a node of a Cluster whose slot has moved, or one that sees too few other nodes.
var wrongServer = map[string]bool{"READONLY": true, "MASTERDOWN": true, "MOVED": true, "CLUSTERDOWN": true}

// A ReconnectLimiter decides whether a client replaces a connection that works: one whose server answered
// that it is the wrong one, or was silent. The name that was dialled may belong to another server by now, or a
// Finder may find another one. While that is not so, each new connection leads to the same server again, which
// a fleet that dials at every call would overload; so each of a client's connections is replaced once a second
// at most. The zero ReconnectLimiter is ready.
type ReconnectLimiter struct {
	mu       sync.Mutex
	since    time.Time
	replaced int
}

// Due reports whether a client replaces the connection on which a reply has just arrived. refused is the
// reply if it was an error, waited is how long the call waited for it, and connections is how many the client
// has.
func (l *ReconnectLimiter) Due(refused *ServerError, waited time.Duration, connections int) bool {
	wrong := refused != nil && wrongServer[refused.Code]
	return (wrong || waited >= Silence) && l.allow(connections)
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
