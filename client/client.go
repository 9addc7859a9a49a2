package client

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// Config is what a Client may be told. A zero field has its default, named beside it.
type Config struct {
	// Prefix stands before every key, with a colon between; workers must have the same. None.
	Prefix string
	// Unit is how timestamps are written. job.Seconds, which every version of Sidekiq reads.
	Unit job.TimeUnit
	// PayloadLimit is the longest payload that may be pushed, in bytes; workers must be told the same.
	// job.DefaultPayloadLimit; job.MaxPayloadLimit at most.
	PayloadLimit int
	// DeduplicateIdempotent makes each Idempotent job that sets neither Unique nor NotUnique unique until it
	// starts (dedup.UntilExecuting), as GitLab does for its idempotent workers. It applies after the
	// middleware. Default: off.
	DeduplicateIdempotent bool
	// Middleware sees each job before it is checked and sent, in this order. None.
	Middleware []Middleware
	// RepeatFor is how long the client itself repeats a push of a Repeatable job whose outcome is unknown, within the
	// caller's context; after that the push answers ErrUnknown. A push that has certainly failed is not repeated.
	// DefaultRepeatFor; below 0 not at all.
	RepeatFor time.Duration
	// Log is told of pushes that were refused as duplicates, at most once a second for a class. Nobody.
	Log zerolog.Logger
}

// A Client puts jobs into the queues of one Redis. Its methods may be called from any goroutine.
type Client struct {
	driver driver.Client
	cfg    Config
	keys   lua.Keys
	// linger is mostWait; tests that count slices set another.
	linger time.Duration
	slots  *slots
	joints joints
	// refusals are those of duplicates.
	refusals *refusals

	clock lua.Clock
	born  time.Time
	// askAt is when Redis is to be asked for its time again, as a duration since born; 0 means that it never was.
	askAt atomic.Int64
}

// New checks the configuration, all of it at once, and makes a Client. It sends nothing.
func New(client driver.Client, cfg Config) (*Client, error) {
	if cfg.PayloadLimit == 0 {
		cfg.PayloadLimit = job.DefaultPayloadLimit
	}
	if cfg.RepeatFor == 0 {
		cfg.RepeatFor = DefaultRepeatFor
	}
	var wrong []error
	if client == nil {
		wrong = append(wrong, errors.New("no client: pass a driver.Client"))
	}
	if cfg.PayloadLimit < 1 || cfg.PayloadLimit > job.MaxPayloadLimit {
		wrong = append(wrong, fmt.Errorf("payload limit %d: it lies between 1 and %d bytes", cfg.PayloadLimit, job.MaxPayloadLimit))
	}
	if cfg.Unit != job.Seconds && cfg.Unit != job.Millis {
		wrong = append(wrong, fmt.Errorf("time unit %d: it is job.Seconds or job.Millis", cfg.Unit))
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, fmt.Errorf("configure a client: %w", err)
	}
	keys := lua.NewKeys(cfg.Prefix)
	return &Client{
		driver: client, cfg: cfg, keys: keys, linger: mostWait, slots: newSlots(keys), refusals: newRefusals(cfg.Log), born: time.Now(),
	}, nil
}

// Driver is the way to Redis that the Client was made with.
func (c *Client) Driver() driver.Client { return c.driver }

// Config is what the Client was told, its defaults filled in.
func (c *Client) Config() Config { return c.cfg }

// Close closes the driver. A connection that a user handed to the driver stays open. Before, it frees Redis of the numbers of
// Repeatable pushes that have all been answered, for which it waits a second at most.
func (c *Client) Close() error {
	c.forget()
	return c.driver.Close()
}
