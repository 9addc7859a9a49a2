package belay

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// OnStart registers a callback that runs before the first job is taken. Callbacks run in the order added. An
// error ends Run. ctx is that of Run. RunProcess, and so Main, ends it when a signal begins a stop; Server.Stop
// does not end it. A goroutine that must outlive the stop is started by Main's setUp, with its context.
func (s *Server) OnStart(callback func(ctx context.Context) error) {
	s.made("OnStart").OnStart(callback)
}

// OnQuiet registers a callback that runs when no more jobs are taken: after Quiet, or when a stop begins. It
// runs asynchronously.
func (s *Server) OnQuiet(callback func()) { s.made("OnQuiet").OnQuiet(callback) }

// OnStop registers a callback that runs when a stop begins, while jobs may still be running. It runs
// asynchronously.
func (s *Server) OnStop(callback func()) { s.made("OnStop").OnStop(callback) }

// OnExit registers a callback that runs after the last job has been settled. The callback added last runs
// first. Run waits for it.
func (s *Server) OnExit(callback func()) { s.made("OnExit").OnExit(callback) }

// OnError registers a callback for each run that did not succeed, with the run's context. The run's processor
// waits for it. The callback is not called for a run that was requeued or snoozed, because its job continues
// later. For a cancelled job it is called only if the error is neither context.Canceled nor ErrCancelled.
func (s *Server) OnError(callback func(ctx context.Context, j *Job, err error)) {
	s.made("OnError").OnError(callback)
}

// OnStuck registers a callback for runs whose context has ended and whose handler does not return. If the run
// has exceeded its Timeout, the first call comes after another Timeout, of at least 5 s and at most a minute.
// If the context has ended for another reason, it comes after 5 s. Further calls follow every ten minutes,
// and one when the server stops and leaves the run behind, unless it was reported before. Such a run keeps
// its processor and its job: no goroutine can be ended from outside.
//
// The callback delays no job, and a stop waits for it no longer than a second. It may be called from several
// goroutines at once.
func (s *Server) OnStuck(callback func(run StuckRun)) { s.made("OnStuck").OnStuck(callback) }

// OnDeath registers a callback for jobs of any class that have failed for good: they have no retries or no time
// left, their handler killed them, or they have crashed too many processes (ErrCrashed). They are in the dead
// set or, with NoDead, gone. It is not called for jobs that end by Discard or NoRetry.
// The call comes before the settle, so there may be two calls for one job. j is the job as it was before its
// last run.
func (s *Server) OnDeath(callback func(ctx context.Context, j *Job, err error)) {
	s.made("OnDeath").OnDeath(callback)
}

// OnOrphan registers a callback for jobs that this server recovers from processes that died. It is called some
// time after the recovery, and delays no job.
func (s *Server) OnOrphan(callback func(orphan Orphan)) { s.made("OnOrphan").OnOrphan(callback) }

// OnInternalError registers a callback for errors outside of runs. source names the place: the call to Redis
// that failed ("beat", "poll", "janitor", "take" and so on; for an outage the first that failed), "payload" for
// an unreadable payload, which is moved to the dead set, or the callback that panicked, with a *PanicError.
//
// It is called once for each log line of the error: once at the beginning of an outage, once a minute while
// Redis refuses a call. It runs asynchronously in its own goroutine, possibly concurrently with itself. While
// 64 calls have not returned, further calls are dropped and logged.
func (s *Server) OnInternalError(callback func(source string, err error)) {
	s.made("OnInternalError").OnInternalError(callback)
}

type (
	// StuckRun describes a run whose handler does not return though its context has ended: its Job and Queue,
	// the Cause of the end of its context, how long it is Overdue, and the Stack of its goroutine.
	StuckRun = launcher.StuckRun
	// Orphan is a job that was recovered from a process that died: its Job, or only its Payload if that cannot
	// be read, its Queue, the dead process that it is From, and its Home, where it is now.
	Orphan = launcher.Orphan
)

// Around adds middleware around the runs of a class, inside of the Server's middleware.
func Around(middleware ...Middleware) DefineOption {
	return definitionOption(func(def *definition) {
		if slices.ContainsFunc(middleware, func(m Middleware) bool { return m == nil }) {
			def.problems = append(def.problems, errors.New("a middleware of Around is nil"))
		}
		def.about.Middleware = append(def.about.Middleware, middleware...)
	})
}

// AroundArgs adds middleware around the runs of a class, as Around does and in one order with it, that gets the
// arguments that the handler gets. next runs the job; middleware that does not call it decides the outcome by
// its own error. T is that of Define, which panics otherwise. A job whose arguments do not fit T fails with an
// *ArgumentError before the middleware is called.
//
//	belay.AroundArgs(func(ctx context.Context, args ReportArgs, j *belay.Job, next func(context.Context) error) error {
//		return next(withTenant(ctx, args.TenantID))
//	})
func AroundArgs[T any](middleware func(ctx context.Context, args T, j *Job, next func(context.Context) error) error) DefineOption {
	return withArgs[T]("AroundArgs", middleware == nil, func(def *definition) {
		def.about.Middleware = append(def.about.Middleware, func(next Handler) Handler {
			return func(ctx context.Context, j *Job) error {
				args, err := argsOf[T](def, j)
				if err != nil {
					return err
				}
				return middleware(ctx, args, j, func(ctx context.Context) error { return next(ctx, j) })
			}
		})
	})
}

// OnExhausted registers a callback for jobs of the class that have failed for good, as Server.OnDeath
// describes. Several run in the order given, all before the callbacks of OnDeath. T is that of Define, which
// panics otherwise. If the job's arguments do not fit T, args is a zero T, and err wraps an *ArgumentError; if
// they cannot be decrypted, a *DecryptError; if they are compressed and cannot be read, retry.ErrCompressed.
//
// Go does not compile a callback that uses the variable of its own Definition ("initialization cycle"). The
// callback does not need that variable: it gets the arguments, and Job.Class has the class.
func OnExhausted[T any](callback func(ctx context.Context, args T, j *Job, err error)) DefineOption {
	return withArgs[T]("OnExhausted", callback == nil, func(def *definition) {
		def.about.Exhausted = append(def.about.Exhausted, func(ctx context.Context, j *Job, err error) {
			args, unread := argsOf[T](def, j)
			if unread != nil && !isUnread(err) {
				err = errors.Join(err, unread)
			}
			callback(ctx, args, j, err)
		})
	})
}

// isUnread reports whether a run failed because the arguments could not be read.
func isUnread(err error) bool {
	_, misfit := errors.AsType[*ArgumentError](err)
	_, sealed := errors.AsType[*DecryptError](err)
	return misfit || sealed || errors.Is(err, retry.ErrCompressed)
}

// withArgs returns an option with a function that takes the arguments as a T.
func withArgs[T any](name string, isNil bool, define func(*definition)) DefineOption {
	return definitionOption(func(def *definition) {
		switch of := reflect.TypeFor[T](); {
		case isNil:
			def.problems = append(def.problems, fmt.Errorf("the function of %s is nil", name))
		case def.of == nil:
			def.problems = append(def.problems, fmt.Errorf("the function of %s needs a Definition", name))
		case of != def.of:
			def.problems = append(def.problems, fmt.Errorf("the function of %s takes %v, and the arguments are %v", name, of, def.of))
		default:
			define(def)
		}
	})
}
