package belay

import (
	"context"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/launcher"
)

// ErrCancelled is the context.Cause in a handler whose job was cancelled. The job ends without a retry,
// whatever error the handler returns; if it returns nil, the job is done.
var ErrCancelled = launcher.ErrCancelled

// ErrDeadline is the context.Cause in a handler whose job is not done by its Deadline. It also matches
// ErrTimeout and context.DeadlineExceeded.
var ErrDeadline = launcher.ErrDeadline

// The results of Cancel.
const (
	CancelRemoved  = inspect.CancelRemoved
	CancelStopping = inspect.CancelStopping
	CancelMarked   = inspect.CancelMarked
	CancelDone     = inspect.CancelDone
)

// Cancellation describes what Cancel did about one job: its JID, the Result, the Place where the job was, and
// the Process that has it.
type Cancellation = inspect.Cancellation

// Cancel cancels the jobs with these jids, wherever they are, and returns what it did about each, in the given
// order.
//   - CancelRemoved: the job waited and was removed.
//   - CancelStopping: a worker has the job. The job is dropped before its start or, if it runs, its context
//     ends within a heartbeat, with the cause ErrCancelled. It ends without a retry.
//   - CancelMarked: the job was not found. A worker that takes it later drops it, or ends its context if the
//     worker has not had a heartbeat since the call.
//   - CancelDone: the job is in the dead set, or it is a tracked job that has ended.
//
// A job that is pushed after the call is not affected, even if it has the same jid. The search reads all
// waiting jobs. It ends before the deadline of ctx or, without one, after ten seconds.
func Cancel(ctx context.Context, c *Client, jids ...string) ([]Cancellation, error) {
	open(c, "Cancel")
	return inspect.New(c.Driver(), c.Config().Prefix).Cancel(ctx, jids...)
}
