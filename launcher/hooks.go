package launcher

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// ErrCrashed is the error of a job that was moved to the dead set because its process crashed too often
// while it ran, the last time with nothing else running.
var ErrCrashed = errors.New("belay: crashed: its process died repeatedly while this job ran")

// An Orphan is a job that this process has recovered from a dead process.
type Orphan struct {
	// Job is nil if the payload cannot be read. Payload is always set, to the bytes at its new place.
	Job     *job.Job
	Payload string
	Queue   string
	// From is the identity of the process that died.
	From string
	// Home is where the job is now.
	Home lua.Home
}

// sourcePayload is the source of an unreadable payload's error.
const sourcePayload = "payload"

// hooks are the callbacks of the program.
type hooks struct {
	errors, deaths []func(ctx context.Context, j *job.Job, err error)
	stuck          []func(run StuckRun)
	orphans        []func(orphan Orphan)
	inner          []func(source string, err error)

	start            []func(context.Context) error
	quiet, stop, end []func()

	room chan struct{} // bounds the calls in goroutines of their own
	over atomic.Bool   // no more calls are made
}

// maxCalls bounds the calls of hooks under way in goroutines of their own. Further calls are dropped.
const maxCalls = 64

// addHook adds a hook. It panics after Run: a hook that misses the beginning is a mistake in the program. The
// method of belay.Server with the same name documents when a hook is called. In any hook a panic, or the end of
// its goroutine, is logged and has no effect on the other hooks.
func addHook[T any](l *Launcher, name string, hooks *[]T, hook T) {
	switch {
	case l.started():
		panic("belay: " + name + " after Run: call it before")
	case reflect.ValueOf(hook).IsNil():
		panic("belay: " + name + ": the function is nil")
	}
	*hooks = append(*hooks, hook)
}

// OnError registers a hook for runs that did not succeed.
func (l *Launcher) OnError(hook func(ctx context.Context, j *job.Job, err error)) {
	addHook(l, "OnError", &l.hooks.errors, hook)
}

// OnStuck registers a hook for runs whose context has ended and whose handler does not return.
func (l *Launcher) OnStuck(hook func(run StuckRun)) { addHook(l, "OnStuck", &l.hooks.stuck, hook) }

// OnDeath registers a hook for jobs that will not run again on their own.
func (l *Launcher) OnDeath(hook func(ctx context.Context, j *job.Job, err error)) {
	addHook(l, "OnDeath", &l.hooks.deaths, hook)
}

// OnOrphan registers a hook for jobs that this process recovers from dead processes.
func (l *Launcher) OnOrphan(hook func(orphan Orphan)) { addHook(l, "OnOrphan", &l.hooks.orphans, hook) }

// OnInternalError registers a hook for errors outside of runs.
func (l *Launcher) OnInternalError(hook func(source string, err error)) {
	addHook(l, "OnInternalError", &l.hooks.inner, hook)
}

// OnStart registers a hook that runs before the first job is taken. An error ends Run.
func (l *Launcher) OnStart(hook func(context.Context) error) {
	addHook(l, "OnStart", &l.hooks.start, hook)
}

// OnQuiet registers a hook that runs, asynchronously, when no more jobs are taken.
func (l *Launcher) OnQuiet(hook func()) { addHook(l, "OnQuiet", &l.hooks.quiet, hook) }

// OnStop registers a hook that runs, asynchronously, when a stop begins.
func (l *Launcher) OnStop(hook func()) { addHook(l, "OnStop", &l.hooks.stop, hook) }

// OnExit registers a hook that runs after the last job has been settled. The hook added last runs first.
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

func (l *Launcher) exit() {
	calls := callsOf("exit hook", l.hooks.end)
	slices.Reverse(calls)
	l.callEach(calls)
}

// callError calls the error handlers for a run that did not succeed. A requeue is no failure.
func (l *Launcher) callError(ctx context.Context, j *job.Job, err error, verdict retry.Verdict) {
	if !verdict.Outcome.Exit().Fault() {
		return
	}
	var calls []call
	for _, handler := range l.hooks.errors {
		calls = append(calls, call{"error handler", func() { handler(ctx, j, err) }, j})
	}
	if verdict.Exhausted {
		calls = append(calls, l.deathCalls(ctx, j, err)...)
	}
	l.callEach(calls)
}

// deathCalls returns the calls for a job that will not run again. Those of the class' own handlers are the
// first, as in Sidekiq.
func (l *Launcher) deathCalls(ctx context.Context, j *job.Job, err error) (calls []call) {
	for _, own := range l.pool.Load().registered(j).class.Exhausted {
		calls = append(calls, call{"exhausted handler", func() { own(ctx, j, err) }, j})
	}
	for _, handler := range l.hooks.deaths {
		calls = append(calls, call{"death handler", func() { handler(ctx, j, err) }, j})
	}
	return calls
}

