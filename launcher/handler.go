package launcher

import (
	"context"
	"errors"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// ErrShutdown is the cause with which handlers are cancelled when the process stops and its timeout is over. The job
// goes back to the head of its queue, and nothing is counted.
var ErrShutdown = errors.New("belay: shutdown: this process is stopping and the job goes back to its queue")

// A Handler runs jobs. A nil error is success; others are judged by package retry. Its context ends when the job should:
// context.Cause says why (ErrShutdown, fetch.ErrOwnershipLost, or the class's timeout).
type Handler func(ctx context.Context, j *job.Job) error

// A Middleware wraps every run; the first one added is the outermost.
type Middleware func(next Handler) Handler

// Class is what may be said of all jobs of one class.
type Class struct {
	// Timeout ends a run's context after this long; what the handler returns then counts as its outcome. None.
	Timeout time.Duration
	// Backoff replaces the retry formula's base delay. nil leaves the formula alone.
	Backoff retry.BackoffFunc
}

// AnyClass is the name under which a handler for all classes is registered that have none of their own.
const AnyClass = "*"

type registration struct {
	handler Handler
	class   Class
}

// RunInfo says which run a handler's context belongs to.
type RunInfo struct {
	JID, Class, Queue string
	// Attempt counts runs from 1. Interrupted runs and those that were handed back do not count.
	Attempt int
	// Identity is the process identity whose working list holds the job.
	Identity string
}

// Info says which run ctx belongs to; ok is false outside of one.
func Info(ctx context.Context) (info RunInfo, ok bool) {
	run, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return RunInfo{}, false
	}
	attempt := 1
	if count, failed := run.job.RetryCount(); failed {
		attempt = count + 2
	}
	return RunInfo{
		JID: run.job.JID(), Class: run.job.Class(), Queue: run.held.Queue, Attempt: attempt, Identity: run.held.Life.Identity,
	}, true
}

type runKey struct{}

// runContext is the context of one run: the life's, which knows the run. One allocation instead of a chain.
type runContext struct {
	context.Context
	run *run
}

func (c *runContext) Value(key any) any {
	if key == (runKey{}) {
		return c.run
	}
	return c.Context.Value(key)
}
