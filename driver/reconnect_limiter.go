package driver

import (
	"context"
	"errors"
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

// Listens are the Listens of a client, its lanes and its waiters. A server that another one has replaced closes
// none of their connections, and a Listen asks for nothing that the server could refuse. So the refusal of
// another connection's call ends them. The zero Listens is ready.
type Listens struct {
	mu    sync.Mutex
	round context.Context // ends when the Listens do that have begun in it
	end   context.CancelFunc
}

// errReplaced is the cause of the end of a Listen whose server is the wrong one.
var errReplaced = errors.New("another server has replaced this one")

// Begin returns the context of a Listen: it ends with ctx, or when a server is found to be replaced. The caller
// calls over at its end.
func (l *Listens) Begin(ctx context.Context) (listening context.Context, over func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.round == nil {
		l.round, l.end = context.WithCancel(context.Background())
	}
	listening, cancel := context.WithCancelCause(ctx)
	leave := context.AfterFunc(l.round, func() { cancel(errReplaced) })
	return listening, func() {
		leave()
		cancel(nil)
	}
}

// Learn ends all Listens if refused, which may be nil, is the reply of a server that has been replaced.
func (l *Listens) Learn(refused *ServerError) {
	if refused == nil || refused.Code != "READONLY" && refused.Code != "MOVED" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end()
		l.round, l.end = nil, nil
	}
}
