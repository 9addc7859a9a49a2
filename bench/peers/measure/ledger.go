package measure

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// A ledger counts the runs of every job. A drain that runs some jobs twice and others never is no drain.
type ledger struct {
	runs []atomic.Int32
	left atomic.Int64  // jobs that have not run yet
	all  chan struct{} // closed when every job has run
}

func newLedger(jobs int) *ledger {
	l := &ledger{runs: make([]atomic.Int32, jobs), all: make(chan struct{})}
	l.left.Store(int64(jobs))
	return l
}

// note counts a run of job n. If it is the job's first, note calls first, if there is one, before the job
// counts as run. A number that was never stored is another's job.
func (l *ledger) note(n int, first func()) error {
	if n < 0 || n >= len(l.runs) {
		return fmt.Errorf("job %d is none of this task's", n)
	}
	if l.runs[n].Add(1) > 1 {
		return nil
	}
	if first != nil {
		first()
	}
	if l.left.Add(-1) == 0 {
		close(l.all)
	}
	return nil
}

// wait waits until every job has run. It gives up when none has for as long as patience, and not before: a
// system that is slow by design still gets its figure.
func (l *ledger) wait(ctx context.Context, patience time.Duration) error {
	for left := l.left.Load(); ; {
		select {
		case <-l.all:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(patience):
		}
		now := l.left.Load()
		if now == left {
			return fmt.Errorf("%d of %d jobs had not run, and none had for %s", left, len(l.runs), patience)
		}
		left = now
	}
}

// check says which job did not run exactly once.
func (l *ledger) check() error {
	for n := range l.runs {
		if times := l.runs[n].Load(); times != 1 {
			return fmt.Errorf("job %d ran %d times", n, times)
		}
	}
	return nil
}
