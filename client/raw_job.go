package client

import (
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/job/seal"
)

const (
	// DefaultQueue is the queue of a job that sets none.
	DefaultQueue = job.DefaultQueue
	// AllLines is the Backtrace that keeps an error's whole stack.
	AllLines = -1
)

// A RawJob is a job to push. Only Class must be set.
type RawJob struct {
	// Class is the name by which workers find the handler.
	Class string
	// Args are its arguments, which job.MarshalArgs writes.
	Args []any
	// ArgsJSON holds the arguments as a JSON array. Values are kept; their spelling becomes Ruby's (see
	// job.Marshal). Only one of Args and ArgsJSON may be set.
	ArgsJSON string
	// Queue is the queue that the job goes to. Default: DefaultQueue.
	Queue string
	// JID is the job's id. It must be unique, which is not checked: use Key to store a job once. Default: 24
	// random hexadecimal digits.
	JID string

	// In delays the job, by Redis' clock; At schedules it for an instant. At most one may be set. Zero, or an
	// instant in the past, means now. Probable mistakes are refused: more than a hundred years ahead, an At
	// before 1970, an In below minus a hundred years.
	In time.Duration
	At time.Time

	// Key stores one job for each key: while the key is remembered, for KeyFor, a push of any job with the
	// same key stores nothing, even if the first job has ended. Its receipt has StatusDuplicate, and its
	// Holder is the jid of the first job. The key may have any bytes, at most dedup.MaxKey of them, and is
	// not stored: the lock has its digest. With Unique, the key is asked first, and a job that either refuses
	// takes neither lock; MarkDuplicates is an error. Config.DeduplicateIdempotent does not apply. Default: no
	// key.
	Key string
	// KeyFor is how long the key is remembered, in whole milliseconds, from when the job is due. Without a Key
	// it has no effect. Default: dedup.DefaultKeyFor.
	KeyFor time.Duration

	// PushOnce gives the push an idempotency key, by which Redis stores it once however often it is sent. The
	// client sends it again if no reply comes, as Config.RepeatFor says, and Client.Repeat sends it again
	// later. It costs a script instead of an LPUSH, and an expiring key for each concurrent push of a client.
	// It has no effect on runs: the job may still run twice.
	PushOnce bool

	// Batch makes the job a member of this batch: see BatchConfig. It is pushed as PushOnce, and the push fails
	// with ErrBatchOver if the batch is over, and with ErrOldWorker while a worker of an older version is
	// registered. Default: none.
	Batch *Batch

	// Then are the next jobs: each is enqueued when the job is done, in the step that ends its run, at the back
	// of its own queue. Any other end enqueues none; a job that runs again does so when it is done at last. A
	// next job may have next jobs. It has no In, At, Key, Unique, Replicas or Batch; its ExpiresIn and Deadline
	// count from the instant at which it is enqueued. Its payload is a part of that of the job, and counts for
	// PayloadLimit. Middleware sees it at the push, and the push fails if it refuses it. With shards, the job
	// goes to the shard of the limit or the ShardKey of its next jobs. At most batch.MaxNext are allowed.
	// Pushes fail with ErrOldWorker while a worker of an older version is registered. Default: none.
	Then []RawJob

	// ShardKey places the job, with shards, on the shard of this text instead of those of its lock and its
	// limit: all jobs with one text are on one shard. A job whose next jobs are bound to another shard is
	// refused, and so is a batch if its callbacks are. Without shards it has no effect. Default: none.
	ShardKey string

	// gate returns the gate of the job for its payload: see LimitedBy.
	gate func(payload string) string
	// after is the jid of the job whose next job this is; "" for most jobs.
	after string
	// endOf is the batch whose callback the job is; nil for most jobs.
	endOf *Batch
	// Replicas is how many replicas must have the job before its push returns without an error, and
	// ReplicaTimeout how long the push waits for them. Jobs that are pushed in one slice wait for the most that
	// one of them wants. See Config.Replicas and ErrReplicas. Prepare and periodic jobs do not push: Prepare
	// ignores them, and SetPeriodic refuses them. Defaults: those of the client.
	Replicas       int
	ReplicaTimeout time.Duration

	// needs is the protocol that workers must understand to run the job; 0 if every worker can run it.
	needs int

	// Retry sets how often a failed job runs again. Default: that of the server.
	Retry job.RetryRule
	// RetryFor ends retries this long after the first failure, in whole seconds. Default: no such limit.
	RetryFor time.Duration
	// RetryQueue is the queue that retries go to. Default: the queue that the job was taken from.
	RetryQueue string
	// Backtrace is how many lines of an error's stack are kept with a failed job; AllLines keeps all.
	// Default: none.
	Backtrace int
	// NoDead drops the job when it has no retries left, instead of moving it to the dead set.
	NoDead bool
	// Unique refuses the job while an equal job holds their common lock: see package dedup. The receipt of a
	// refused job has StatusDuplicate. Default: not unique.
	Unique *dedup.Rule
	// Idempotent declares that a second run of the job has no further effect. A client with
	// Config.DeduplicateIdempotent makes such a job unique, unless Unique or NotUnique is set. Default: not
	// declared.
	Idempotent bool
	// NotUnique exempts the job from Config.DeduplicateIdempotent. Default: false.
	NotUnique bool
	// WAL has the positions in the write-ahead logs of databases that the job's replicas must have reached:
	// those of the primaries after the writes that preceded the push. If the job is refused as a duplicate,
	// the job that holds the lock gets them, unless the lock is kept until it expires. Default: none.
	WAL dedup.WAL
	// Encrypt encrypts the last argument, or all, when the payload is written: after all middleware, which sees
	// the plain ones. Default: nothing is encrypted.
	Encrypt *seal.Rule
	// Timeout ends the context of each run of the job after this long, in whole milliseconds. Default: the
	// timeout of its class, else that of the worker.
	Timeout time.Duration
	// ExpiresIn is how long after its push, or after the time for which it is scheduled, the job may start;
	// after that it is dropped. Default: no limit.
	ExpiresIn time.Duration
	// Deadline is the time after its push, or after its scheduled time, within which the job must be done.
	// After that it does not start, and the context of its run ends. Default: none.
	Deadline time.Duration
	// Track keeps the state, the progress and the result of the job, for Wait and Tracked, from its start until
	// this long after its end, in whole milliseconds. Default: nothing is kept.
	Track time.Duration
	// Meta holds fields for the handler, such as a request id or a tenant, which it reads with Info. Default:
	// none.
	Meta map[string]string
	// Tags are shown by dashboards and in logs.
	Tags []string
	// Extra holds further fields of the payload; job.CheckExtra says which are allowed. Workers keep fields
	// that they do not know.
	Extra []job.Edit

	// problems are the errors of Fail.
	problems []error
	pushed   callbacks
	// atPush is the function of AtPush.
	atPush func(j *RawJob)
}

