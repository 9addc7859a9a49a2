package client

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/job/middleware"
	"github.com/belayq/belay/logbook"
)

// Config configures a Client. The zero value is ready: each field's default is in its comment.
type Config struct {
	// Prefix precedes every key, with a colon between. Workers of the same jobs need the same prefix. It must
	// not be "working". Default: none.
	Prefix string
	// Unit is how timestamps are written into jobs. Default: job.Seconds, which every version of Sidekiq reads;
	// versions before 8 misread job.Millis.
	Unit job.TimeUnit
	// PayloadLimit is the maximum payload in bytes, at most job.MaxPayloadLimit (2 MiB). Servers made from
	// the client have the same limit. Default: 1 MiB.
	PayloadLimit int
	// RepeatFor is how long the client itself repeats the push of a PushOnce job whose outcome is unknown,
	// within the caller's context. After that the push returns ErrUnknown. A push that has certainly failed
	// is not repeated. Default: 10 s; negative means not at all.
	RepeatFor time.Duration
	// Replicas is how many replicas must have a push before it returns without an error, and ReplicaTimeout how
	// long it waits for them; ErrReplicas says what happens after that. Redis tells a client how many have what
	// was pushed, not which, and Sentinel promotes the most advanced one that it reaches: if no failover may
	// lose a job, Replicas is the number of all replicas. Each push waits, also that of PushMany, Repeat and
	// PushPrepared, over a further connection. What workers write does not wait: a run that a failover forgets
	// is repeated. A push that is coalesced with others shares the wait. Defaults: none, and
	// DefaultReplicaTimeout; at most a minute.
	Replicas       int
	ReplicaTimeout time.Duration
	// DeduplicateIdempotent makes each Idempotent job that sets neither Unique nor NotUnique unique until it
	// starts, as GitLab does for its idempotent workers: while such a job waits, another one with the same
	// arguments is refused. It applies after the middleware. Each client has its own setting: a client
	// without it stores the job. Default: off.
	DeduplicateIdempotent bool
	// Shards are several keyspaces over which the client spreads its jobs; see Shard. All programs of a fleet
	// have the same list. Default: none, all jobs are in one keyspace.
	Shards []Shard
	// Logger receives a line, at level info, about pushes that were refused as duplicates, at most once a
	// second for a class. No push waits for it. Default: no log.
	Logger *slog.Logger
}

// A Client puts jobs into the queues of one Redis, or of several (Config.Shards). Its methods may be called
// from any goroutine.
type Client struct {
	// spaces has one space, or one for each shard; place decides among several, and is nil for one.
	spaces     []*space
	place      *placement
	cfg        Config
	middleware middleware.List[Middleware]
	pushed     atomic.Bool // a job was pushed, so no middleware may be added any more
	// linger is maxWait; tests that count slices set another.
	linger time.Duration
}

// New returns a Client, or an error that names everything wrong with the config. It sends nothing.
func New(client driver.Client, cfg Config) (*Client, error) {
	if cfg.PayloadLimit == 0 {
		cfg.PayloadLimit = job.DefaultPayloadLimit
	}
	if cfg.RepeatFor == 0 {
		cfg.RepeatFor = DefaultRepeatFor
	}
	if cfg.ReplicaTimeout == 0 {
		cfg.ReplicaTimeout = DefaultReplicaTimeout
	}
	var errs []error
	if cfg.PayloadLimit < 1 || cfg.PayloadLimit > job.MaxPayloadLimit {
		errs = append(errs, fmt.Errorf("payload limit %d: it must be between 1 and %d bytes",
			cfg.PayloadLimit, job.MaxPayloadLimit))
	}
	if cfg.Unit != job.Seconds && cfg.Unit != job.Millis {
		errs = append(errs, fmt.Errorf("time unit %d: it must be job.Seconds or job.Millis", cfg.Unit))
	}
	errs = append(errs, checkDurability(cfg.Replicas, cfg.ReplicaTimeout))
	_, log := logbook.Behind(logbook.OrDiscard(cfg.Logger))
	c := &Client{cfg: cfg, linger: maxWait}
	var err error
	c.spaces, c.place, err = newSpaces(client, &c.cfg, newRefusals(log))
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("configure a client: %w", err)
	}
	return c, nil
}

// Driver returns the driver that the Client was made with, with shards that of the first one (see Spaces); nil
// for an empty Client.
func (c *Client) Driver() driver.Client {
	if len(c.spaces) == 0 {
		return nil
	}
	return c.spaces[0].driver
}

// Page returns how many bytes of payload one push should carry, for a program that chooses which prepared
// jobs to push together: fewer at first and after a push without a reply, up to lua.MaxBytes while the link
// proves fast.
func (c *Client) Page() int {
	page := c.spaces[0].page()
	for _, s := range c.spaces[1:] {
		page = min(page, s.page())
	}
	return page
}

// Config returns the config of the Client, with its defaults filled in.
func (c *Client) Config() Config { return c.cfg }

// Close closes the driver, but no connection that a user passed to the driver. Before that, it deletes the
// idempotency keys of pushes whose replies have all arrived, which takes a second at most, and ends the Waits.
func (c *Client) Close() error {
	errs := make([]error, len(c.spaces))
	each(len(c.spaces), func(i int) { errs[i] = c.spaces[i].of(c.spaces[i].close()) })
	return errors.Join(errs...)
}

// each calls do for 0 to n-1, all at once if there are several.
func each(n int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() { do(i) })
	}
	calls.Wait()
}
