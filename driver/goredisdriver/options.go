package goredisdriver

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/belayq/belay/driver"
)

// optionsOf returns the options for a URL, with its dialer. go-redis reads only the parameters of its pool, of
// which enforced overrides those for idle connections, pipelines and retries.
func optionsOf(u *driver.URL, dialer *driver.Dialer) (*redis.Options, error) {
	options, err := redis.ParseURL("redis://?" + u.Pool.Encode())
	if err != nil {
		return nil, errors.New("goredisdriver: the Redis URL has a parameter whose value go-redis does not understand")
	}
	options.Network, options.Addr, options.DB, options.ClientName = u.Network, u.Addrs[0], u.DB, u.ClientName
	options.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.Dial(ctx) }
	if u.Credentials != nil {
		options.CredentialsProviderContext = func(context.Context) (string, string, error) { return u.Credentials() }
	}
	return options, nil
}

// enforced copies options and applies the settings for the promises of driver.Client.
func enforced(from *redis.Options) *redis.Options {
	o := *from
	o.MaxRetries = -1 // 0 would mean three
	o.ContextTimeoutEnabled = true
	// Deadlines come only from contexts: a Do without one gets driver.CallTimeout.
	o.ReadTimeout, o.WriteTimeout = -1, -1
	if o.DialTimeout <= 0 || o.DialTimeout > driver.DialTimeout {
		o.DialTimeout = driver.DialTimeout
	}
	// RESP2: nothing here uses pushes, and with RESP3 go-redis would look for them before every command.
	o.Protocol = 2
	o.DisableIdentity = true // saves a round trip of every new connection
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	// One pool for single commands and pipelines, or a lane of one connection could open eleven.
	o.PipelinePoolSize = -1
	o.MinIdleConns, o.MaxActiveConns, o.MaxConcurrentDials = 0, 0, 0
	o.ReadBufferSize, o.WriteBufferSize = driver.BufferSize, driver.BufferSize
	return &o
}
