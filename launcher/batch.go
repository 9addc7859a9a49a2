package launcher

import (
	"context"

	"github.com/belayq/belay/batch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

// BatchOf returns the batch of ctx's run: that of which its job is a member or, in the handler of a callback,
// that which has called it. pusher is Config.Pusher. ok is false for other jobs, and outside of a run.
func BatchOf(ctx context.Context) (b lua.Batch, pusher any, ok bool) {
	run, isRun := ctx.Value(runKey{}).(*run)
	if !isRun {
		return b, nil, false
	}
	b, ok = lua.BatchOf(run.job)
	return b, run.launcher().cfg.Pusher, ok
}

// BatchInvalid reports whether the batch of which ctx's job is a member was invalidated, as far as the process
// knows.
func BatchInvalid(ctx context.Context) bool {
	run, ok := ctx.Value(runKey{}).(*run)
	return ok && run.shard.marks.Invalid(run.job)
}

// Previous returns the jid of the job whose next job ctx's run is of. pusher is Config.Pusher. ok is false for
// other jobs, and outside of a run.
func Previous(ctx context.Context) (jid string, pusher any, ok bool) {
	run, isRun := ctx.Value(runKey{}).(*run)
	if !isRun {
		return "", nil, false
	}
	jid = run.job.After()
	return jid, run.launcher().cfg.Pusher, jid != ""
}

// builtIn are the classes that every worker runs, unless the program has handlers for them.
var builtIn = map[string]Handler{
	batch.NothingClass: func(context.Context, *job.Job) error { return nil },
	batch.NestedClass:  countNested,
}

// countNested counts in a batch whether the nested batch that has enqueued this job has dead members.
func countNested(ctx context.Context, j *job.Job) error {
	r, err := current(ctx)
	nested, ok := lua.BatchOf(j)
	if err != nil || !ok {
		return err
	}
	to := &link.Link{Client: r.shard.lanes.chores, Round: r.launcher().round(), Patient: true, Log: r.shard.log, Duty: "batches"}
	return r.waitOut(ctx, func() error {
		read, found, err := r.shard.keys.ReadBatch(ctx, to, nested.ID)
		if err != nil || !found || read.Parent == (lua.Batch{}) {
			return err
		}
		_, err = r.shard.keys.CountNested(nested.ID, read).Do(ctx, to)
		return err
	})
}
