package rueidisdriver

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/belayq/belay/driver"
)

var _ driver.Client = (*Client)(nil)

// Client is a driver.Client over a rueidis client of its own. It may be used from any goroutine.
type Client struct {
	options rueidis.ClientOption // as they came
	redis   rueidis.Client
	link    *link
	dialect *driver.Dialect
	closing sync.Once
}

// dialTimeout bounds one attempt to connect. A second lets a lost SYN be sent again; a server that has not
// accepted by two is away, and it is better to say so than to hold up a heartbeat.
const dialTimeout = 2 * time.Second

// An Option changes the rueidis options that Open has read from its URL. What keeps the promises of
// driver.Client is set after it and cannot be changed.
type Option func(*rueidis.ClientOption)

// Open makes a Client for a URL: redis://[user:password@]host[:port][/db], rediss:// for TLS, or
// unix://[user:password@]/path?db=N. Parameters are those of driver.ParseURL, which other adapters know as
// well, and rueidis' own for Sentinel: master_set, and addr for each further sentinel. Nothing is dialled
// before the first use. Its error never repeats the URL, which may hold a password.
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

// New makes a Client with a user's own options: addresses, credentials, TLS, dialer. A rueidis.Client itself
// cannot be shared: what keeps a call from being executed twice is decided when it is made, and cannot be
// read off it. With Sentinel.MasterSet the addresses are those of sentinels, and every connection is dialled
// to whom they name as the primary then. Nothing is dialled before the first use.
func New(options rueidis.ClientOption) (*Client, error) {
	switch n := len(options.InitAddress); {
	case options.Sentinel.MasterSet != "" && n == 0:
		return nil, errors.New("rueidisdriver: no address of a sentinel")
	case options.Sentinel.MasterSet == "" && n != 1:
		return nil, fmt.Errorf("rueidisdriver: %d addresses: exactly one is needed", n)
	}
	return newClient(options, &driver.Dialect{})
}

func newClient(options rueidis.ClientOption, dialect *driver.Dialect) (*Client, error) {
	link := newLink(options)
	redis, err := connect(ours(options), link)
	if err != nil {
		return nil, err
	}
	return &Client{options: options, redis: redis, link: link, dialect: dialect}, nil
}

// connect makes a rueidis client that has not dialled: rueidis dials once while it is made, and while the
// link is still shut that fails without touching the network.
func connect(options rueidis.ClientOption, link *link) (rueidis.Client, error) {
	options.DialCtxFn, options.DialFn = link.Dial, nil
	client, err := rueidis.NewClient(options)
	if client == nil {
		return nil, fmt.Errorf("make a rueidis client: %w", err)
	}
	link.open()
	return client, nil
}

// ownParameters are the parameters of URLs that only rueidis knows. There is no cache for client_cache to
// switch off.
var ownParameters = []string{"addr", "client_cache", "master_set"}

// parseURL reads a URL without ever repeating it: rueidis quotes the part it stumbles over.
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

// ours sets what the promises of driver.Client rest on.
func ours(o rueidis.ClientOption) rueidis.ClientOption {
	o.DisableRetry = true
	o.ConnLifetime = 0 // at its end rueidis re-sends what was in flight
	// The pipelining connection is the one that keeps earlier answers when it breaks, and that notices while
	// it is idle that the server has closed it.
	o.AlwaysPipelining, o.DisableAutoPipelining = true, false
	o.PipelineMultiplex = -1 // one connection
	o.BlockingPipeline = -1  // however long a pipeline is, it is not moved to the blocking pool
	o.BlockingPoolSize = 1
	o.ForceSingleClient = true
	// The link finds the primary. The one address stands for all.
	o.Sentinel, o.InitAddress = rueidis.SentinelOption{}, o.InitAddress[:1]
	o.DisableCache = true
	o.AlwaysRESP2 = true // nothing here uses pushes, and answers have one shape
	o.ClientSetInfo = rueidis.DisableClientSetInfo
	// With a negative value there is no background PING, which would cost an idle connection a command per
	// second and fail a slow call after ten; our own deadlines find a dead connection.
	o.ConnWriteTimeout = -1
	if o.Dialer.Timeout <= 0 || o.Dialer.Timeout > dialTimeout {
		o.Dialer.Timeout = dialTimeout
	}
	if o.Dialer.KeepAlive == 0 {
		o.Dialer.KeepAlive = 15 * time.Second // Go's default; rueidis' is a second
	}
	o.ReadBufferEachConn, o.WriteBufferEachConn = bufferSize, bufferSize
	o.RingScaleEachConn = 8 // 256 pipelines in flight; one more waits its turn
	return o
}

// bufferSize holds a usual pipeline (a hundred jobs of some hundred bytes) in one system call; rueidis' own
// is half a mebibyte each way.
const bufferSize = 32 << 10

// Lane implements driver.Client. It is one connection whatever conns is: everything is pipelined on it, in
// order.
func (c *Client) Lane(conns int) (driver.Client, error) {
	if conns < 1 {
		return nil, fmt.Errorf("rueidisdriver: a lane of %d connections: at least one is needed", conns)
	}
	return newClient(c.options, c.dialect)
}

// Close implements driver.Client. Calls under way fail; closing again does nothing.
func (c *Client) Close() error {
	c.closing.Do(func() {
		c.link.close() // first, or rueidis would wait a second for a silent server
		c.redis.Close()
	})
	return nil
}

// Server returns the URL of the server without user, password and parameters, for display. For a client that
// uses Sentinel it is the first sentinel's.
func (c *Client) Server() string {
	o := c.options
	network := "tcp"
	if strings.HasPrefix(o.InitAddress[0], "/") {
		network = "unix"
	}
	return driver.ServerURL(network, o.InitAddress[0], o.SelectDB, o.TLSConfig != nil)
}

// Closed says whether Close has ended its connections.
func (c *Client) Closed() bool { return c.link.isShut() }
