package belay

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/retry"
)

// ClientConfig configures Open and NewClient. The zero value is ready. Its fields: Prefix, Unit,
// PayloadLimit, RepeatFor, Replicas, ReplicaTimeout, DeduplicateIdempotent, Shards and Logger; their
// defaults: go doc github.com/belayq/belay/client.Config.
type ClientConfig = client.Config

// ServerConfig configures NewServer. The zero value is ready: each field's default is in its comment. The key
// prefix, the time unit and the payload limit are the client's.
type ServerConfig struct {
	// Queues are the queues to take jobs from; see the function Queues. Without weights the order is strict: a
	// job of a later queue is taken only while all earlier queues are empty. With weights, the probability
	// that a queue comes first is its share of all weights; queues without a weight have weight 1. A name with
	// a star, such as tenant-*, is a pattern: it stands for all queues that match it, as they come and go,
	// each with its weight. Without weights they are all at its place, in random order among each other. A
	// star stands for any text; "*" alone is the name of a queue. The server reads the set of queues every
	// three seconds, and lets a queue go when it is empty and its name has been deleted. It takes at most 128
	// queues at once; if more match, it logs a warning and takes them in turns. It waits for 16 of its queues,
	// each on a connection, and reads the others four times a second. See also Server.AddQueue. Default: the
	// queue "default".
	Queues []QueueWeight
	// Concurrency is the maximum number of jobs that run at once. Default: 25.
	Concurrency int
	// Capsules are sets of further queues with a concurrency of their own. Default: none.
	Capsules []Capsule
	// Timeout ends the context of a run after this long, unless its class or its push sets a Timeout.
	// Default: none.
	Timeout time.Duration
	// ShutdownTimeout is how long running jobs may continue when the server stops. Default: 25 s; negative
	// means not at all.
	ShutdownTimeout time.Duration

	// Retries is how often a failed job runs again, unless its class or its push sets Retries. Default: 25;
	// negative means none: it is moved to the dead set at once.
	Retries int
	// RetryFormula computes the delays before retries; package retry has those of older versions of Sidekiq.
	// Default: that of Sidekiq 8.
	RetryFormula retry.Formula
	// ErrorRules decide about failed jobs of every class by their errors: KillOn, DiscardOn and SnoozeOn. A
	// class' own rules go before these. Default: none.
	ErrorRules []ErrorRule
	// MaxInterruptions is the number of crashes of its process after which a job is moved to the dead set.
	// After one crash less it is quarantined: it runs with nothing beside it. Default: 3; at least 2.
	MaxInterruptions int
	// SaveInterval is the minimum time between two writes of a run's cursor to Redis: a run that a crash ends
	// loses at most the progress of that time. See Checkpoint. Default: 5 s.
	SaveInterval time.Duration
	// DeadLimit bounds the dead set, and DeadFor how long a job is kept there. A server trims the set, the
	// oldest first, whenever it adds to it: by a failed run, a recovery, or a job that cannot be run. So do
	// operators' commands and the dashboard. They do not read this field: pass them the same, if it is not the
	// default (--dead-limit and --dead-for, web.Config.DeadLimit, inspect.Inspector.WithDeadLimits). Defaults:
	// Sidekiq's, 10,000 jobs and 180 days.
	DeadLimit int
	DeadFor   time.Duration

	// Heartbeat is the heartbeat interval, and TTL how long the server counts as alive after a heartbeat.
	// Defaults: 1.5 s, and four heartbeats; a TTL is at least four heartbeats.
	Heartbeat, TTL time.Duration
	// JanitorInterval is the minimum time between the two checks of a process that seems dead. A longer
	// interval makes recovery slower but no safer. Default: one heartbeat.
	JanitorInterval time.Duration
	// PollInterval is the maximum time between two checks for due jobs. One server of the fleet makes them for
	// all. Default: 100 ms. If it is -1 in all servers, Ruby's poller must move due jobs; periodic jobs fire
	// nevertheless.
	PollInterval time.Duration
	// PollWait is how long after its start the server does not check for due jobs, plus a random time of up to
	// half of it, so that servers that start together do not all ask at once. A server that is alone runs no
	// scheduled job in that time. Default: 0.
	PollWait time.Duration

	// WaitForRedis makes a server wait at its start until Redis accepts its password, its certificate and its
	// permissions. It logs what is wrong, once a minute, and is not ready meanwhile. Default: Run returns the
	// error, because waiting alone cures none of these. In either case a server waits for a Redis that does not
	// answer, and a running server waits for everything.
	WaitForRedis bool

	// Name replaces the host name in the server's identity. Default: the host name.
	Name string
	// Tag and Labels are shown by Sidekiq's dashboard beside the server. Default: none.
	Tag    string
	Labels []string

	// Logger receives what operators should know: outages, dead processes, failed runs, and at level debug
	// every run. The server's own lines are buffered, so neither its heartbeats nor the start and the end of
	// a run wait for Logger; if the buffer is full, lines are dropped and counted. Only the Enabled of its
	// slog.Handler is called at once: it must neither block nor panic. A handler that logs by Log waits for
	// Logger. With zerolog, use Zerolog. Default: standard error from level info on, for people if it is a
	// terminal, and otherwise JSON; slog.New(slog.DiscardHandler) is silence.
	Logger *slog.Logger
	// LogArgs shows jobs' arguments in the line that each run has at level debug, as JSON text up to 4 KiB.
	// Arguments may be secret; see Redact. Default: not shown.
	LogArgs bool
	// Redact returns what LogArgs shows of a job's arguments; it need not be JSON. It is called concurrently.
	// If it panics, nothing is shown. Default: all of them.
	Redact func(class string, args json.RawMessage) json.RawMessage
	// RedactError returns what the log shows of the error of a run and, with an empty class, of a panic in a
	// callback. It is called concurrently. If it panics, nothing is shown. It does not change what is stored
	// with a failed job or, for Wait, with a tracked one. Default: the error's text.
	RedactError func(class string, err error) string
}

