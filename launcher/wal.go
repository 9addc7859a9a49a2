package launcher

import (
	"context"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

// withLeft is a job as it is run: with the positions that refused duplicates left, which are known by its
// start alone. They stand in its payload from here on, so that whatever comes of the run, a retry or a
// snooze, knows them too.
func withLeft(j *job.Job, left dedup.WAL) *job.Job {
	if len(left) == 0 {
		return j
	}
	patched, err := job.Parse(j.Patch(dedup.ReadRefusedWAL(j).Later(left).Edit(dedup.FieldRefusedWAL)))
	if err != nil {
		return j // a payload so odd that another field breaks it runs as it is
	}
	return patched
}

// WAL is how far the databases must have come that the run reads to which ctx belongs: of each connection
// the latest position that the job was pushed with, or that a duplicate was pushed with which was refused
// for its sake. nil for none, and outside of a run.
func WAL(ctx context.Context) dedup.WAL {
	run, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return nil
	}
	return dedup.ReadWAL(run.job)
}
