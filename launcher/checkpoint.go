package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// Interrupted is the error that a handler returns to end its run because its process stops. The job goes back
// to its queue at once, unchanged, and nothing is counted.
var Interrupted = retry.Requeue(errors.New("belay: interrupted: the job goes back to its queue"))

// errNoRun is the error of a call that needs a run, outside of one or after its end.
var errNoRun = errors.New("this context belongs to no current run")

// MaxCursor is the maximum size of a cursor as JSON, in bytes.
const MaxCursor = 64 << 10

// current returns the run that ctx belongs to, if it has not ended.
func current(ctx context.Context) (*run, error) {
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok || r.over() {
		return nil, errNoRun
	}
	return r, nil
}

// Checkpoint is KeepCursor, with a cursor that is written as JSON, and SaveCursor.
func Checkpoint(ctx context.Context, cursor any) error {
	text, err := marshal(cursor)
	if err != nil {
		return fmt.Errorf("belay: checkpoint: write the cursor as JSON: %w", err)
	}
	if err := KeepCursor(ctx, text); err != nil {
		return err
	}
	return SaveCursor(ctx)
}

// KeepCursor records a cursor, a JSON text, of ctx's run. The next SaveCursor or the end of the run writes it
// to Redis, also after ctx has ended.
func KeepCursor(ctx context.Context, text []byte) error {
	r, err := current(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("belay: checkpoint: %w", err)
	case len(text) > MaxCursor:
		return fmt.Errorf("belay: checkpoint: the cursor has %d bytes as JSON; the limit is %d", len(text), MaxCursor)
	}
	r.Saved(r.job).Advance(string(text), r.job.InterruptedCount())
	return nil
}

// SaveCursor writes the cursor of ctx's run to Redis, if the last write was SaveInterval ago. It returns the
// cause of the end of ctx, and Interrupted when the process begins to stop.
func SaveCursor(ctx context.Context) error {
	r, err := current(ctx)
	if err != nil {
		return fmt.Errorf("belay: checkpoint: %w", err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.stopping() {
		return Interrupted
	}
	return r.handleSave(r.Saved(r.job).Save(ctx, r.launcher().cfg.SaveInterval))
}

// handleSave ends the context of a run if a save has shown that the run must not go on.
func (r *run) handleSave(word lua.SaveWord) error {
	var cause error
	switch word {
	case lua.SaveLost, lua.SaveStale:
		cause = fetch.ErrOwnershipLost
	case lua.SaveCancelled:
		cause = ErrCancelled
	default:
		return nil
	}
	r.shared.cancelRun(r, cause)
	return cause
}

// waitOut repeats a call of the run's while Redis is away, until ctx ends or the process begins to stop.
func (r *run) waitOut(ctx context.Context, call func() error) error {
	var backoff link.Backoff
	err := call()
	for ; driver.Outage(err); err = call() {
		select {
		case <-time.After(backoff.Next()):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.launcher().halt:
			return Interrupted
		}
	}
	return err
}

// excused returns the job as it continues after a run that ended without a crash: if the run has advanced the
// cursor, earlier crashes do not count any more.
func (r *run) excused() *job.Job {
	if r.job.InterruptedCount() == 0 || !r.Advanced() {
		return r.job
	}
	excused, err := job.Parse(r.job.Patch(job.Remove("interrupted_count"), job.Remove("interrupted_at")))
	if err != nil {
		return r.job
	}
	return excused
}

func (r *run) stopping() bool {
	select {
	case <-r.launcher().halt:
		return true
	default:
		return false
	}
}

// Resume reads the last cursor of ctx's job into cursor, and reports whether there is one. While Redis is away
// it waits, until ctx ends or the process begins to stop.
func Resume(ctx context.Context, cursor any) (bool, error) {
	r, err := current(ctx)
	if err != nil {
		return false, fmt.Errorf("belay: resume: %w", err)
	}
	var fields []string
	if err := r.waitOut(ctx, func() (err error) {
		if fields, err = r.Saved(r.job).Read(ctx); err != nil {
			return fmt.Errorf("belay: resume: %w", err)
		}
		return nil
	}); err != nil {
		return false, err
	}
	if fields[0] == "" || fields[0] == "null" {
		return false, nil
	}
	if err := json.Unmarshal([]byte(fields[0]), cursor); err != nil {
		return false, fmt.Errorf("belay: resume: read the cursor: %w", err)
	}
	return true, nil
}