// QueueWeight is a queue to take jobs from, {Name: "mail", Weight: 3}. Weight 0 means no weight.
type QueueWeight = fetch.Queue

// Queues returns queues without weights, whose order is strict.
func Queues(names ...string) []QueueWeight {
	queues := make([]QueueWeight, len(names))
	for i, name := range names {
		queues[i].Name = name
	}
	return queues
}

// A Capsule gives some queues processors of their own within a server, as Sidekiq's capsules do: a slow or
// dangerous kind of job then cannot delay the others, and Concurrency 1 runs one at a time in this process.
// Capsules share the server's handlers, middleware and callbacks. A queue belongs to one capsule.
//
//	belay.ServerConfig{Queues: belay.Queues("critical", "default"), Concurrency: 20,
//		Capsules: []belay.Capsule{{Name: "unsafe", Queues: belay.Queues("thumbnails"), Concurrency: 1}}}
//
// In Redis the server with all its capsules is one worker process: `belay status` and Sidekiq's dashboard list
// it once, with all of its queues, and quiet or stop it as a whole.
type Capsule = launcher.Capsule

// Zerolog returns a Logger for the configs that writes to a zerolog.Logger. Handlers get that logger, with
// the run's fields, from zerolog.Ctx.
func Zerolog(log zerolog.Logger) *slog.Logger { return slog.New(logbook.Zerolog(log)) }

// build returns the server's launcher and its log. It names everything that is wrong, at once.
func (cfg ServerConfig) build(c *Client) (*launcher.Launcher, *logbook.Buffer, *slog.Logger, error) {
	if cfg.Logger == nil {
		cfg.Logger = logbook.New(logbook.Lines(os.Stderr, "", slog.LevelInfo)).Logger()
	}
	buffer, log := logbook.Behind(cfg.Logger)
	logging := launcher.Logging{Handler: cfg.Logger.Handler(), Args: cfg.LogArgs, Redact: cfg.Redact, RedactError: cfg.RedactError}
	of, spaces := c.Config(), c.Spaces()
	shards, numbers := make([]launcher.Shard, len(spaces)), make(map[string]int)
	for i, space := range spaces {
		shards[i] = launcher.Shard{Name: space.Name, Client: space.Driver, Prefix: space.Prefix}
		numbers[space.Name] = i
	}
	var l *launcher.Launcher
	permitted := make([]check.Permissions, len(spaces)) // by each shard, which writes its own before its Check
	wanted := func(shard launcher.Shard) check.Config {
		return check.Config{Prefix: shard.Prefix, PayloadLimit: of.PayloadLimit, Unit: of.Unit, Queues: l.QueuesAndPatterns()}
	}
	l, err := launcher.New(launcher.Config{
		Shards: shards, Home: c.Home(), PayloadLimit: of.PayloadLimit,
		Queues: cfg.Queues, Concurrency: cfg.Concurrency, Timeout: cfg.Timeout, ShutdownTimeout: cfg.ShutdownTimeout,
		Retry:            retry.Policy{Formula: cfg.RetryFormula, MaxRetries: cfg.Retries, Unit: of.Unit, Rules: retryRules(cfg.ErrorRules)},
		MaxInterruptions: cfg.MaxInterruptions,
		SaveInterval:     cfg.SaveInterval, DeadLimit: cfg.DeadLimit, DeadFor: cfg.DeadFor,
		Beat: cfg.Heartbeat, TTL: cfg.TTL, Janitor: cfg.JanitorInterval, Poll: cfg.PollInterval, PollWait: cfg.PollWait,
		Capsules: cfg.Capsules, Name: cfg.Name, Tag: cfg.Tag, Labels: cfg.Labels, Log: log, Logging: logging,
		Pusher: c,
		Permitted: func(ctx context.Context, shard launcher.Shard) (err error) {
			n := numbers[shard.Name]
			if err = spaces[n].Admit(ctx); errors.Is(err, client.ErrShards) {
				return &driver.AccessError{Err: err, Advice: "start all programs with one list of shards"} // waiting cures nothing
			} else if err != nil {
				return err
			}
			permitted[n], err = check.Permitted(ctx, shard.Client, check.RoleWorker, wanted(shard))
			return err
		},
		Check: func(ctx context.Context, shard launcher.Shard) {
			check.LogFindings(ctx, shard.Client, wanted(shard), permitted[numbers[shard.Name]], shard.Log(log))
		},
		WaitForRedis: cfg.WaitForRedis,
	})
	return l, buffer, log, err
}
