package belay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// A DefineOption configures a class.
type DefineOption interface{ define(d *definition) }

// A JobOption configures jobs: all jobs of a class at Define, one job at Enqueue. The option at Enqueue
// overrides that at Define. With an invalid value Define panics and a push fails.
type JobOption func(*RawJob)

func (o JobOption) define(d *definition) { o.apply(&d.item) }

// apply applies the option to a job.
func (o JobOption) apply(i *RawJob) {
	if o == nil {
		i.Fail(errNilOption)
		return
	}
	o(i)
}

var errNilOption = errors.New("an option is nil")

// Queue sets the queue that the job goes to. Default: "default". An empty name, such as that of a variable
// that is not set, is an error.
func Queue(name string) JobOption {
	return func(i *RawJob) { i.Queue = named(i, "Queue", name) }
}

// named returns the name, and fails the job without one.
func named(i *RawJob, option, name string) string {
	if name == "" {
		i.Fail(fmt.Errorf("%s is given no name; was a variable not set? Leave it out for the default", option))
	}
	return name
}

// In delays the job by d, by Redis' clock, before it goes to its queue. Zero or less means now. More than a
// hundred years, in either direction, fails the push: a calculation has probably overflowed. It overrides an
// earlier At.
func In(d time.Duration) JobOption { return func(i *RawJob) { i.In, i.At = d, time.Time{} } }

// At schedules the job for t. The zero time, and a time in the past, means now. A time before 1970, or more
// than a hundred years ahead, fails the push. It overrides an earlier In.
func At(t time.Time) JobOption { return func(i *RawJob) { i.In, i.At = 0, t } }

// Retries sets how often a failed job runs again; 0 moves it to the dead set at once. Default:
// ServerConfig.Retries.
func Retries(n int) JobOption {
	return func(i *RawJob) { i.Retry = job.RetryRule{Kind: job.RetryLimit, Limit: n} }
}

// NoRetry drops a failed job: it does not run again and is not moved to the dead set.
func NoRetry() JobOption {
	return func(i *RawJob) { i.Retry = job.RetryRule{Kind: job.RetryNever} }
}

// RetryFor retries a failed job for d after its first failure, however many retries that takes; then it is
// moved to the dead set. d is in whole seconds, and at least one.
func RetryFor(d time.Duration) JobOption {
	return func(i *RawJob) { i.RetryFor = atLeast(time.Second, i, "RetryFor", d) }
}

// RetryQueue sets the queue that retries go to. Default: the job's own. An empty name is an error.
func RetryQueue(name string) JobOption {
	return func(i *RawJob) { i.RetryQueue = named(i, "RetryQueue", name) }
}

// Backtrace stores this many lines of the stack trace of a panic, or of an error that has one, with the failed
// job; -1 stores all. Default: none.
func Backtrace(lines int) JobOption { return func(i *RawJob) { i.Backtrace = lines } }

// NoDead drops the job when it has no retries left, instead of moving it to the dead set.
func NoDead() JobOption { return func(i *RawJob) { i.NoDead = true } }

// KeepDead moves a job to the dead set although its class has NoDead.
func KeepDead() JobOption { return func(i *RawJob) { i.NoDead = false } }

// Tags sets the job's tags, which dashboards show. It replaces earlier tags.
func Tags(tags ...string) JobOption { return func(i *RawJob) { i.Tags = slices.Clone(tags) } }

// JID sets the job's id. Nothing checks that no other job has it: a second push with the same id stores a
// second job, and commands that name a job by its id act on both. To store a job once, use Key. Use JID only
// with Enqueue and Job, not with Define or EnqueueMany.
func JID(id string) JobOption { return func(i *RawJob) { i.JID = id } }

// Key stores one job for each key, such as the id of a webhook's event, whatever its class, queue and
// arguments. For the time d after the push, or after the time of In and At, another push with the same key
// stores nothing, even if the first job has ended, died or was deleted. That is not an error: the receipt has
// StatusDuplicate, and its Holder is the jid of the first job. Choose a d that is longer than the sender
// repeats its requests.
//
// A key may have any bytes, at most 1,024 of them, and counts in one keyspace: one Redis and one
// ClientConfig.Prefix. d is a whole number of milliseconds, at most ten years. An invalid key or d fails the
// push. Redis stores a digest of the key; after a FLUSHALL or an eviction (see belay check) the key is free.
// After ErrUnknown any process may push again: if the first job was stored, the second is a duplicate.
//
// Key decides which pushes are accepted. The job itself, its retries and its recovery do not need the key, so
// it runs at least once, like any other. With Unique, a push needs both: the key is asked first, then the lock
// of Unique, and the first that is held refuses the job. A refused job holds neither, so its key stays free. A
// push that the key refuses counts for nothing else, such as RescheduleOnce. Key together with MarkDuplicates,
// and a prepared job with Key and Unique, fail. ClientConfig.DeduplicateIdempotent does not apply to a job with
// a Key. Use Key only with Enqueue and Job, not with Define or EnqueueMany.
//
// "belay locks find --key" shows which job has a key, and "belay locks release" frees the key.
func Key(key string, d time.Duration) JobOption {
	return func(i *RawJob) {
		if key == "" {
			i.Fail(errors.New("the Key is empty; was a variable not set?"))
		}
		i.Key, i.KeyFor = key, atLeastMilli(i, "Key for", d)
	}
}

