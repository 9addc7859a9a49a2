package driver

import (
	"context"
	"net"
	"time"
)

// A Dialer makes the connections of an adapter's clients for one URL.
type Dialer struct {
	*Finder
	url *URL
}

// NewDialer returns the Dialer for a URL. open opens a client of one node or sentinel.
func NewDialer(u *URL, open func(*URL) (Client, error)) *Dialer {
	return &Dialer{Finder: NewFinder(u, open), url: u}
}

// Dial finds the server and connects to it, with TLS where the URL says so. It never falls back to a connection
// without TLS.
func (d *Dialer) Dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.url.DialTimeout)
	defer cancel()
	addr := d.url.Addrs[0]
	if d.Finder != nil {
		found, err := d.Find(ctx)
		if err != nil {
			return nil, err
		}
		addr = found
	}
	conn, err := (&net.Dialer{KeepAlive: KeepAlive}).DialContext(ctx, d.url.Network, addr)
	if err == nil && d.url.TLS != nil {
		conn, err = d.url.TLS.handshake(ctx, conn, addr)
	}
	if err != nil {
		d.Doubt()
	}
	return conn, err
}

// KeepAlive is how often the system probes an idle connection, as Go's default.
const KeepAlive = 15 * time.Second
