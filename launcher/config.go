package launcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// Config configures a worker process. A zero field has its default. belay.ServerConfig and belay.ClientConfig
// document the fields of the same name, with their units and defaults.
type Config struct {
	// Client is a connection to Redis. The Launcher opens its own connections from it and does not close it.
	Client driver.Client
	Prefix string
	// Shards are the keyspaces of a process with shards, in the place of Client and Prefix.
	Shards []Shard
	// Home is the index of the shard with the periodic jobs.
	Home        int
	Queues      []fetch.Queue
	Concurrency int
	// Capsules are further sets of queues, each with a concurrency of its own.
	Capsules []Capsule

	// Beat is the heartbeat interval, and TTL at least four of them: two lost heartbeats in a row must not
	// look like a crash.
	Beat, TTL time.Duration
	// Janitor is ServerConfig.JanitorInterval, Poll its PollInterval.
	Janitor, Poll, PollWait, ShutdownTimeout, Timeout time.Duration
	// pollOff leaves due jobs to Ruby's poller: a negative Poll.
	pollOff          bool
	MaxInterruptions int
	// SaveInterval is ServerConfig.SaveInterval.
	SaveInterval time.Duration

	// Retry is the policy for failed jobs; its zero fields have retry's defaults.
	Retry retry.Policy
	// DeadLimit and DeadFor are those of ServerConfig. Whatever the process moves to the dead set trims it.
	DeadLimit int
	DeadFor   time.Duration
	// PayloadLimit is the limit of the producers. A job that exceeds it by more than job.PayloadSlack is
	// moved to the dead set without a run.
	PayloadLimit int

	Name   string
	Tag    string
	Labels []string
	// Log receives what operators should know. Every write waits for it, heartbeats included, so use a logger
	// of package logbook, which does not block. Default: no log.
	Log *slog.Logger
	// Logging configures what the log shows of jobs, and the loggers of handlers.
	Logging Logging
	// Pusher is what handlers get from BatchOf: the client with which they push. The launcher does not use it.
	Pusher any
	// Permitted is called before the process registers in a shard, and returns an error if the Redis user
	// lacks a permission that it needs there. Default: not asked.
	Permitted func(context.Context, Shard) error
	// Check is called when the process has registered in a shard, in a goroutine of its own, and logs what is
	// wrong with that Redis. Its context ends with Run, which waits for it. Default: no check.
	Check func(context.Context, Shard)
	// WaitForRedis is ServerConfig.WaitForRedis.
	WaitForRedis bool
}

// The defaults of a Config.
const (
	DefaultConcurrency     = 25
	DefaultHeartbeat       = 1500 * time.Millisecond
	beatsPerTTL            = 4
	DefaultPoll            = 100 * time.Millisecond
	DefaultShutdownTimeout = 25 * time.Second
	DefaultSaveInterval    = 5 * time.Second
	maxConcurrency         = 10_000
	wrongConcurrency       = "concurrency %d: it must be between 1 and %d"
)

// WithDefaults returns the configuration with the defaults of its zero fields.
func (c Config) WithDefaults() Config {
	set(&c.Concurrency, DefaultConcurrency)
	set(&c.Beat, DefaultHeartbeat)
	set(&c.TTL, beatsPerTTL*c.Beat)
	set(&c.Janitor, c.Beat)
	if c.pollOff = c.Poll < 0; c.pollOff {
		c.Poll = 0
	}
	set(&c.Poll, DefaultPoll)
	set(&c.ShutdownTimeout, DefaultShutdownTimeout)
	set(&c.SaveInterval, DefaultSaveInterval)
	set(&c.MaxInterruptions, retry.DefaultMaxInterruptions)
	set(&c.PayloadLimit, job.DefaultPayloadLimit)
	if len(c.Queues) == 0 {
		c.Queues = []fetch.Queue{{Name: "default"}}
	}
	if len(c.Shards) == 0 {
		c.Shards = []Shard{{Client: c.Client, Prefix: c.Prefix}}
	}
	c.Capsules = slices.Clone(c.Capsules)
	for i := range c.Capsules {
		set(&c.Capsules[i].Concurrency, c.Concurrency)
	}
	c.Log = logbook.OrDiscard(c.Log)
	if c.Logging.Handler == nil {
		c.Logging.Handler = c.Log.Handler()
	}
	return c
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check names everything that is wrong, at once.
func (c Config) check() error {
	var errs []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	must(c.Concurrency >= 1 && c.Concurrency <= maxConcurrency, wrongConcurrency, c.Concurrency, maxConcurrency)
	must(c.Beat >= 10*time.Millisecond, "heartbeat %v: it must be at least 10ms", c.Beat)
	must(c.TTL >= beatsPerTTL*c.Beat, "ttl %v: it must be at least %d heartbeats (%v), or lost heartbeats would look like a crash", c.TTL, beatsPerTTL, beatsPerTTL*c.Beat)
	must(c.Janitor >= 0, "janitor %v: the time between two checks must not be negative", c.Janitor)
	must(c.Poll >= time.Millisecond, "poll %v: it must be at least 1ms", c.Poll)
	must(c.Timeout >= 0, "timeout %v: it must not be negative; leave it out for none", c.Timeout)
	for i, rule := range c.Retry.Rules {
		err := rule.Check()
		must(err == nil, "error rule %d: %w", i+1, err)
	}
	must(c.PollWait >= 0, "poll wait %v: it must not be negative", c.PollWait)
	must(c.SaveInterval > 0, "save interval %v: it must be positive", c.SaveInterval)
	must(c.MaxInterruptions >= retry.MinInterruptions, "max interruptions %d: it must be at least %d, or one crash would move all running jobs to the dead set",
		c.MaxInterruptions, retry.MinInterruptions)
	must(c.DeadLimit >= 0 && c.DeadFor >= 0, "dead set limits %d and %v: they must not be negative", c.DeadLimit, c.DeadFor)
	must(c.PayloadLimit >= 1 && c.PayloadLimit <= job.MaxPayloadLimit, "payload limit %d: it must be between 1 and %d bytes", c.PayloadLimit, job.MaxPayloadLimit)
	names := make(map[string]bool)
	must(c.Home >= 0 && c.Home < len(c.Shards), "home %d: there are %d shards", c.Home, len(c.Shards))
	for _, s := range c.Shards {
		must(s.Client != nil, "%sno client: pass a driver.Client", s.before())
		if err := lua.CheckPrefix(s.Prefix); err != nil {
			errs = append(errs, fmt.Errorf("%s%w", s.before(), err))
		}
		must(len(c.Shards) == 1 || s.Name != "", "a shard has no name, and there are %d", len(c.Shards))
		must(!names[s.Name], "shard %q: there are two of that name", s.Name)
		names[s.Name] = true
	}
	return errors.Join(errs...)
}

func (c Config) crashPolicy() retry.CrashPolicy { return retry.CrashPolicy{Most: c.MaxInterruptions} }

// drainFor returns the maximum time for which the process takes no jobs, to become empty for a quarantined
// job: as long as a stop waits for running jobs.
func (c Config) drainFor() time.Duration {
	if c.ShutdownTimeout <= 0 {
		return DefaultShutdownTimeout
	}
	return c.ShutdownTimeout
}
