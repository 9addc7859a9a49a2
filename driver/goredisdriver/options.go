package goredisdriver

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/belayq/belay/driver"
)

// An Option changes the go-redis options that Open has read from its URL. The settings for the promises of
// driver.Client (no retries, deadlines from contexts) are applied later and cannot be changed.
type Option func(*redis.Options)

// parseURL reads a URL. Its errors do not contain any of it, while go-redis quotes the part that it cannot
// read. enforced overrides its parameters for idle connections, pipelines and retries.
func parseURL(text string) (*redis.Options, error) {
	parsed, err := driver.ParseURL(text, driver.PoolParameters...)
	if err != nil {
		return nil, fmt.Errorf("goredisdriver: %w", err)
	}
	options, err := redis.ParseURL(parsed.String())
	if err != nil {
		return nil, errors.New("goredisdriver: the Redis URL has a parameter whose value go-redis does not understand")
	}
	return options, nil
}

// enforced copies options and applies the settings for the promises of driver.Client. grace is that of each
// conn.
func enforced(from *redis.Options, grace time.Duration) *redis.Options {
	o := *from
	o.MaxRetries = -1 // 0 would mean three
	o.ContextTimeoutEnabled = true
	// Deadlines come only from contexts: a Do without one gets driver.CallTimeout.
	o.ReadTimeout, o.WriteTimeout = -1, -1
	if o.DialTimeout <= 0 || o.DialTimeout > driver.DialTimeout {
		o.DialTimeout = driver.DialTimeout
	}
	o.Dialer = failLate(&o, grace)
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
