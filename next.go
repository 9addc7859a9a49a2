package belay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/belayq/belay/launcher"
)

// Then enqueues these jobs, of Definition.Job, when the job is done: each once, at the back of its own queue,
// in the step that ends the run, so no crash loses or repeats one. Any other end enqueues none: a job that
// fails does so when a retry is done; one that dies, when an operator retries it and it is done; one that is
// discarded, cancelled or deleted, or that expires, never. A next job may have next jobs: see Sequence.
//
//	Extract.Enqueue(ctx, client, args, belay.Then(Load.Job(loadArgs), Audit.Job(auditArgs)))
//
// The next jobs travel in the payload of the job, so the PayloadLimit bounds all of them together; at most 16
// jobs follow one, and 32 one another. They are checked at the push, where the middleware of the client sees
// them too; if it refuses one of them, the push fails. They have no In, At, Key, Unique, Replicated or
// InBatch; give NotUnique to one of a Unique class. Their ExpiresIn and Deadline count from the instant at
// which they are enqueued. A periodic job has no next jobs, and the extra run of RescheduleOnce does not
// enqueue them. Then may be given several times.
//
// A worker program of a version without next jobs, and Sidekiq, would drop them. So the push fails with
// ErrOldWorker while such a worker of Belay is registered.
func Then(jobs ...RawJob) JobOption {
	return func(i *RawJob) { i.Then = append(slices.Clip(i.Then), jobs...) }
}

// Sequence returns the first of these jobs, ready for Client.Push and Client.PushMany, so that each one is
// enqueued when the one before it is done: see Then. Each keeps the next jobs that it has.
//
//	receipt, err := client.Push(ctx, belay.Sequence(Extract.Job(day), Load.Job(day), Report.Job(day)))
func Sequence(first RawJob, next ...RawJob) RawJob {
	if len(next) > 0 {
		Then(Sequence(next[0], next[1:]...))(&first)
	}
	return first
}

// ErrNoPrevious is the error of Previous if there is no result: the job is no next job, the class of the job
// before it is not tracked, that job has set no result, or the time given to Track is over.
var ErrNoPrevious = errors.New("belay: no result of a previous job")

// Previous returns the result of the job whose next job a handler runs. The class of that job has Track, and
// its handler sets a result, as those of DefineResult do; ResultDefinition.Previous is the same with its type.
// RunInfo.After is its jid. The error is ErrNoPrevious if there is no result, that of Redis, or that of
// encoding/json if the result does not fit R. Objects fit most structs: a field of R that the result does not
// have is left zero without an error.
func Previous[R any](ctx context.Context) (result R, err error) {
	jid, pusher, ok := launcher.Previous(ctx)
	c, isClient := pusher.(*Client)
	if !ok || !isClient {
		return result, ErrNoPrevious
	}
	tracked, err := c.Tracked(ctx, jid)
	if err != nil {
		return result, err
	}
	if tracked.Result == nil {
		err = fmt.Errorf("%w: job %s: %s", ErrNoPrevious, jid, tracked.State)
		if tracked.NoResult != "" {
			err = fmt.Errorf("%w: %s", err, tracked.NoResult)
		}
		return result, err
	}
	return readResult[R](jid, tracked)
}

// Previous is the function Previous for a handler whose job follows one of this class: the type of the result
// is that of the class.
//
//	rows, err := Extract.Previous(ctx)
func (d *ResultDefinition[T, R]) Previous(ctx context.Context) (R, error) { return Previous[R](ctx) }

// JIDOf returns the jid of the nth of many jobs with a common name: 24 hexadecimal digits, the same each time.
// A program that pushes the members of a batch under such ids finds them again without storing them: the
// callback of the batch has the name and the number of them in its arguments, and reads their results with
// Client.TrackedMany. No two runs of the program may use one name, unless the second repeats the first.
func JIDOf(name string, n int) string {
	sum := sha256.Sum256([]byte(name + "\n" + strconv.Itoa(n)))
	return hex.EncodeToString(sum[:12])
}
