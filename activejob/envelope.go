package activejob

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/job"
)

// An Envelope is what ActiveJob stores around the arguments of a job.
type Envelope struct {
	// JobClass is the job's own class. Wrap sets it.
	JobClass string `json:"job_class"`
	// JobID is ActiveJob's id, which is not the jid. Default: a random UUID.
	JobID string `json:"job_id"`
	// ProviderJobID is set in jobs that Ruby pushed again.
	ProviderJobID *string `json:"provider_job_id"`
	// QueueName is the queue that the job was pushed to first. Default: the queue of the push.
	QueueName string `json:"queue_name"`
	// Priority has no meaning in Sidekiq.
	Priority *int `json:"priority"`
	// Arguments are the arguments in ActiveJob's form, a JSON array. Wrap sets them.
	Arguments json.RawMessage `json:"arguments"`
	// Executions counts the runs that Ruby's retry_on has retried; ExceptionExecutions counts them by error.
	Executions          int            `json:"executions"`
	ExceptionExecutions map[string]int `json:"exception_executions"`
	// Locale is the language in which Ruby runs the job. Default: en.
	Locale string `json:"locale"`
	// Timezone is the zone in which Ruby runs the job, by Rails' name; nil for the program's own.
	Timezone *string `json:"timezone"`
	// EnqueuedAt is when the job was pushed, as text. Default: now.
	EnqueuedAt string `json:"enqueued_at"`
}

// Wrap returns an option that pushes a job as an ActiveJob, for a class that Rails or a handler with Unwrap
// runs. At Define it is for all jobs of the class. Fields that e does not set have their defaults. The envelope
// is made at the push, so Wrap may come before or after the other options, and each push without a JobID has an
// id of its own. The push of a unique job fails: each ActiveJob has its own id among its arguments, so no two
// are equal.
func Wrap(e Envelope) belay.JobOption {
	return func(j *belay.RawJob) { j.AtPush(func(j *belay.RawJob) { wrap(e, j) }) }
}

// wrap puts the envelope around the arguments of a job.
func wrap(e Envelope, j *belay.RawJob) {
	if j.Unique != nil {
		j.Fail(errors.New("activejob: an ActiveJob cannot be unique, because its id is one of its arguments"))
	}
	arguments, err := j.ArgsJSON, error(nil)
	if arguments == "" {
		arguments, err = job.MarshalArgs(j.Args)
	}
	if err != nil {
		j.Fail(err)
		return
	}
	e.JobClass, e.Arguments = j.Class, json.RawMessage(arguments)
	e.JobID, e.Locale = cmp.Or(e.JobID, job.NewUUID()), cmp.Or(e.Locale, "en")
	e.QueueName = cmp.Or(e.QueueName, j.Queue, job.DefaultQueue)
	e.EnqueuedAt = cmp.Or(e.EnqueuedAt, time.Now().UTC().Format(time.RFC3339))
	if e.ExceptionExecutions == nil {
		e.ExceptionExecutions = map[string]int{}
	}
	j.Class, j.Args, j.ArgsJSON, j.NotUnique = job.ActiveJob, []any{e}, "", true
	belay.Field("wrapped", e.JobClass)(j)
}

// Unwrap returns an option for Define: handlers of the class get the arguments of ActiveJobs of that name.
// Jobs of the class that are not ActiveJobs run as they are. A job whose envelope cannot be read fails.
func Unwrap() belay.DefineOption { return belay.Around(unwrap) }

func unwrap(next belay.Handler) belay.Handler {
	return func(ctx context.Context, j *belay.Job) error {
		if !j.IsActiveJob() {
			return next(ctx, j)
		}
		e, err := Open(j)
		if err != nil {
			return err
		}
		arguments, err := plain(e.Arguments)
		if err != nil {
			return fmt.Errorf("activejob: read the arguments of %s: %w", e.JobClass, err)
		}
		own, err := job.Parse(j.Patch(job.Edit{Name: "args", JSON: string(arguments)}))
		if err != nil {
			return fmt.Errorf("activejob: read the arguments of %s: %w", e.JobClass, err)
		}
		return next(context.WithValue(ctx, infoKey{}, e), own)
	}
}

type infoKey struct{}

// Info returns the envelope of the ActiveJob that ctx's run belongs to; ok is false in any other run.
func Info(ctx context.Context) (e Envelope, ok bool) {
	e, ok = ctx.Value(infoKey{}).(Envelope)
	return e, ok
}

// Open returns the envelope of an ActiveJob, for middleware and for handlers of all classes. Its error shows
// none of the arguments.
func Open(j *belay.Job) (e Envelope, err error) {
	args := j.Args()
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &e) != nil || e.JobClass == "" || len(e.Arguments) == 0 || e.Arguments[0] != '[' {
		return Envelope{}, errors.New("activejob: the job is not an ActiveJob: its argument is not the object that Rails writes")
	}
	return e, nil
}