// PushOnce gives the push an idempotency key, by which Redis stores it once however often it is sent. The
// client sends it again when no reply comes (see ClientConfig.RepeatFor), and Client.Repeat sends it again
// later, up to a day after it was first sent. It has no effect on runs: a job may still run twice.
func PushOnce() JobOption { return func(i *RawJob) { i.PushOnce = true } }

// Replicated makes the push wait until n replicas have the job, for up to d, which is in whole milliseconds and
// a minute at most. If fewer have it by then, the error is ErrReplicas, beside a receipt that says how many:
// the job is stored and runs, and a failover may lose it. ClientConfig.Replicas is the same for all pushes of a
// client, and says how many replicas are enough.
func Replicated(n int, d time.Duration) JobOption {
	return func(i *RawJob) {
		if n < 1 {
			i.Fail(fmt.Errorf("Replicated(%d): it must be at least 1; leave it out for none", n))
		}
		i.Replicas, i.ReplicaTimeout = n, atLeastMilli(i, "Replicated for", d)
	}
}

// Timeout ends a run's context after d, with the cause ErrTimeout. The handler's return value still decides
// the outcome. At Define it applies to all jobs of the class, instead of ServerConfig.Timeout. At Enqueue it
// applies to one job, and is stored in its payload in whole milliseconds.
func Timeout(d time.Duration) JobOption {
	return func(i *RawJob) { i.Timeout = atLeastMilli(i, "timeout", d) }
}

// ExpiresIn drops the job if it has not started within d. The time counts from the push or, with In or At, from
// when the job is due. The same holds for its retries. A dropped job is logged and counted. Sidekiq Pro has the
// same option.
//
// Worker programs of an earlier protocol, and Sidekiq without Pro, would start the job late, and nothing
// would show it. So the push fails with ErrOldWorker while such a worker of Belay is registered. The check does
// not cover Ruby's processes, periodic jobs, and jobs that contrib/outbox pushes.
func ExpiresIn(d time.Duration) JobOption {
	return func(i *RawJob) { i.ExpiresIn = atLeastMilli(i, "ExpiresIn", d) }
}

// Deadline requires the job to be done within d. The time counts as that of ExpiresIn, and like ExpiresIn it
// drops a job that has not started by then. If it passes during a run, the run's context ends with the cause
// ErrDeadline; if the handler then returns an error, the job is not retried. The push can fail with
// ErrOldWorker, as with ExpiresIn. The extra run of RescheduleOnce has no Deadline; use Timeout for it.
func Deadline(d time.Duration) JobOption {
	return func(i *RawJob) { i.Deadline = atLeastMilli(i, "Deadline", d) }
}

// atLeastMilli is atLeast a millisecond.
func atLeastMilli(i *RawJob, option string, d time.Duration) time.Duration {
	return atLeast(time.Millisecond, i, option, d)
}

// atLeast returns d. If it is too short, it fails the job and returns 0, so that the push, which checks jobs of
// every origin, does not report it again.
func atLeast(shortest time.Duration, i *RawJob, option string, d time.Duration) time.Duration {
	if d < shortest {
		i.Fail(fmt.Errorf("%s %v: it must be at least %v; leave it out for none", option, d, shortest))
		return 0
	}
	return d
}

// Track keeps the state, the progress and the result of the job, from its start until this long after its
// end. Client.Wait waits for its end, and Client.Tracked, belay find and the dashboard show it. Each tracked
// job occupies a hash in Redis with its payload, result and state. Default: a job that is done leaves nothing
// in Redis. A worker program from before this option runs the job and keeps nothing: Wait then ends with its
// context, and the result is lost.
//
// A job that no worker can read, because it is too large or damaged, is moved to the dead set, and Wait reports
// it as dead if the first and last bytes of the payload still have its jid. Otherwise, and if a damaged job was
// scheduled or waited for a retry, the state does not change: Wait then ends with its context.
func Track(retention time.Duration) JobOption {
	return func(i *RawJob) { i.Track = atLeastMilli(i, "Track", retention) }
}

// Meta adds a field, such as a request id or a tenant, that the handler reads with Info: in its RunInfo.Meta.
// Middleware applies it to a job, belay.Meta("tenant", tenant)(job), and middleware of a server reads it with
// Job.Meta. The fields stay with the job through its schedule, its retries and the dead set.
//
// Two names are Sidekiq's: locale is the language that its I18n middleware sets, and cattr the values of its
// CurrentAttributes as a JSON object, which is what Ruby reads. Jobs that Ruby pushed have them in Meta too;
// activejob.Attributes reads cattr as each version of Sidekiq writes it.
func Meta(name, value string) JobOption {
	return func(i *RawJob) { i.Meta = with(i.Meta, name, value) }
}

