package rueidisdriver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/belayq/belay/driver"
)

var _ driver.Client = (*Client)(nil)

// Client is a driver.Client over a rueidis client of its own. It is safe for concurrent use.
type Client struct {
	source source
	*connection
	sender *driver.ScriptSender

	reconnects driver.ReconnectLimiter
	// calls is held for reading by each call that may use the connection.
	calls sync.RWMutex
}

// A source is what all connections to a server are made of, for further clients.
type source struct {
	options    rueidis.ClientOption // their dialer finds the server
	server     string               // for display
	unverified bool                 // TLS without a verified certificate
	finder     *driver.Finder
	listens    *driver.Listens
}

// Open returns a Client for a URL: redis://[user:password@]host[:port][/db], rediss:// for TLS, unix:// for a
// socket, redis+sentinel:// or redis+cluster://, as driver.ParseURL describes them. A Cluster needs the option
// driver.ForPrefix. Nothing is dialled before the first use. Its error never contains the URL, which may have a
// password.
func Open(url string, options ...driver.Option) (*Client, error) {
	u, err := driver.ParseURL(url, options...)
	if err != nil {
		return nil, fmt.Errorf("rueidisdriver: %w", err)
	}
	return open(u)
}

func open(u *driver.URL) (*Client, error) {
	dialer := driver.NewDialer(u, func(node *driver.URL) (driver.Client, error) { return open(node) })
	options := rueidis.ClientOption{
		InitAddress: u.Addrs[:1], SelectDB: u.DB, ClientName: u.ClientName,
		DialCtxFn: func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dialer.Dial(ctx)
		},
	}
	if u.Credentials != nil {
		options.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			user, password, err := u.Credentials()
			if err != nil {
				return rueidis.AuthCredentials{}, &driver.NotSentError{Err: fmt.Errorf("rueidisdriver: %w", err)}
			}
			return rueidis.AuthCredentials{Username: user, Password: password}, nil
		}
	}
	from := source{
		options: options, server: u.String(), unverified: u.TLS != nil && u.TLS.SkipVerify, finder: dialer.Finder, listens: &driver.Listens{},
	}
	return newClient(from, usualRoom, &driver.ScriptSender{})
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
	from := source{options: options, listens: &driver.Listens{}}
	network := "tcp"
	if strings.HasPrefix(options.InitAddress[0], "/") {
		network = "unix"
	}
	config := options.TLSConfig
	from.server = driver.ServerURL(network, options.InitAddress[0], options.SelectDB, config != nil)
	from.unverified = driver.Unverified(config)
	if options.Sentinel.MasterSet != "" {
		from.options, from.finder = throughSentinels(options)
	}
	return newClient(from, usualRoom, &driver.ScriptSender{})
}

// usualRoom is the room of a client that is no lane.
const usualRoom = 256

// newClient returns a client with room for a number of pipelines in flight; one more waits its turn. Room is
// what takes rueidis longest to make for a new connection, and in an outage connections are made again and
// again.
func newClient(from source, room int, sender *driver.ScriptSender) (*Client, error) {
	conn, err := connect(from.options, func(o *rueidis.ClientOption) { o.RingScaleEachConn = bits.Len(uint(room - 1)) })
	if err != nil {
		return nil, err
	}
	return &Client{source: from, connection: conn, sender: sender}, nil
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
		o.Dialer.KeepAlive = driver.KeepAlive // rueidis' own is a second
	}
	o.ReadBufferEachConn, o.WriteBufferEachConn = driver.BufferSize, driver.BufferSize
	if ask := o.AuthCredentialsFn; ask != nil {
		o.AuthCredentialsFn = func(of rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return contained("the function for credentials", func() (rueidis.AuthCredentials, error) { return ask(of) })
		}
	}
	return o
}

// Lane implements driver.Client. It is one connection whatever conns is: everything is pipelined on it, in
// order. Several goroutines may use each of conns.
func (c *Client) Lane(conns int) (driver.Client, error) {
	if conns < 1 {
		return nil, fmt.Errorf("rueidisdriver: a lane of %d connections: at least one is needed", conns)
	}
	return newClient(c.source, 16*conns, c.sender)
}

// Server returns the URL of the server without user, password and parameters, for display. For a client made
// by New that uses Sentinel it is the first sentinel's.
func (c *Client) Server() string { return c.source.server }

// Unverified reports whether it uses TLS without verifying the server's certificate.
func (c *Client) Unverified() bool { return c.source.unverified }

// Closed reports whether Close has closed its connections.
func (c *Client) Closed() bool { return c.link.shut.Load() }
