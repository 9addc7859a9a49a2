package launcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// ErrInterrupted is the error of a job that was moved to the dead set because its process died again and
// again while it ran, the last time with no other run.
var ErrInterrupted = errors.New("belay: interrupted: its process died again and again with this job in hand")

// An ErrorHandler is called for each run that did not succeed, with the run's context. Its own panics are
// only logged.
type ErrorHandler func(ctx context.Context, j *job.Job, err error)

// A DeathHandler is called for a job that will not run again on its own: it is out of retries or of time,
// its handler discarded or killed it, or it has crashed too many processes (ErrInterrupted). The call comes
// before the settle, so there may be two for one job. The job is as it was before its last run. Its own
// panics are only logged.
type DeathHandler func(ctx context.Context, j *job.Job, err error)

// An Orphan is a job that this process has brought back from a process that died.
type Orphan struct {
	// Job is nil when the payload cannot be read; Payload is always there, as it now lies in its new home.
	Job     *job.Job
	Payload string
	Queue   string
	// From is the identity of the process that died.
	From string
	// Home is where the job is now.
	Home lua.Home
}

// An OrphanHandler is called for each orphan, some time after it was recovered. It delays no job; its own
// panics are only logged.
type OrphanHandler func(orphan Orphan)

// An InternalErrorHandler is called with an error outside of any run. source names the place: the call to
// Redis that failed ("beat", "poll", "janitor", "take" and so on; for an outage the first that failed),
// "payload" for an unreadable payload, which is moved to the dead set, or the hook that panicked, with a
// *retry.PanicError.
//
// It is called once for each log line of the error: once at the beginning of an outage, once a minute while
// Redis refuses a call. It runs asynchronously in its own goroutine, possibly concurrently with itself.
// While 64 calls have not returned, further calls are dropped and logged. Its own panics are only logged.
type InternalErrorHandler func(source string, err error)

// sourcePayload is the source of an unreadable payload's error.
const sourcePayload = "payload"

// hooks are the callbacks of the program.
type hooks struct {
	errors  []ErrorHandler
	stuck   []StuckHandler
	deaths  []DeathHandler
	orphans []OrphanHandler
	inner   []InternalErrorHandler

	start            []func(context.Context) error
	quiet, stop, end []func()

	quieting, stopping sync.Once
	room               chan struct{} // for the calls in goroutines of their own
	mu                 sync.Mutex
	over               bool           // no more calls are made
	calls              sync.WaitGroup // under way; added to under mu, and not once it is over
}

// mostCalls is how many calls of hooks may be under way in goroutines of their own. Further ones are
// dropped.
const mostCalls = 64

// addHook adds a hook. It panics after Run: a hook that misses the beginning is a mistake in the program.
func addHook[T any](l *Launcher, name string, hooks *[]T, hook T) {
	if l.started() {
		panic("belay: " + name + " after Run: call it before")
	}
	*hooks = append(*hooks, hook)
}

// OnError registers a callback for runs that did not succeed. It panics after Run.
func (l *Launcher) OnError(handler ErrorHandler) { addHook(l, "OnError", &l.hooks.errors, handler) }

// OnStuck registers a callback for runs whose context has ended and whose handler does not return. It is
// called once the run has gone on for as long again as its class' timeout, though at least 5 s and at most a
// minute (5 s where it was cancelled for another reason), then every ten minutes, and when the process stops
// without it, unless that was reported before. It panics after Run.
func (l *Launcher) OnStuck(handler StuckHandler) { addHook(l, "OnStuck", &l.hooks.stuck, handler) }

// OnDeath registers a callback for jobs that will not run again on their own. It panics after Run.
func (l *Launcher) OnDeath(handler DeathHandler) { addHook(l, "OnDeath", &l.hooks.deaths, handler) }

// OnOrphan registers a callback for jobs that this process recovers from dead processes. It panics after
// Run.
func (l *Launcher) OnOrphan(handler OrphanHandler) {
	addHook(l, "OnOrphan", &l.hooks.orphans, handler)
}

// OnInternalError registers a callback for errors outside of runs: outages, calls that Redis refuses,
// unreadable payloads, panics of hooks. It panics after Run.
func (l *Launcher) OnInternalError(handler InternalErrorHandler) {
	addHook(l, "OnInternalError", &l.hooks.inner, handler)
}

// OnStart registers a hook that runs before anything is taken, in the order added. An error ends Run. It
// panics after Run.
func (l *Launcher) OnStart(hook func(ctx context.Context) error) {
	addHook(l, "OnStart", &l.hooks.start, hook)
}

// OnQuiet registers a hook that runs, asynchronously, once nothing more is taken: after Quiet, or at the
// beginning of a stop. It panics after Run.
func (l *Launcher) OnQuiet(hook func()) { addHook(l, "OnQuiet", &l.hooks.quiet, hook) }

// OnStop registers a hook that runs, asynchronously, when a stop begins, while jobs may still run. It panics
// after Run.
func (l *Launcher) OnStop(hook func()) { addHook(l, "OnStop", &l.hooks.stop, hook) }

// OnExit registers a hook that runs when the last job has been settled, the last one added first. Run waits
// for it. It panics after Run.
func (l *Launcher) OnExit(hook func()) { addHook(l, "OnExit", &l.hooks.end, hook) }

