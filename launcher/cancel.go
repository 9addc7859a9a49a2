package launcher

import (
	"context"
	"errors"
	"time"

	"github.com/belayq/belay/link"
	"github.com/belayq/belay/retry"
)

// ErrCancelled is the cause with which the context of a run ends whose job was cancelled. The job ends without
// a retry, unless the handler returns nil: then it is done.
var ErrCancelled = errors.New("belay: cancelled: an operator cancelled this job")

// failedToo reports whether the error of a cancelled run is a failure of its own. An operator's cancellation
// is no error of the program, and neither is a request to run later. Nothing recovers a panic here, so the
// chain of the error is read as package retry reads it.
func failedToo(err error) bool {
	ask := retry.AskOf(err).Ask
	return !retry.Is(err, context.Canceled) && !retry.Is(err, ErrCancelled) &&
		ask != retry.AskSnooze && ask != retry.AskRequeue && ask != retry.AskRateLimited
}

// marksEvery is how often marks are read without a notice from a heartbeat: in effect never.
const marksEvery = time.Hour

// readMarks is the pass that reads the marks of cancelled jobs, and the rules of classes, after a heartbeat has
// reported newer ones. It cancels the runs of these jobs. A mark of a job that starts meanwhile is seen by its
// processor, or here.
func (s *shard) readMarks(ctx context.Context) (time.Duration, error) {
	more, err := s.marks.Read(ctx, s.lanes.chores, s.keys)
	if err == nil && !more {
		err = s.readRules(ctx)
	}
	if err != nil {
		return 0, err
	}
	for _, p := range s.launcher.pool.Load().processors {
		if r := p.current.Load(); r != nil && r.shard == s && s.marks.Binds(r.job) && r.shared.cancelRun(r, ErrCancelled) {
			s.log.Info("cancelling a running job", "jid", r.job.JID(), "class", r.job.DisplayClass(), "queue", r.Queue)
		}
	}
	if more {
		return time.Millisecond, nil
	}
	return 0, nil
}

// learnMarks reads the marks of cancelled jobs and the rules of classes before the process registers, and waits
// through an outage: without them, the process could start a recovered job that Cancel has reported as
// stopping, or a job whose class an operator has paused. A refusal does not keep the process from working; the
// duty that reads marks reports it.
func (s *shard) learnMarks(ctx context.Context) {
	var pace link.Pace
	through := func(read func(context.Context) error) error {
		return s.callThroughOutage(ctx, "cancel", s.launcher.vitalsDeadline(), &pace, read)
	}
	var err error
	s.marks.ReadAgain() // no heartbeat has reported those since an earlier attempt
	for more := true; more && err == nil; {
		err = through(func(ctx context.Context) (err error) {
			more, err = s.marks.Read(ctx, s.lanes.chores, s.keys)
			return err
		})
	}
	_ = through(s.readRules)
}
