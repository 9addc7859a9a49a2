package launcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// ErrShutdown is the cause with which handlers are cancelled when the process stops and its timeout is
// over. The job goes back to the head of its queue, and nothing is counted.
var ErrShutdown = errors.New("belay: shutdown: this process is stopping and the job goes back to its queue")

// ErrTimeout is the cause with which the context of a run ends that exceeds its timeout. The cause also
// matches context.DeadlineExceeded. The handler's return value still decides the outcome: nil is success, an
// error is a failure.
var ErrTimeout = errors.New("belay: timeout")

// ErrDeadline is the cause with which the context of a run ends at its job's deadline. The cause also matches
// ErrTimeout and context.DeadlineExceeded. If the handler then returns an error, the job ends without a retry,
// because that would start too late.
var ErrDeadline = errors.New("belay: deadline")

// A Handler runs jobs. A nil error is success; package retry decides about others. Its context ends with one
// of the causes ErrTimeout, ErrCancelled, ErrShutdown and fetch.ErrOwnershipLost. A handler that does not
// return then keeps its processor and its job, and OnStuck is called. At the latest the context ends, with the
// cause context.Canceled, when the handler and the callbacks of AfterRun have returned: code that continues
// after that needs a context of its own, such as context.WithoutCancel makes.
type Handler func(ctx context.Context, j *job.Job) error

// A Middleware wraps every run; the first one added is the outermost.
type Middleware func(next Handler) Handler

// Class is the configuration of one class of jobs.
type Class struct {
	// Queue is the queue of its jobs unless a push sets another, RetryQueue that of its retries. They are set
	// for a class that has a definition, and are only compared with the queues that are taken. Default:
	// unknown.
	Queue, RetryQueue string
	// Timeout ends a run's context after this long, with the cause ErrTimeout. The handler's return value
	// still decides the outcome. Default: none.
	Timeout time.Duration
	// Backoff replaces the delay of the retry formula. Default: nil, the formula's delay.
	Backoff retry.BackoffFunc
	// Rules decide about the jobs of the class by the errors of their runs, before those of Config.Retry.
	// Default: none.
	Rules []retry.ErrorRule
	// KeepErrors is how many errors of failed runs a job keeps in its payload. Default: none but the last.
	KeepErrors int
	// Middleware wraps the runs of the class, inside of the middleware of all runs; the first is the
	// outermost. Default: none.
	Middleware []Middleware
	// Limit limits the runs of the class. Default: none.
	Limit *ClassLimit
	// Exhausted are called before the hooks of OnDeath, for jobs of the class that run again only if an
	// operator retries them. Default: none.
	Exhausted []func(ctx context.Context, j *job.Job, err error)
}

// AnyClass is the name under which a handler is registered for all classes without one of their own.
const AnyClass = "*"

type registration struct {
	handler Handler
	class   Class
	late    error // the cause of the end of a run's context at the timeout
}

// A timeoutError is the cancellation cause of a run's context at its timeout, and the failure of a run that
// ended for that reason.
type timeoutError struct {
	after time.Duration
	err   error // context.DeadlineExceeded, or the handler's error that wraps it
	// deadline is set if it was the job's deadline.
	deadline bool
}

func (e *timeoutError) Error() string {
	text := fmt.Sprintf("timed out after %v", e.after)
	if e.deadline {
		text = fmt.Sprintf("deadline passed after %v", e.after.Round(time.Millisecond))
	}
	if cause := retry.Text(e.err); cause != context.DeadlineExceeded.Error() {
		text += ": " + cause
	}
	return text
}

// Unwrap returns ErrTimeout and the handler's error.
func (e *timeoutError) Unwrap() []error {
	if e.deadline {
		return []error{e.err, ErrTimeout, ErrDeadline}
	}
	return []error{e.err, ErrTimeout}
}

// ErrorClass returns the error_class that operators see.
func (e *timeoutError) ErrorClass() string { return "Timeout" }