// callbacks are those of OnPushed.
type callbacks []func(r Receipt, err error)

// call passes the outcome on. The error of a slice is not that of a job that was stored or refused.
func (s callbacks) call(r Receipt, err error) {
	if r.Status != StatusUnknown && r.Status != StatusNotPushed {
		err = nil
	}
	for _, callback := range s {
		callback(r, err)
	}
}

// Fail makes Check and the push of the job return an error. It is for options with an invalid value, which
// would otherwise leave their field empty without an error.
func (j *RawJob) Fail(why error) { j.problems = append(slices.Clip(j.problems), why) }

// AtPush registers a function that changes the job when it is pushed or checked, before the middleware. It is
// for an option that needs what the other options set, such as the class and the arguments that it wraps:
// options of Define have no arguments yet, and others come after it. A second function replaces the first.
func (j *RawJob) AtPush(change func(j *RawJob)) { j.atPush = change }

// finish calls the function of AtPush, once.
func (j *RawJob) finish() {
	if change := j.atPush; change != nil {
		j.atPush = nil
		change(j)
	}
}

// OnPushed registers a callback for the outcome of this push, for middleware that has begun something for the
// job, such as the span of a trace. It is called once, in the goroutine of the push and before the push
// returns, with the job's receipt; err is nil unless the receipt has StatusUnknown or StatusNotPushed. Repeat
// does not call it again.
func (j *RawJob) OnPushed(callback func(r Receipt, err error)) {
	j.pushed = append(slices.Clip(j.pushed), callback)
}

// Check returns, joined, the errors for which any client would refuse to push the job, or nil. It does not
// check what depends on the client, middleware and PayloadLimit, and whether there are keys for Encrypt.
func (j RawJob) Check() error {
	var w writer
	j.setDefaults(&w)
	j.Encrypt = nil
	var d draft
	if err := j.draft(&w, time.Time{}, &d); err != nil {
		return err
	}
	return j.checkPayload(d.encode(&w))
}

// checkPayload checks the parts that draft cannot check: the JSON of further fields, because a payload that no
// worker could read must not be stored. The args were checked when they were written.
func (j *RawJob) checkPayload(payload string) error {
	if len(j.Extra) == 0 && len(j.Then) == 0 {
		return nil
	}
	parsed, err := job.Parse(payload)
	if err != nil {
		return err
	}
	for at, text := range parsed.Then() {
		if err := j.Then[at].checkPayload(text); err != nil {
			return fmt.Errorf("its next job %s: %w", j.Then[at].Class, err)
		}
	}
	return nil
}
