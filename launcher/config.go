package launcher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// Config configures a worker process. A zero field has the default that its comment names.
type Config struct {
	// Client is the way to Redis. The Launcher opens connections of its own from it and does not close it.
	Client driver.Client
	// Prefix stands before every key, with a colon between. None.
	Prefix string
	// Queues to take from; without weights in this order, strictly. "default".
	Queues []fetch.Queue
	// Concurrency is how many jobs run at once. 25.
	Concurrency int

	// Beat is how often the process says that it lives, TTL how long it counts as alive after that. 1.5 s,
	// and four beats. A TTL is at least four beats: two lost in a row must not look like death.
	Beat, TTL time.Duration
	// Janitor is the least time between the two looks at a process that has lapsed; two of its own beats
	// hold besides. One beat.
	Janitor time.Duration
	// Poll bounds the time between two looks at the schedule and the retry set, by the one process of the
	// fleet that does so. 100 ms.
	Poll time.Duration
	// PollWait is how long after its start the process does not poll the schedule and the retry set.
	// Default: 0, so jobs that came due while no worker ran are moved at once.
	PollWait time.Duration
	// ShutdownTimeout is how long running jobs may go on after Stop. 25 s. Negative is none.
	ShutdownTimeout time.Duration
	// Timeout is the timeout of runs whose class and push set none. Default: none.
	Timeout time.Duration
	// MaxInterruptions is how many crashes of its process a job may be in hand for; one short of it, it
	// runs alone, and a crash then moves it to the dead set. retry.DefaultMostInterruptions; at least
	// retry.LeastMostInterruptions.
	MaxInterruptions int

	// Retry is the policy for failed jobs; its zero fields have retry's defaults.
	Retry retry.Policy
	// DeadMost and DeadFor bound the dead set: the number of jobs kept, and how long. 0 means Sidekiq's
	// limits: 10,000 and 180 days.
	DeadMost int
	DeadFor  time.Duration
	// PayloadLimit is the longest payload in bytes that its producers may push; a job that is longer by more
	// than job.PayloadSlack does not run but is moved to the dead set. job.DefaultPayloadLimit;
	// job.MaxPayloadLimit at most.
	PayloadLimit int

	// Capsules are further sets of queues, each with a concurrency of its own. None.
	Capsules []Capsule

	// Name stands for the host in the identity. This machine's host name.
	Name string
	// Tag and Labels are shown by Sidekiq's dashboard. None.
	Tag    string
	Labels []string
	// Log receives what operators should know. Each write waits for it, heartbeats included:
	// package logbook makes loggers that do not block. A disabled logger.
	Log *zerolog.Logger
	// Logging is what it shows of jobs, and what handlers log with.
	Logging Logging
}

// What a zero field of a Config stands for.
const (
	DefaultConcurrency     = 25
	DefaultHeartbeat       = 1500 * time.Millisecond
	beatsPerTTL            = 4
	DefaultPoll            = 100 * time.Millisecond
	DefaultShutdownTimeout = 25 * time.Second
	defaultDeadMost        = 10_000
	defaultDeadFor         = 180 * 24 * time.Hour
	mostConcurrency        = 10_000
	wrongConcurrency       = "concurrency %d: it lies between 1 and %d"
)

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	set(&c.Concurrency, DefaultConcurrency)
	set(&c.Beat, DefaultHeartbeat)
	set(&c.TTL, beatsPerTTL*c.Beat)
	set(&c.Janitor, c.Beat)
	set(&c.Poll, DefaultPoll)
	set(&c.ShutdownTimeout, DefaultShutdownTimeout)
	set(&c.MaxInterruptions, retry.DefaultMostInterruptions)
	set(&c.DeadMost, defaultDeadMost)
	set(&c.DeadFor, defaultDeadFor)
	set(&c.PayloadLimit, job.DefaultPayloadLimit)
	if len(c.Queues) == 0 {
		c.Queues = []fetch.Queue{{Name: "default"}}
	}
	c.Capsules = slices.Clone(c.Capsules)
	for i := range c.Capsules {
		set(&c.Capsules[i].Concurrency, c.Concurrency)
	}
	if c.Log == nil {
		nop := zerolog.Nop()
		c.Log = &nop
	}
	if c.Logging.Zerolog == nil && c.Logging.Slog == nil {
		c.Logging.Zerolog = c.Log
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
	var wrong []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	must(c.Client != nil, "no client: pass a driver.Client")
	must(c.Concurrency >= 1 && c.Concurrency <= mostConcurrency, wrongConcurrency, c.Concurrency, mostConcurrency)
	must(c.Beat >= 10*time.Millisecond, "heartbeat %v: it is at least 10ms", c.Beat)
	must(c.TTL >= beatsPerTTL*c.Beat, "ttl %v: it is at least %d heartbeats (%v), or a lost beat would look like death", c.TTL, beatsPerTTL, beatsPerTTL*c.Beat)
	must(c.Janitor >= 0, "janitor %v: the time between two looks is not negative", c.Janitor)
	must(c.Poll >= time.Millisecond, "poll %v: it is at least 1ms", c.Poll)
	must(c.Timeout >= 0, "timeout %v: it must not be negative; leave it out for none", c.Timeout)
	must(c.PollWait >= 0, "poll wait %v: it must not be negative", c.PollWait)
	must(c.MaxInterruptions >= retry.LeastMostInterruptions, "max interruptions %d: it is at least %d, or one crash would move every job it hits to the dead set",
		c.MaxInterruptions, retry.LeastMostInterruptions)
	must(c.DeadMost >= 0 && c.DeadFor >= 0, "dead set limits %d and %v: they are not negative", c.DeadMost, c.DeadFor)
	must(c.PayloadLimit >= 1 && c.PayloadLimit <= job.MaxPayloadLimit, "payload limit %d: it lies between 1 and %d bytes", c.PayloadLimit, job.MaxPayloadLimit)
	return errors.Join(wrong...)
}

func (c Config) crashPolicy() retry.CrashPolicy { return retry.CrashPolicy{Most: c.MaxInterruptions} }

// drainFor is how long at most the process takes nothing for a quarantined job's sake: as long as running
// jobs are waited for at a stop.
func (c Config) drainFor() time.Duration {
	if c.ShutdownTimeout <= 0 {
		return DefaultShutdownTimeout
	}
	return c.ShutdownTimeout
}