// named returns the error of a run that exceeded its timeout: "context deadline exceeded" alone does not
// name the deadline. An error that is not about the deadline is returned unchanged.
func named(err, cause error) error {
	if err == nil || !retry.Is(err, context.DeadlineExceeded) || retry.Is(err, ErrTimeout) {
		return err
	}
	late := &timeoutError{err: err}
	if own, is := errors.AsType[*timeoutError](cause); is {
		late.after, late.deadline = own.after, own.deadline
	}
	return late
}

// RunInfo describes the run that a handler's context belongs to.
type RunInfo struct {
	JID, Class, Queue string
	// Attempt counts failed runs and this one, from 1. Crashes, requeues and snoozes do not count.
	Attempt int
	// MaxAttempts is the highest Attempt that there will be: the job's retries and one. 0 means that its
	// retries are limited by time instead.
	MaxAttempts int
	// CreatedAt is when the job was pushed, and EnqueuedAt when it last went to its queue: at the push, when
	// it came due, or for a retry. Both are by Redis' clock, and zero if the payload does not say.
	CreatedAt, EnqueuedAt time.Time
	// Meta holds the fields that were added by Meta at the push; nil if there are none.
	Meta map[string]string
	// Periodic is the name of the periodic job for whose tick the job was enqueued, and TickAt the nominal
	// time of that tick, in the zone of its schedule. If an operator asked for the run, TickManual is true, and
	// TickAt is when that was, in whole seconds.
	Periodic   string
	TickAt     time.Time
	TickManual bool
	// After is the jid of the job whose next job this is; "" for most jobs.
	After string
	// Identity is the identity of the process whose working list holds the job.
	Identity string
}

// Info describes the run that ctx belongs to; ok is false outside of a run.
func Info(ctx context.Context) (info RunInfo, ok bool) {
	run, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return RunInfo{}, false
	}
	return run.info(), true
}

func (r *run) info() RunInfo {
	created, _ := r.job.CreatedAt()
	enqueued, _ := r.job.EnqueuedAt()
	tick, _ := r.job.Tick()
	return RunInfo{
		JID: r.job.JID(), Class: r.job.Class(), Queue: r.Queue,
		Attempt: r.job.FailedRuns() + 1, MaxAttempts: r.launcher().cfg.Retry.MaxAttempts(r.job),
		CreatedAt: created, EnqueuedAt: enqueued, Meta: r.job.Meta(),
		Periodic: tick.Name, TickAt: tick.At, TickManual: tick.Manual, After: r.job.After(), Identity: r.Session.Identity,
	}
}

// AfterRun registers a callback for the outcome of ctx's run, for middleware that has begun something for the
// run, such as a span of a trace. It is called once, when the handler has returned and the outcome is decided,
// and before the outcome is stored; the run's processor waits for it. err is what the outermost middleware
// returned, or a *retry.PanicError. AfterRun may be called from any goroutine. It reports whether the callback
// will be called: ctx belongs to a run that has not ended. It panics if the callback is nil.
func AfterRun(ctx context.Context, callback func(outcome job.Outcome, err error)) bool {
	if callback == nil {
		panic("belay: AfterRun: the callback is nil")
	}
	run, ok := ctx.Value(runKey{}).(*run)
	return ok && run.addAfter(call{"callback after a run", func() { callback(run.outcome, run.err) }, run.job})
}

// Stopping returns a channel that is closed when the process of ctx's run begins to stop, before the
// shutdown timeout and the end of ctx. Outside of a run it returns nil, which blocks for ever.
func Stopping(ctx context.Context) <-chan struct{} {
	run, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return nil
	}
	return run.launcher().halt
}

// WAL returns the positions that replicas must have reached before ctx's run reads them. For each connection
// it is the latest position of the job's own push and of the duplicates that were refused before the run. It
// returns nil for none, and outside of a run.
func WAL(ctx context.Context) dedup.WAL {
	run, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return nil
	}
	return dedup.ReadWAL(run.job)
}