// begin calls the start hooks; a panic in one is its error.
func (l *Launcher) begin(ctx context.Context) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("start hook panicked: %s", panicText(value))
		}
	}()
	for _, hook := range l.hooks.start {
		if err := hook(ctx); err != nil {
			return fmt.Errorf("start hook: %w", err)
		}
	}
	return nil
}

func (l *Launcher) callQuiet() {
	l.hooks.quieting.Do(func() { l.callLater("quiet hook", l.hooks.quiet...) })
}

func (l *Launcher) callStop() {
	l.hooks.stopping.Do(func() { l.callLater("stop hook", l.hooks.stop...) })
}

func (l *Launcher) exit() {
	for i := len(l.hooks.end) - 1; i >= 0; i-- {
		l.guard("exit hook", l.hooks.end[i])
	}
}

// callError calls the error handlers for a run that did not succeed. A requeue is no failure.
func (l *Launcher) callError(ctx context.Context, j *job.Job, err error, verdict retry.Verdict) {
	switch verdict.Outcome.Exit() {
	case job.ExitRequeued, job.ExitSnoozed, job.ExitDone:
		return
	}
	for _, handler := range l.hooks.errors {
		l.guard("error handler", func() { handler(ctx, j, err) })
	}
	if verdict.Exhausted {
		l.callDeath(ctx, j, err)
	}
}

// callDeath calls the class' own handler first, as Sidekiq does.
func (l *Launcher) callDeath(ctx context.Context, j *job.Job, err error) {
	if own := l.pool.Load().registered(j.Class()).class.Exhausted; own != nil {
		l.guard("exhausted handler", func() { own(ctx, j, err) })
	}
	for _, handler := range l.hooks.deaths {
		l.guard("death handler", func() { handler(ctx, j, err) })
	}
}

// recoveredHook returns what the janitor calls with recovered jobs; nil when no hook is registered for them.
func (l *Launcher) recoveredHook() func(from string, lists []lua.Orphans) {
	for _, registered := range l.handlers {
		if registered.class.Exhausted != nil {
			return l.recovered
		}
	}
	if len(l.hooks.orphans)+len(l.hooks.deaths)+len(l.hooks.inner) > 0 {
		return l.recovered
	}
	return nil
}

func (l *Launcher) recovered(from string, lists []lua.Orphans) {
	l.callLater("orphan handler", func() {
		for _, list := range lists {
			for _, entry := range list.Entries {
				l.callOrphan(Orphan{Payload: entry.New, Queue: list.Queue, From: from, Home: entry.Home})
			}
		}
	})
}

func (l *Launcher) callOrphan(orphan Orphan) {
	if parsed, err := job.ParseToRun(orphan.Payload); err == nil {
		orphan.Job = parsed
	} else {
		l.callInternal(sourcePayload, fmt.Errorf("queue %q: %w", orphan.Queue, err))
	}
	for _, handler := range l.hooks.orphans {
		l.guard("orphan handler", func() { handler(orphan) })
	}
	if orphan.Job != nil && orphan.Home == lua.HomeDead {
		l.callDeath(context.Background(), orphan.Job, ErrInterrupted)
	}
}

// callInternal calls the handlers of internal errors. It returns at once.
func (l *Launcher) callInternal(source string, err error) {
	calls := make([]func(), 0, len(l.hooks.inner))
	for _, handler := range l.hooks.inner {
		calls = append(calls, func() {
			defer func() {
				if value := recover(); value != nil {
					l.writePanic("internal error handler", value) // calling it again for its own panic might never end
				}
			}()
			handler(source, err)
		})
	}
	l.callLater("internal error handler", calls...)
}

// callLater makes calls in a goroutine of their own, one after the other.
func (l *Launcher) callLater(what string, calls ...func()) {
	if len(calls) == 0 {
		return
	}
	select {
	case l.hooks.room <- struct{}{}:
	default:
		l.cfg.Log.Error().Msg(what + " not called: " + fmt.Sprint(mostCalls) + " earlier ones have not returned")
		return
	}
	l.hooks.mu.Lock()
	defer l.hooks.mu.Unlock()
	if l.hooks.over {
		return
	}
	l.hooks.calls.Go(func() {
		defer func() { <-l.hooks.room }()
		for _, call := range calls {
			l.guard(what, call)
		}
	})
}

// awaitCalls gives the calls under way a moment to return. No more calls are made after that.
func (l *Launcher) awaitCalls() {
	l.hooks.mu.Lock()
	l.hooks.over = true
	l.hooks.mu.Unlock()
	returned := make(chan struct{})
	go func() {
		l.hooks.calls.Wait()
		close(returned)
	}()
	select {
	case <-returned:
	case <-time.After(fetch.Moment):
	}
}

// guard calls code of the program, whose panics must harm no job.
func (l *Launcher) guard(what string, call func()) {
	defer func() {
		if value := recover(); value != nil {
			l.logPanic(what, value)
		}
	}()
	call()
}

func (l *Launcher) logPanic(what string, value any) {
	l.writePanic(what, value)
	l.callInternal(what, &retry.PanicError{Value: value})
}

func (l *Launcher) writePanic(what string, value any) {
	l.cfg.Log.Error().Str("panic", l.errorText("", errors.New(panicText(value)))).Msg(what + " panicked")
}

// panicText is what a panic was about. To print the value is not enough: its own methods may panic, and
// with something that panics when it is printed, which package fmt passes on and which would end the
// process.
func panicText(value any) string {
	return strings.TrimPrefix((&retry.PanicError{Value: value}).Error(), "panic: ")
}