// with returns a copy of a map with one more entry: the definition's own is shared by all its jobs.
func with[M ~map[string]V, V any](m M, name string, value V) M {
	m = maps.Clone(m)
	if m == nil {
		m = make(M)
	}
	m[name] = value
	return m
}

// Field adds a field to the payload, for programs that read payloads, such as Sidekiq's middleware. For values
// that Go handlers read, use Meta. value is written as JSON, and replaces an earlier field of that name; the
// names of Sidekiq's own fields are refused.
func Field(name string, value any) JobOption {
	return func(i *RawJob) {
		text, err := job.Marshal(value)
		if err != nil {
			text = err.Error() // no JSON: the push is refused, and names the field
		}
		// A new array: the definition's own is shared by all its jobs.
		kept := slices.DeleteFunc(slices.Clone(i.Extra), func(f job.Edit) bool { return f.Name == name })
		i.Extra = append(kept, job.Edit{Name: name, JSON: text})
	}
}

// KeepErrors keeps the errors of a job's last n failed runs with the job, each with its time and at most 300
// characters of its message: on its page in the dashboard, in belay find and in Entry.Errors of package
// inspect. n is at most 50. They are written into the payload, up to 16 KiB and the oldest left out, and travel
// with each retry. Default: only the last error is kept.
func KeepErrors(n int) DefineOption {
	return definitionOption(func(def *definition) {
		if def.about.KeepErrors = n; n < 1 || n > job.MaxPastErrors {
			def.problems = append(def.problems, fmt.Errorf("KeepErrors(%d): it must be from 1 to %d", n, job.MaxPastErrors))
		}
	})
}

// An ErrorRule decides what happens to a job whose run ends with one of some errors: KillOn, DiscardOn and
// SnoozeOn make it. It is an option of Define, for one class, and ServerConfig.ErrorRules has those for all
// classes. What a handler returns by Kill, Discard, Snooze or RetryIn goes before all rules; then the class'
// own are asked, in order, then the server's, and the first that matches decides.
//
// The errors are compared as errors.Is does, so a wrapped error matches. A nil pointer stands for all errors of
// its type, as with errors.As:
//
//	belay.KillOn(ErrCardDeclined, (*stripe.Error)(nil), (*belay.PanicError)(nil))
type ErrorRule retry.ErrorRule

func (r ErrorRule) define(d *definition) {
	if err := retry.ErrorRule(r).Check(); err != nil {
		d.problems = append(d.problems, fmt.Errorf("an error rule: %w", err))
	}
	d.about.Rules = append(d.about.Rules, retry.ErrorRule(r))
}

// KillOn moves a job whose run ends with one of these errors to the dead set, without further retries, as Kill
// does. Define panics and NewServer fails if an error is nil, or none is given.
func KillOn(errs ...error) ErrorRule { return ErrorRule{Ask: retry.AskKill, Errors: errs} }

// DiscardOn drops a job whose run ends with one of these errors, as Discard does. The run counts as failed.
func DiscardOn(errs ...error) ErrorRule { return ErrorRule{Ask: retry.AskDiscard, Errors: errs} }

// SnoozeOn runs a job again whose run ends with one of these errors, as Snooze does: the run does not count as
// failed, uses up no retry and stores no error. The job waits as long as it would for a retry: see Backoff. It
// may snooze for ever, each time for as long; ExpiresIn and Deadline end that. A line of the log has the error.
func SnoozeOn(errs ...error) ErrorRule { return ErrorRule{Ask: retry.AskSnooze, Errors: errs} }

// retryRules returns rules as package retry has them.
func retryRules(rules []ErrorRule) []retry.ErrorRule {
	list := make([]retry.ErrorRule, len(rules))
	for i, rule := range rules {
		list[i] = retry.ErrorRule(rule)
	}
	return list
}

type definitionOption func(*definition)

func (o definitionOption) define(d *definition) { o(d) }

// NamedArgs writes the arguments, a struct, as one JSON object with the names of its fields, as encoding/json
// does. Without it they are an array in the order of the fields. Use it for classes that only Go programs push
// and run: fields may be added and moved while jobs wait, and only a rename changes what they mean. Ruby gets
// such a job as perform(hash). Use UniqueBy, not the Fields of Unique, with it.
func NamedArgs() DefineOption { return definitionOption(func(def *definition) { def.named = true }) }

// Backoff sets how long a failed job of the class waits, exactly, instead of the formula's delay. count is 0
// after the first failure, and j is the job as it was before the run. For a delay of 0 or less, the formula's
// delay is used. Jobs that fail together are retried together: retry.BackoffFunc(f).WithJitter(0.2) adds up
// to a fifth at random.
func Backoff(f func(count int, err error, j *Job) time.Duration) DefineOption {
	return definitionOption(func(def *definition) {
		if def.about.Backoff = f; f == nil {
			def.problems = append(def.problems, errors.New("the Backoff is nil; leave it out for the formula's"))
		}
	})
}
