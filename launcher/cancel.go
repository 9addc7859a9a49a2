package launcher

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/retry"
)

// ErrCancelled is the cause with which the context of a run ends whose job was cancelled. The job ends without
// a retry, unless the handler returns nil: then it is done.
var ErrCancelled = errors.New("belay: cancelled: an operator cancelled this job")

// A sharedContext is the context under which a processor runs jobs, one after the other. To cancel a run, the
// context is cancelled, and the processor makes a new one for the next run. Most runs are never cancelled, and
// a context for each would be most of the cost of a short run.
type sharedContext struct {
	context.Context
	session context.Context
	cancel  context.CancelCauseFunc
	run     atomic.Pointer[run] // the current run; noRun between two runs, cancelledRun after a cancellation
}

var noRun, cancelledRun = &run{}, &run{}

// contextFor returns the context for a run. It is the context of the previous run, unless that was cancelled.
func (p *processor) contextFor(r *run) *sharedContext {
	session := r.taken.Session.Context
	if p.shared != nil && p.shared.session == session && p.shared.run.CompareAndSwap(noRun, r) {
		return p.shared
	}
	if p.shared != nil {
		p.shared.cancel(nil) // no run uses it, and its parent context must release it
	}
	p.shared = &sharedContext{session: session}
	p.shared.Context, p.shared.cancel = context.WithCancelCause(session)
	p.shared.run.Store(r)
	return p.shared
}

// release ends the use of the context by a run.
func (c *sharedContext) release(r *run) { c.run.CompareAndSwap(r, noRun) }

// cancelRun ends the context of a run, unless the run has ended.
func (c *sharedContext) cancelRun(r *run, cause error) bool {
	first := c.run.CompareAndSwap(r, cancelledRun)
	if first {
		c.cancel(cause)
	}
	return first
}

// cancelled reports whether the run was cancelled.
func (r *run) cancelled() bool { return r.shared != nil && r.shared.run.Load() == cancelledRun }

// failedToo reports whether the error of a cancelled run is a failure of its own. An operator's cancellation
// is no error of the program, and neither is a request to run later.
func failedToo(err error) bool {
	ask, found := errors.AsType[*retry.AskError](err)
	return !errors.Is(err, context.Canceled) && !errors.Is(err, ErrCancelled) &&
		(!found || ask.Ask != retry.AskSnooze && ask.Ask != retry.AskRequeue)
}

// marksEvery is how often marks are read without a notice from a heartbeat: in effect never.
const marksEvery = time.Hour

// readMarks is the pass that reads the marks of cancelled jobs after a heartbeat has reported newer ones. It
// cancels the runs of these jobs. A mark of a job that starts meanwhile is seen by its processor, or here.
func (l *Launcher) readMarks(ctx context.Context) (time.Duration, error) {
	more, err := l.marks.Read(ctx, l.lanes.announce, l.keys)
	if err != nil {
		return 0, err
	}
	for _, p := range l.pool.Load().processors {
		if r := p.current.Load(); r != nil && l.marks.Binds(r.job) && r.shared.cancelRun(r, ErrCancelled) {
			l.cfg.Log.Info("cancelling a running job", "jid", r.job.JID(), "class", r.job.DisplayClass(), "queue", r.taken.Queue)
		}
	}
	if more {
		return time.Millisecond, nil
	}
	return 0, nil
}

// learnMarks reads the marks of cancelled jobs before the process registers, and waits through an outage:
// without the marks, the process could start a recovered job that Cancel has reported as stopping. A refusal
// does not keep the process from working; the duty that reads marks reports it.
func (l *Launcher) learnMarks(ctx context.Context) {
	var pace link.Pace
	var err error
	for more := true; more && err == nil; {
		err = l.callThroughOutage(ctx, "cancel", &pace, func(ctx context.Context) (err error) {
			more, err = l.marks.Read(ctx, l.lanes.announce, l.keys)
			return err
		})
	}
}

// dropped returns the outcome of a job that must not start, because it was cancelled or has expired; the zero
// Outcome for any other. The outcome ends the job, see job.Exit.Ends.
func (l *Launcher) dropped(r *run) (outcome job.Outcome, drop bool) {
	expires, limited := r.job.StartBy()
	switch {
	case l.marks.Binds(r.job):
		outcome = job.Cancelled()
	case limited && l.clock.Now().After(expires):
		outcome = job.Expired(false)
	default:
		return outcome, false
	}
	l.cfg.Log.Info("job dropped before its start",
		"jid", r.job.JID(), "class", r.job.DisplayClass(), "queue", r.taken.Queue, "exit", string(outcome.Exit()))
	return outcome, true
}
