package goredisdriver

import (
	"cmp"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/belayq/belay/driver"
)

var _ driver.Client = (*Client)(nil)

// Client is a driver.Client over a *redis.Client. It is safe for concurrent use.
type Client struct {
	*pool
	source *source
	sender *driver.ScriptSender

	reconnects driver.ReconnectLimiter
}

// A source is what all connections to a server are made of, for further clients.
type source struct {
	options *redis.Options // as given
	url     *driver.URL    // nil for a user's own client, and then so is the dialer
	dialer  *driver.Dialer
	listens driver.Listens
}

// doubt tells the dialer that its server is the wrong one.
func (s *source) doubt() {
	if s.dialer != nil {
		s.dialer.Doubt()
	}
}

// Open returns a Client for a URL: redis://[user:password@]host[:port][/db], rediss:// for TLS, unix:// for a
// socket, redis+sentinel:// or redis+cluster://, as driver.ParseURL describes them. A Cluster needs the option
// driver.ForPrefix. It also uses the parameters of go-redis for its pool (pool_size, pool_timeout and so on).
// Nothing is dialled before the first use. Its error never contains the URL, which may have a password.
func Open(url string, options ...driver.Option) (*Client, error) {
	u, err := driver.ParseURL(url, options...)
	if err != nil {
		return nil, fmt.Errorf("goredisdriver: %w", err)
	}
	return open(u)
}

func open(u *driver.URL) (*Client, error) {
	dialer := driver.NewDialer(u, func(node *driver.URL) (driver.Client, error) { return open(node) })
	options, err := optionsOf(u, dialer)
	if err != nil {
		return nil, err
	}
	return newClient(&source{options: options, url: u, dialer: dialer}, 0, &driver.ScriptSender{}), nil
}

// newClient returns a client whose pool has this size; 0 is that of the options.
func newClient(from *source, conns int, sender *driver.ScriptSender) *Client {
	o := enforced(from.options)
	o.PoolSize = cmp.Or(conns, o.PoolSize)
	return &Client{pool: newPool(o, 0), source: from, sender: sender}
}

// New returns a Client that uses a user's own client. Its Do uses client with its hooks, pool and timeouts,
// but sends nothing again; its lanes and waiters are new clients with the same address, credentials and
// dialer. Close leaves client open. With TLS go-redis does not check idle connections of client: give it a
// ConnMaxIdleTime below the timeout of the server, or a call on a closed one has an unknown outcome.
func New(client *redis.Client) *Client {
	return &Client{pool: &pool{redis: client}, source: &source{options: client.Options()}, sender: &driver.ScriptSender{}}
}

// Lane implements driver.Client. A Do waits for one of the lane's connections until the deadline of its
// context.
func (c *Client) Lane(conns int) (driver.Client, error) {
	if conns < 1 {
		return nil, fmt.Errorf("goredisdriver: a lane of %d connections: at least one is needed", conns)
	}
	return newClient(c.source, conns, c.sender), nil
}

// Server returns the URL of the server without user, password and parameters, for display. For a user's own
// client that uses Sentinel it is the primary's name.
func (c *Client) Server() string {
	if c.source.url != nil {
		return c.source.url.String()
	}
	o := c.source.options
	return driver.ServerURL(o.Network, o.Addr, o.DB, o.TLSConfig != nil)
}

// Unverified reports whether it uses TLS without verifying the server's certificate.
func (c *Client) Unverified() bool {
	if u := c.source.url; u != nil {
		return u.TLS != nil && u.TLS.SkipVerify
	}
	return driver.Unverified(c.source.options.TLSConfig)
}