// recovered receives the jobs that the janitor has recovered. It parses only those that a hook may want: most
// programs have none, and a rack that loses power leaves many jobs.
func (s *shard) recovered(from string, lists []lua.Orphans) {
	for _, list := range lists {
		s.statistics.countRecovered(len(list.Entries))
	}
	hooks := &s.launcher.hooks
	all := len(hooks.orphans)+len(hooks.inner) > 0
	var calls []call
	for _, list := range lists {
		for _, entry := range list.Entries {
			if !all && entry.Home != lua.HomeDead {
				continue
			}
			orphan := Orphan{Payload: entry.New, Queue: list.Queue, From: from, Home: entry.Home}
			calls = append(calls, s.launcher.orphanCalls(orphan)...)
		}
	}
	s.launcher.callLater(calls)
}

func (l *Launcher) orphanCalls(orphan Orphan) (calls []call) {
	if parsed, err := job.ParseToRun(orphan.Payload); err == nil {
		orphan.Job = parsed
	} else {
		l.callInternal(sourcePayload, fmt.Errorf("queue %q: %w", orphan.Queue, err))
	}
	for _, handler := range l.hooks.orphans {
		calls = append(calls, call{"orphan handler", func() { handler(orphan) }, orphan.Job})
	}
	if orphan.Job != nil && orphan.Home == lua.HomeDead {
		calls = append(calls, l.deathCalls(context.Background(), orphan.Job, ErrCrashed)...)
	}
	return calls
}

// internalHandler is the name of the handlers of internal errors in the log.
const internalHandler = "internal error handler"

// callInternal calls the handlers of internal errors. It returns at once.
func (l *Launcher) callInternal(source string, err error) {
	calls := make([]call, 0, len(l.hooks.inner))
	for _, handler := range l.hooks.inner {
		calls = append(calls, call{internalHandler, func() { handler(source, err) }, nil})
	}
	l.callLater(calls)
}

// A call is one call of the program's code, with its name in the log and the job that it is about; nil for
// none.
type call struct {
	what string
	do   func()
	job  *job.Job
}

// callsOf returns the calls of hooks of one name.
func callsOf(what string, hooks []func()) []call {
	calls := make([]call, len(hooks))
	for i, hook := range hooks {
		calls[i] = call{what, hook, nil}
	}
	return calls
}

// callEach makes these calls, one after the other, also if one of them ends its goroutine.
func (l *Launcher) callEach(calls []call) {
	if len(calls) == 0 {
		return
	}
	defer l.callEach(calls[1:])
	l.guard(calls[0].what, calls[0].do, calls[0].job)
}

// callLater makes these calls in one new goroutine, one after the other.
func (l *Launcher) callLater(calls []call) {
	if len(calls) == 0 || l.hooks.over.Load() {
		return
	}
	select {
	case l.hooks.room <- struct{}{}:
	default:
		l.cfg.Log.Error(calls[0].what + " skipped: " + fmt.Sprint(maxCalls) + " earlier calls have not returned")
		return
	}
	go func() {
		defer func() { <-l.hooks.room }()
		l.callEach(calls)
	}()
}

// awaitCalls waits a moment for the calls under way, until it can take all the room. No more calls are made
// after that.
func (l *Launcher) awaitCalls() {
	l.hooks.over.Store(true)
	enough := time.After(fetch.Moment)
	for range maxCalls {
		select {
		case l.hooks.room <- struct{}{}:
		case <-enough:
			return
		}
	}
}

// guard calls code of the program, whose panics must harm no job. The call is about the job j; nil for none. If
// it ends its goroutine, guard logs that as a panic, and the goroutine ends.
func (l *Launcher) guard(what string, do func(), j *job.Job) {
	returned := false
	defer func() {
		value := recover()
		if value == nil && !returned {
			value = retry.ErrGone
		}
		if value != nil {
			l.logPanic(what, &retry.PanicError{Value: value, Stack: debug.Stack()}, j)
		}
	}()
	do()
	returned = true
}

// logPanic logs a panic of the program's code, with the job that it was about and its stack: without them
// nothing would show where to look.
func (l *Launcher) logPanic(what string, panicked *retry.PanicError, j *job.Job) {
	fields := []any{"panic", l.errorText("", errors.New(panicText(panicked.Value)))}
	if j != nil {
		fields = append(fields, "jid", j.JID(), "class", j.DisplayClass())
	}
	if panicked.Stack != nil {
		fields = append(fields, "stack", cutLines(panicked.Stack, maxStack))
	}
	l.cfg.Log.Error(what+" panicked", fields...)
	if what != internalHandler { // calling it again for its own panic might never end
		l.callInternal(what, panicked)
	}
}

// panicText returns the text of a panic's value. Printing the value is not safe: its methods may panic, with a
// value that panics again when it is printed. Package fmt passes that panic on, and it would end the process.
func panicText(value any) string {
	return strings.TrimPrefix((&retry.PanicError{Value: value}).Error(), "panic: ")
}
