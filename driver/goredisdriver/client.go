package goredisdriver

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/belayq/belay/driver"
)

var _ driver.Client = (*Client)(nil)

// Client is a driver.Client over a *redis.Client. It is safe for concurrent use.
type Client struct {
	redis   *redis.Client
	options *redis.Options // as given, for further clients
	owned   bool
	sender  *driver.ScriptSender
	closed  atomic.Bool

	reconnects driver.ReconnectLimiter
}

// Open returns a Client for a URL: redis://[user:password@]host[:port][/db], rediss:// for TLS, or
// unix://[user:password@]/path?db=N. It accepts the parameters of driver.ParseURL, like other adapters, and
// those of go-redis for its pool (pool_size, pool_timeout and so on). Nothing is dialled before the first
// use. Its error never contains the URL, which may have a password.
func Open(url string, opts ...Option) (*Client, error) {
	options, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	for _, opt := range opts {
		opt(options)
	}
	return newClient(options, 0, &driver.ScriptSender{}), nil
}

// newClient returns a client whose pool has this size; 0 is that of options.
func newClient(options *redis.Options, conns int, sender *driver.ScriptSender) *Client {
	o := enforced(options, 0)
	o.PoolSize = cmp.Or(conns, o.PoolSize)
	return &Client{redis: redis.NewClient(o), options: options, owned: true, sender: sender}
}

// New returns a Client that uses a user's own client. Its Do uses client with its hooks, pool and timeouts,
// but sends nothing again; its lanes and waiters are new clients with the same address, credentials and
// dialer. Close leaves client open.
func New(client *redis.Client) *Client {
	return &Client{redis: client, options: client.Options(), sender: &driver.ScriptSender{}}
}

// Lane implements driver.Client. A Do waits for one of the lane's connections until the deadline of its
// context.
func (c *Client) Lane(conns int) (driver.Client, error) {
	if conns < 1 {
		return nil, fmt.Errorf("goredisdriver: a lane of %d connections: at least one is needed", conns)
	}
	return newClient(c.options, conns, c.sender), nil
}

// Close implements driver.Client. Closing again does nothing.
func (c *Client) Close() error {
	if !c.owned {
		return nil
	}
	c.closed.Store(true)
	return closeOnce(c.redis)
}

// Closed reports whether Close has closed its connections. For a user's own client it is always false.
func (c *Client) Closed() bool { return c.closed.Load() }

// Server returns the URL of the server without user, password and parameters, for display. For a client
// that uses Sentinel it is the primary's name.
func (c *Client) Server() string {
	o := c.redis.Options()
	return driver.ServerURL(o.Network, o.Addr, o.DB, o.TLSConfig != nil)
}

func closeOnce(client *redis.Client) error {
	if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("close go-redis client: %w", err)
	}
	return nil
}
