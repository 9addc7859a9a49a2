package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/batch"
)

// needsOwnPush reports whether the job has an option whose effect is that of its own push. A job that a worker
// stores, at the end of another one, cannot have it.
func (j *RawJob) needsOwnPush() bool {
	return j.In != 0 || !j.At.IsZero() || j.Key != "" || j.Unique != nil || j.Replicas != 0
}

// passNext runs the middleware for the next jobs of a job.
func (c *Client) passNext(ctx context.Context, w *writer, j *RawJob) error {
	jobs := slices.Clone(j.Then) // the caller's own may be those of other jobs too
	for at := range jobs {
		next := &jobs[at]
		next.NotUnique = true // by DeduplicateIdempotent
		var r ready
		err := c.pass(ctx, w, next, &r)
		if own := next.pushed; len(own) > 0 {
			jid, queue := next.JID, next.Queue
			j.OnPushed(func(r Receipt, err error) {
				r.JID, r.Queue = jid, queue
				own.call(r, err)
			})
		}
		switch {
		case err != nil:
			return err
		case r.Status == StatusRefused:
			return &InvalidError{Class: j.Class, Err: fmt.Errorf("middleware refused its next job %s: %s", next.Class, r.Reason)}
		}
	}
	j.Then = jobs
	return nil
}

// next checks the next jobs, and returns them as they are written. length is that of the sequence which begins
// with j.
func (j *RawJob) next(w *writer) (drafts []draft, length int, err error) {
	if len(j.Then) == 0 {
		return nil, 1, nil
	}
	var errs []error
	if len(j.Then) > batch.MaxNext {
		errs = append(errs, fmt.Errorf("it has %d next jobs, and %d are allowed: let one of them push a batch", len(j.Then), batch.MaxNext))
	}
	drafts = make([]draft, len(j.Then))
	for at, next := range j.Then {
		if err := j.nextDraft(w, next, &drafts[at]); err != nil {
			errs = append(errs, fmt.Errorf("its next job %s: %w", next.Class, err))
		}
		length = max(length, drafts[at].length)
	}
	if length++; length > batch.MaxSequence {
		errs = append(errs, fmt.Errorf("%d jobs follow one another, and %d are allowed: let the last one push the rest", length, batch.MaxSequence))
	}
	return drafts, length, errors.Join(errs...)
}

func (j *RawJob) nextDraft(w *writer, next RawJob, d *draft) (err error) {
	if next.needsOwnPush() || next.Batch != nil {
		err = errors.New("a next job is pushed when the job before it is done: it has no In, At, Key, Unique (use NotUnique), Replicas (Replicated) or Batch (InBatch)")
		next.Key, next.Unique = "", nil
	}
	next.setDefaults(w)
	next.after = j.JID
	return errors.Join(err, next.draft(w, time.Unix(0, 0), d)) // its limits count from the end of the job before: see batch.Next
}
