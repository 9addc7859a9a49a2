package web

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxConns bounds the open connections. A browser opens six.
	maxConns = 256
	// maxConnsOfOne bounds those of one address: half of all, so that others have room beside it. A proxy is
	// one address for all its users.
	maxConnsOfOne = maxConns / 2
)

// A limiter bounds the connections that a listener accepts, in all and for each address. At a bound, the
// connection that has been idle for longest is closed for a new one. A connection is idle unless it serves a
// request of a user, so clients without a password cannot keep users out by holding connections open.
type limiter struct {
	net.Listener
	most, maxOfOne int

	mutex  sync.Mutex // for all below, and for the fields of the connections
	change *sync.Cond // a connection has ended or is idle, or the listener is closed
	open   map[*limited]bool
	closed bool
}

// A limited is a connection that a limiter has accepted.
type limited struct {
	net.Conn
	limiter *limiter
	from    string    // see addressOf
	since   time.Time // when it was accepted, or its last request of a user ended
	held    bool      // it serves a request of a user
}

func limit(listener net.Listener, most, maxOfOne int) *limiter {
	l := &limiter{Listener: listener, most: most, maxOfOne: maxOfOne, open: make(map[*limited]bool)}
	l.change = sync.NewCond(&l.mutex)
	return l
}

// Accept implements net.Listener. While every connection serves a request, it waits. It closes a connection
// whose address has as many that do.
func (l *limiter) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.admit(conn); c != nil {
			return c, nil
		}
		_ = conn.Close()
	}
}

func (l *limiter) admit(conn net.Conn) *limited {
	c := &limited{Conn: conn, limiter: l, from: addressOf(conn.RemoteAddr().String()), since: time.Now()}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for !l.closed {
		all, idle := l.count(func(other *limited) bool { return other.from == c.from })
		switch {
		case all >= l.maxOfOne && idle == nil:
			return nil
		case all < l.maxOfOne && len(l.open) < l.most:
			l.open[c] = true
			return c
		case all < l.maxOfOne:
			_, idle = l.count(func(*limited) bool { return true })
		}
		if idle == nil {
			l.change.Wait()
			continue
		}
		delete(l.open, idle)
		_ = idle.Conn.Close()
	}
	return nil
}

// count returns how many open connections match, and the one of them that has been idle for longest; nil if
// none is idle.
func (l *limiter) count(matches func(*limited) bool) (all int, idle *limited) {
	for c := range l.open {
		if matches(c) {
			all++
			if !c.held && (idle == nil || c.since.Before(idle.since)) {
				idle = c
			}
		}
	}
	return all, idle
}

// Close implements net.Listener.
func (l *limiter) Close() error {
	l.mutex.Lock()
	l.closed = true
	l.mutex.Unlock()
	l.change.Broadcast()
	return l.Listener.Close()
}

// Close implements net.Conn.
func (c *limited) Close() error {
	c.limiter.mutex.Lock()
	delete(c.limiter.open, c)
	c.limiter.mutex.Unlock()
	c.limiter.change.Broadcast()
	return c.Conn.Close()
}

// hold keeps the connection until release; false if it has given way to another.
func (c *limited) hold() bool {
	c.limiter.mutex.Lock()
	defer c.limiter.mutex.Unlock()
	c.held = c.limiter.open[c]
	return c.held
}

func (c *limited) release() {
	c.limiter.mutex.Lock()
	c.held, c.since = false, time.Now()
	c.limiter.mutex.Unlock()
	c.limiter.change.Broadcast()
}

type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// held returns a handler of the requests of users: their connections are not idle.
func held(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, is := r.Context().Value(connKey{}).(*limited); is {
			if !c.hold() {
				panic(http.ErrAbortHandler) // an act would be done, and its answer lost
			}
			defer c.release()
		}
		next.ServeHTTP(w, r)
	})
}

// addressOf returns the address in a host and port for comparing clients: of IPv6 the first 64 bits, because
// one client has all addresses with them.
func addressOf(hostPort string) string {
	at, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return hostPort
	}
	addr := at.Addr().Unmap()
	if addr.Is4() {
		return addr.String()
	}
	prefix, _ := addr.WithZone("").Prefix(64)
	return prefix.String()
}
