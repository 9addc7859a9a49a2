package rueidisdriver

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/belayq/belay/driver"
)

var _ driver.Client = (*Client)(nil)

// Client is a driver.Client over a rueidis client of its own. It is safe for concurrent use.
type Client struct {
	options rueidis.ClientOption // as given
	*connection
	sender *driver.ScriptSender

	reconnects driver.ReconnectLimiter
	// calls is held for reading by each call that may use the connection.
	calls sync.RWMutex
}

// An Option changes the rueidis options that Open has read from its URL. The settings for the promises of
// driver.Client are applied later and cannot be changed.
type Option func(*rueidis.ClientOption)

// Open returns a Client for a URL: redis://[user:password@]host[:port][/db], rediss:// for TLS, or
// unix://[user:password@]/path?db=N. It accepts the parameters of driver.ParseURL, like other adapters, and
// those of rueidis for Sentinel: master_set, and addr for each further sentinel. Nothing is dialled before
// the first use. Its error never contains the URL, which may have a password.
func Open(url string, opts ...Option) (*Client, error) {
	options, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	for _, opt := range opts {
		opt(&options)
	}
	return New(options)
}

// New returns a Client with a user's own options: addresses, credentials, TLS, dialer. It cannot use an
// existing rueidis.Client: the settings that keep a call from being executed twice are fixed when a client
// is made, and cannot be read from it. With Sentinel.MasterSet the addresses are those of sentinels, and
// every connection is dialled to the primary that they name then. Nothing is dialled before the first use.
func New(options rueidis.ClientOption) (*Client, error) {
	switch n := len(options.InitAddress); {
	case options.Sentinel.MasterSet != "" && n == 0:
		return nil, errors.New("rueidisdriver: no address of a sentinel")
	case options.Sentinel.MasterSet == "" && n != 1:
		return nil, fmt.Errorf("rueidisdriver: %d addresses: exactly one is needed", n)
	}
	return newClient(options, 256, &driver.ScriptSender{})
}

// newClient returns a client with room for a number of pipelines in flight; one more waits its turn. Room is
// what takes rueidis longest to make for a new connection, and in an outage connections are made again and
// again.
func newClient(options rueidis.ClientOption, room int, sender *driver.ScriptSender) (*Client, error) {
	conn, err := connect(options, func(o *rueidis.ClientOption) { o.RingScaleEachConn = bits.Len(uint(room - 1)) })
	if err != nil {
		return nil, err
	}
	return &Client{options: options, connection: conn, sender: sender}, nil
}

// A connection is a rueidis client and its link.
type connection struct {
	redis   rueidis.Client
	link    *link
	closing sync.Once
}

// connect returns a rueidis client that has not dialled: rueidis dials once in NewClient, and while the
// link is shut that fails without using the network. change adapts the enforced options.
func connect(options rueidis.ClientOption, change func(*rueidis.ClientOption)) (*connection, error) {
	link := newLink(options)
	options = enforced(options)
	options.DialCtxFn, options.DialFn = link.Dial, nil
	change(&options)
	client, err := rueidis.NewClient(options)
	if client == nil {
		return nil, fmt.Errorf("make a rueidis client: %w", err)
	}
	link.shut.Store(false)
	return &connection{redis: client, link: link}, nil
}

// forOne adapts options to one call at a time.
func forOne(o *rueidis.ClientOption) {
	o.ReadBufferEachConn, o.WriteBufferEachConn = driver.WaiterBufferSize, driver.WaiterBufferSize
	o.RingScaleEachConn = 1
}

// Close implements driver.Client and driver.Waiter. Calls under way fail; closing again does nothing.
func (c *connection) Close() error {
	c.closing.Do(func() {
		c.link.close() // first, or rueidis would wait a second for a silent server
		c.redis.Close()
	})
	return nil
}

// ownParameters are the URL parameters that only rueidis knows. client_cache has no effect, because there
// is no cache.
var ownParameters = []string{"addr", "client_cache", "master_set"}

// parseURL reads a URL. Its errors do not contain any of it, while rueidis quotes the part that it cannot
// read.
func parseURL(text string) (rueidis.ClientOption, error) {
	parsed, err := driver.ParseURL(text, ownParameters...)
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("rueidisdriver: %w", err)
	}
	options, err := rueidis.ParseURL(parsed.String())
	if err != nil {
		return options, errors.New("rueidisdriver: the Redis URL has a part that rueidis does not understand")
	}
	return options, nil
}

// enforced applies the settings for the promises of driver.Client.
func enforced(o rueidis.ClientOption) rueidis.ClientOption {
	o.DisableRetry = true
	o.ConnLifetime = 0 // at its end rueidis sends again what was in flight
	// Only the pipelining connection keeps earlier replies when it breaks, and notices while it is idle
	// that the server has closed it.
	o.AlwaysPipelining, o.DisableAutoPipelining = true, false
	o.PipelineMultiplex = -1 // one connection
	o.BlockingPipeline = -1  // however long a pipeline is, it is not moved to the blocking pool
	o.BlockingPoolSize = 1
	o.ForceSingleClient = true
	// The link finds the primary, so one address is enough.
	o.Sentinel, o.InitAddress = rueidis.SentinelOption{}, o.InitAddress[:1]
	o.DisableCache = true
	o.AlwaysRESP2 = true // nothing here uses pushes, and replies have one form
	o.ClientSetInfo = rueidis.DisableClientSetInfo
	// With a negative value there is no background PING, which would cost an idle connection a command per
	// second and fail a slow call after ten; our own deadlines find a dead connection.
	o.ConnWriteTimeout = -1
	if o.Dialer.Timeout <= 0 || o.Dialer.Timeout > driver.DialTimeout {
		o.Dialer.Timeout = driver.DialTimeout
	}
	if o.Dialer.KeepAlive == 0 {
		o.Dialer.KeepAlive = 15 * time.Second // Go's default; rueidis' is a second
	}
	o.ReadBufferEachConn, o.WriteBufferEachConn = driver.BufferSize, driver.BufferSize
	return o
}

// Lane implements driver.Client. It is one connection whatever conns is: everything is pipelined on it, in
// order. Several goroutines may use each of conns.
func (c *Client) Lane(conns int) (driver.Client, error) {
	if conns < 1 {
		return nil, fmt.Errorf("rueidisdriver: a lane of %d connections: at least one is needed", conns)
	}
	return newClient(c.options, 16*conns, c.sender)
}

// Server returns the URL of the server without user, password and parameters, for display. For a client
// that uses Sentinel it is the first sentinel's.
func (c *Client) Server() string {
	o := c.options
	network := "tcp"
	if strings.HasPrefix(o.InitAddress[0], "/") {
		network = "unix"
	}
	return driver.ServerURL(network, o.InitAddress[0], o.SelectDB, o.TLSConfig != nil)
}

// Closed reports whether Close has closed its connections.
func (c *Client) Closed() bool { return c.link.shut.Load() }
