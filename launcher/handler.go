package launcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// ErrShutdown is the cause with which handlers are cancelled when the process stops and its timeout is
// over. The job goes back to the head of its queue, and nothing is counted.
var ErrShutdown = errors.New("belay: shutdown: this process is stopping and the job goes back to its queue")

// ErrTimeout is the cause with which a run's context ends that takes longer than its timeout. The
// cause is context.DeadlineExceeded too. What the handler then says is its outcome: nil is done, an error
// is a failure.
var ErrTimeout = errors.New("belay: timeout")

// A Handler runs jobs. A nil error is success; others are judged by package retry. Its context ends when
// the job should: context.Cause says why (ErrTimeout, ErrShutdown or fetch.ErrOwnershipLost). A handler
// that does not return then keeps its processor, and its job stays in hand; OnStuck is called.
type Handler func(ctx context.Context, j *job.Job) error

// A Middleware wraps every run; the first one added is the outermost.
type Middleware func(next Handler) Handler

// Class is what may be said of all jobs of one class.
type Class struct {
	// Queue is where its jobs go unless a push says otherwise, RetryQueue where its retries go. They are
	// set for a class that has a definition, and are only compared with the queues that are taken. Default:
	// unknown.
	Queue, RetryQueue string
	// Timeout ends a run's context after this long, with the cause ErrTimeout; what the handler returns
	// then counts as its outcome, as ever. None.
	Timeout time.Duration
	// Backoff replaces the retry formula's base delay. nil leaves the formula alone.
	Backoff retry.BackoffFunc
	// Middleware wraps the class' own runs, inside of what wraps every run; the first is the outermost.
	// None.
	Middleware []Middleware
	// Exhausted is called for the class' jobs that will not run again on their own, before every
	// DeathHandler. nil.
	Exhausted DeathHandler
}

// AnyClass is the name under which a handler for all classes is registered that have none of their own.
const AnyClass = "*"

type registration struct {
	handler Handler
	class   Class
	late    error // the cause of the end of a run's context at the timeout
}

// timeout returns the timeout of a run and the cause with which its context then ends: the job's own timeout,
// its class' or the process'.
func (l *Launcher) timeout(j *job.Job, registered *registration) (time.Duration, error) {
	if own, ok := j.Timeout(); ok {
		return own, &timeoutError{own, context.DeadlineExceeded}
	}
	if registered.class.Timeout > 0 {
		return registered.class.Timeout, registered.late
	}
	if l.cfg.Timeout > 0 {
		return l.cfg.Timeout, &timeoutError{l.cfg.Timeout, context.DeadlineExceeded}
	}
	return 0, nil // most runs, which pay no allocation
}

// register makes what is registered for a class.
func register(handler Handler, about Class) registration {
	return registration{handler: handler, class: about, late: &timeoutError{about.Timeout, context.DeadlineExceeded}}
}

// A timeoutError is the cancellation cause of a run's context at its timeout, and the failure of a run that
// ended for that reason.
type timeoutError struct {
	after time.Duration
	err   error // context.DeadlineExceeded, or the handler's error that wraps it
}

func (e *timeoutError) Error() string {
	text := fmt.Sprintf("timed out after %v", e.after)
	if said := retry.Text(e.err); said != context.DeadlineExceeded.Error() {
		text += ": " + said
	}
	return text
}

// Unwrap returns ErrTimeout and the handler's error.
func (e *timeoutError) Unwrap() []error { return []error{e.err, ErrTimeout} }

// ErrorClass returns the error_class that operators see.
func (e *timeoutError) ErrorClass() string { return "Timeout" }

// named returns the error of a run that exceeded its timeout: "context deadline exceeded" alone does not
// name the deadline. An error that is not about the deadline is returned unchanged.
func named(err error, timeout time.Duration) error {
	if err == nil || !retry.Is(err, context.DeadlineExceeded) || retry.Is(err, ErrTimeout) {
		return err
	}
	return &timeoutError{timeout, err}
}

// RunInfo says which run a handler's context belongs to.
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
	// Identity is the process identity whose working list holds the job.
	Identity string
}

// Info says which run ctx belongs to; ok is false outside of one.
func Info(ctx context.Context) (info RunInfo, ok bool) {
	run, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return RunInfo{}, false
	}
	return run.info(), true
}

func (r *run) info() RunInfo {
	attempt := 1
	if count, failed := r.job.RetryCount(); failed {
		attempt = count + 2
	}
	created, _ := r.job.CreatedAt()
	enqueued, _ := r.job.EnqueuedAt()
	return RunInfo{
		JID: r.job.JID(), Class: r.job.Class(), Queue: r.taken.Queue, Attempt: attempt, MaxAttempts: r.launcher.cfg.Retry.MaxAttempts(r.job),
		CreatedAt: created, EnqueuedAt: enqueued, Meta: r.job.Meta(), Identity: r.taken.Session.Identity,
	}
}

// Stopping returns a channel that is closed when the process of the run that ctx belongs to begins to stop,
// before the shutdown timeout and the end of ctx. Outside of a run it is nil: it is never closed.
func Stopping(ctx context.Context) <-chan struct{} {
	run, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return nil
	}
	return run.launcher.halt
}

type runKey struct{}

// runContext is the context of one run: the session's, which knows the run. One allocation instead of a
// chain.
type runContext struct {
	context.Context
	run *run
}

func (c *runContext) Value(key any) any {
	switch key {
	case runKey{}:
		return c.run
	case zerologKey:
		return c.run.loggers().zerolog
	}
	return c.Context.Value(key)
}
