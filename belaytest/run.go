package belaytest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/belayq/belay"
	"github.com/belayq/belay/job/seal"
	"github.com/belayq/belay/retry"
)

// A Run is one run of a job.
type Run struct {
	// RunInfo describes the run: class, jid, queue, attempt.
	belay.RunInfo
	// Job is the job that the handler got.
	Job *belay.Job
	// Err is the error that the handler returned: nil for a success, Snooze's error for a job that snoozed. For
	// a panic it is a *belay.PanicError.
	Err error
}

// String returns the run in one line, such as
//
//	WelcomeEmail [42,"short"], attempt 2: connection refused
func (r Run) String() string {
	if r.Err == nil {
		return r.name()
	}
	return fmt.Sprintf("%s: %v", r.name(), r.Err)
}

// name identifies the run; it leaves out the result.
func (r Run) name() string {
	return fmt.Sprintf("%s %s, attempt %d", r.Job.DisplayClass(), seal.Shown(r.Job), r.Attempt)
}

// OnFailure makes the Kit call f for each failed run from now on, instead of failing the test. A snooze, and a
// discard without a cause, are not failures.
func (k *Kit) OnFailure(f func(Run)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.onFailure = f
}

// Runs returns all runs so far, in the order in which they started.
func (k *Kit) Runs() []Run { return k.since(0) }

func (k *Kit) failTest(r Run) {
	var panicked *belay.PanicError
	if errors.As(r.Err, &panicked) {
		k.t.Errorf("belaytest: %s\n%s", r, panicked.Stack)
		return
	}
	if errors.Is(r.Err, retry.ErrUnregistered) {
		k.t.Errorf("belaytest: %s; pass Kit.Serve the function that registers it", r)
		return
	}
	k.t.Errorf("belaytest: %s", r)
}

// record is the middleware that records each run.
func (k *Kit) record(next belay.Handler) belay.Handler {
	return func(ctx context.Context, j *belay.Job) error {
		r := k.begin(ctx, j)
		err := next(ctx, j)
		k.mu.Lock()
		defer k.mu.Unlock()
		r.Err = err
		return err
	}
}

func (k *Kit) begin(ctx context.Context, j *belay.Job) *Run {
	r := &Run{Job: j}
	r.RunInfo, _ = belay.Info(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.runs = append(k.runs, r)
	return r
}

// onError is the kit's error handler. Unlike middleware, it also sees panics and jobs without a handler.
func (k *Kit) onError(ctx context.Context, j *belay.Job, err error) {
	r := k.runOf(j)
	if r == nil {
		r = k.begin(ctx, j)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r.Err = err
	var ask *retry.AskError
	if errors.As(err, &ask) && ask.Ask == retry.AskDiscard && ask.Cause == nil {
		return
	}
	k.failed = append(k.failed, r)
}

// runOf returns the run of this job value; nil if it has none yet.
func (k *Kit) runOf(j *belay.Job) *Run {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range slices.Backward(k.runs) {
		if r.Job == j {
			return r
		}
	}
	return nil
}

// reportFailures reports the runs that failed since its last call.
func (k *Kit) reportFailures() {
	k.t.Helper()
	k.mu.Lock()
	failed, report := k.failed, k.onFailure
	k.failed = nil
	k.mu.Unlock()
	for _, r := range failed {
		report(*r)
	}
}

func (k *Kit) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.runs)
}

// since returns the runs from index first on.
func (k *Kit) since(first int) []Run {
	k.mu.Lock()
	defer k.mu.Unlock()
	runs := make([]Run, 0, len(k.runs)-first)
	for _, r := range k.runs[first:] {
		runs = append(runs, *r)
	}
	return runs
}
