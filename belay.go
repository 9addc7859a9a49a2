package belay

import (
	"context"
	"fmt"
	"time"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/job/args"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// Version is the version of this source.
const Version = "0.1.0"

// The types of the packages below that programs use.
type (
	// Client pushes jobs: its methods are Push, PushMany and PushSeq, Prepare and PushPrepared, Repeat, Wait
	// and Tracked, SetPeriodic and RemovePeriodic, Use and RemoveMiddleware for middleware, and Close. See
	// go doc github.com/belayq/belay/client.Client.
	Client = client.Client
	// RawJob is a job before it is pushed; Job is one that a worker has read. Definition.Job makes a RawJob.
	// Write one by hand for a class that has no Definition here, such as one that Ruby runs:
	// RawJob{Class: "Report", Args: []any{42}, Queue: "slow"}. Its fields: go doc
	// github.com/belayq/belay/client.RawJob.
	RawJob = client.RawJob
	// Receipt reports the outcome of a push: the job's JID, Queue and Status, the Reason if it was refused, the
	// Holder of a duplicate, and for a push that waits for Replicas how many have it.
	Receipt = client.Receipt
	// BulkError reports how far a bulk push came.
	BulkError = client.BulkError
	// InvalidError is the error of a push and of Client.Prepare for a job that cannot be pushed, and of
	// NewBatch for such a callback: its Class, and Err, which says why. Nothing was sent.
	InvalidError = client.InvalidError
	// Prepared is a job of Client.Prepare, which Client.PushPrepared stores: its Payload, and At, when it is
	// due.
	Prepared = client.Prepared
	// IdempotencyKey identifies a push of Client.PushPrepared: its Scope, its Number and its Mark.
	IdempotencyKey = client.IdempotencyKey
	// PushMiddleware sees each job before it is pushed, and may change or refuse it (see Refuse): func(ctx,
	// *RawJob) error.
	PushMiddleware = client.Middleware
	// Job is a parsed payload, as middleware and raw handlers get it. Its methods (Class, JID, Queue,
	// ArgsJSON, Field and more): go doc github.com/belayq/belay/job.Job.
	Job = job.Job
	// ArgumentError names the argument of a job that does not fit its Definition. It shows types and never
	// the argument.
	ArgumentError = args.Error
	// Handler is a handler without typed arguments: func(ctx, *Job) error. Middleware wraps it, and
	// Server.HandleRaw registers one for a class without a Definition.
	Handler = launcher.Handler
	// Middleware wraps every run of a Server: func(next Handler) Handler.
	Middleware = launcher.Middleware
	// RunInfo describes a run: its JID, Class and Queue, the Attempt (1 at first) and MaxAttempts, CreatedAt
	// and EnqueuedAt, the Meta of its push, the Identity of the process, and for a tick of a periodic job its
	// name, Periodic, its time, TickAt, and TickManual if an operator asked for it.
	RunInfo = launcher.RunInfo
	// Outcome is how a run ends, as AfterRun passes it: its Exit is done, retry, dead, discarded, cancelled,
	// expired, snoozed, requeued or waits (after RateLimited), and Counts reports whether the run failed.
	Outcome = job.Outcome
	// PanicError is the error of a handler that panicked.
	PanicError = retry.PanicError
)

// The outcomes of a push.
const (
	StatusQueued    = client.StatusQueued    // the job is in its queue
	StatusScheduled = client.StatusScheduled // it goes to its queue when it is due
	StatusPrepared  = client.StatusPrepared  // it is complete, and Client.PushPrepared will store it
	StatusRefused   = client.StatusRefused   // middleware refused it, which is not an error
	StatusDuplicate = client.StatusDuplicate // another job holds the lock of a Unique job, which is not an error
	StatusUnknown   = client.StatusUnknown   // the reply was lost: the error is ErrUnknown
	StatusNotPushed = client.StatusNotPushed // it is certainly not in Redis, and the error says why
)

// Status is the outcome of a push.
type Status = client.Status

// Errors for errors.Is.
var (
	// ErrUnknown is the error of a push whose reply was lost: Redis may or may not have the job. Another push
	// may store it a second time. A PushOnce job was sent again already, for ClientConfig.RepeatFor;
	// Client.Repeat sends it again, up to a day after the first time.
	ErrUnknown = client.ErrUnknown
	// ErrReplicas is the error of a push that is stored, but on fewer replicas than Replicated or
	// ClientConfig.Replicas wants. The job runs, and a failover may lose it. Another push may store it a second
	// time.
	ErrReplicas = client.ErrReplicas
	// ErrFull is the error of a push that Redis refused for lack of memory.
	ErrFull = client.ErrFull
	// ErrOldWorker is the error of a push with ExpiresIn, Deadline, InBatch or Then, and of NewBatch, while a
	// worker of a version that ignores them is registered. Nothing was stored; update that worker's program
	// first.
	ErrOldWorker = client.ErrOldWorker
	// ErrStale is the error of Client.PushPrepared if Redis has a later push in the scope of the
	// IdempotencyKey, or another one with its number.
	ErrStale = client.ErrStale
	// ErrNotRepeatable is the error of Client.Repeat for a push that must not be sent again.
	ErrNotRepeatable = client.ErrNotRepeatable
	// ErrTimeout is the context.Cause in a handler that takes longer than its Timeout. It also matches
	// context.DeadlineExceeded.
	ErrTimeout = launcher.ErrTimeout
	// ErrShutdown is the context.Cause in a handler whose process is stopping.
	ErrShutdown = launcher.ErrShutdown
	// ErrOwnershipLost is the context.Cause in a handler whose process was declared dead; another process
	// runs its job.
	ErrOwnershipLost = fetch.ErrOwnershipLost
	// ErrCancelled is the context.Cause in a handler whose job was cancelled. The job ends without a retry,
	// whatever error the handler returns; if it returns nil, the job is done.
	ErrCancelled = launcher.ErrCancelled
	// ErrCrashed is the error of a job that was moved to the dead set because its process crashed too often
	// while it ran, the last time with nothing else running.
	ErrCrashed = launcher.ErrCrashed
	// ErrDeadline is the context.Cause in a handler whose job is not done by its Deadline. It also matches
	// ErrTimeout and context.DeadlineExceeded.
	ErrDeadline = launcher.ErrDeadline
)

// Discard returns an error that a handler returns to drop its job. The run counts as failed if cause is not
// nil. Middleware finds this error, and those of Kill, RetryIn and Snooze, with errors.As and a
// *retry.AskError.
func Discard(cause error) error { return retry.Discard(cause) }

// Kill returns an error that a handler returns to move its job to the dead set, without further retries.
func Kill(cause error) error { return retry.Kill(cause) }

// RetryIn returns an error that a handler returns to fail its run and to choose the delay: the job is due again
// after d, without jitter. That uses up a retry.
func RetryIn(d time.Duration, cause error) error { return retry.In(d, cause) }

// Snooze returns an error that a handler returns to run its job again after d. The run does not count as
// failed and uses up no retry.
func Snooze(d time.Duration) error { return retry.Snooze(d) }

// Refuse returns the error with which a PushMiddleware refuses a job; the receipt has the reason.
func Refuse(reason string) error { return client.Refuse(reason) }

// Info describes the run that ctx belongs to; ok is false outside of a run.
func Info(ctx context.Context) (info RunInfo, ok bool) { return launcher.Info(ctx) }

// Stopping returns a channel that is closed when the server begins to stop. ctx ends later, after the
// shutdown timeout. When the channel is closed, a long handler can return Interrupted, so that its job runs
// again elsewhere; Checkpoint does so. Outside of a run Stopping returns nil, which blocks for ever.
func Stopping(ctx context.Context) <-chan struct{} { return launcher.Stopping(ctx) }

// AfterRun registers a callback for the outcome of ctx's run. Whether a failed job is retried or dead is
// decided after all middleware has returned, so middleware that needs the outcome, such as to end a span of a
// trace, reads it in the callback. The callback is called once, before the outcome is stored, and the run's
// processor waits for it. err is the run's error; a panic is a *PanicError. AfterRun may be called from any
// goroutine. It reports whether the callback will be called: ctx belongs to a run that has not ended. It panics
// if the callback is nil.
func AfterRun(ctx context.Context, callback func(outcome Outcome, err error)) bool {
	return launcher.AfterRun(ctx, callback)
}

// Open returns a Client for a URL, such as redis://localhost:6379/0, and checks that Redis answers and is not
// older than 7.0. With Sentinel the URL is redis+sentinel://host1,host2,host3/NAME; with Redis Cluster it is
// redis+cluster://host1,host2, and the Prefix needs a hash tag, such as {shop}. rediss instead of redis means
// TLS. driver.ParseURL describes all forms and parameters. A nil config is the zero ClientConfig. The error
// never shows the URL's password. The caller closes the Client, after the servers made from it. A program that
// must start while Redis is away makes its Client without this check:
//
//	driver, err := goredisdriver.Open("redis://localhost:6379/0") // package driver/goredisdriver; sends nothing
//	client, err := belay.NewClient(driver, nil)
//
// With redis+cluster://host1,host2?shards=12, with a list such as "a=redis://host1 b=redis://host2", or with
// ClientConfig.Shards, the client spreads its jobs over several keyspaces: see Shard. One that is away is no
// error, unless all are. With a list of shards in the config that all have a URL, url is empty.
func Open(ctx context.Context, url string, cfg *ClientConfig) (*Client, error) {
	if cfg == nil {
		cfg = &ClientConfig{}
	}
	c, err := client.Open(url, *cfg, func(url string, options ...driver.Option) (driver.Client, error) {
		d, err := goredisdriver.Open(url, options...)
		if err != nil {
			return nil, err
		}
		if cfg.Logger != nil {
			check.LogCertificate(d, cfg.Logger)
		}
		return d, nil
	})
	if err != nil {
		return nil, fmt.Errorf("belay: open: %w", err)
	}
	if err := c.Greet(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("belay: open: %w", err)
	}
	return c, nil
}

// A Shard is one of several keyspaces over which a Client spreads its jobs: its Name, its URL or Driver, its
// Prefix, and whether it is Closed or Unbound. See go doc github.com/belayq/belay/client.Shard, and
// docs/scaling.md.
type Shard = client.Shard

// ClusterShards returns a list of n shards for ClientConfig.Shards, which spread over the nodes of one Redis
// Cluster. The parameter shards=n of a URL is the same.
func ClusterShards(n int) []Shard { return client.Shards(n) }

// ErrShards is the error of Open, and of a push, if the shards of this program are not those of the programs
// before it.
var ErrShards = client.ErrShards

// ShardKey places a job, with shards (ClientConfig.Shards), on the shard of a text, such as the id of a
// tenant: all jobs with one text are on one shard, with their locks and limits. Without it the lock of a
// unique job and the gate of a limited one have a shard each, and a push that has both on different shards
// fails. Jobs that share a lock or a limit need the same ShardKey, or each shard has a lock of its own. A job
// and its next jobs, and a batch and its callbacks, are on one shard: if their keys are not, the push fails. An
// empty text is an error.
func ShardKey(text string) JobOption {
	return func(i *RawJob) { i.ShardKey = named(i, "ShardKey", text) }
}

// NewClient returns a Client that uses a driver. goredisdriver.New and rueidisdriver.New, in the packages
// below driver, make one of a go-redis client or of the options of a rueidis client. NewClient sends nothing.
// A nil config is the zero ClientConfig. The error names everything that is wrong with the config, at once.
func NewClient(d driver.Client, cfg *ClientConfig) (*Client, error) {
	if cfg == nil {
		cfg = &ClientConfig{}
	}
	return client.New(d, *cfg)
}
