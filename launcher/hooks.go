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

// ErrInterrupted is the error of a job that was buried because its process died again and again while it
// ran, the last time with nothing else in hand.
var ErrInterrupted = errors.New("belay: interrupted: its process died again and again with this job in hand")

// An ErrorHandler hears of every run that did not succeed, with the run's context. Its own panics harm
// nobody.
type ErrorHandler func(ctx context.Context, j *job.Job, err error)

// A DeathHandler hears of a job that will not be run again by itself: it is out of retries or of time, was
// killed by its handler, or has killed too many processes (ErrInterrupted). It is told before that is
// settled, so it may hear of a job twice. The job is as it was before its last run. Its own panics harm
// nobody.
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

// An OrphanHandler hears of orphans, a while after they came home. It delays nobody; its own panics harm
// nobody.
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

// hooks are those who hear of what happens.
type hooks struct {
	errors  []ErrorHandler
	stuck   []StuckHandler
	deaths  []DeathHandler
	orphans []OrphanHandler
	inner   []InternalErrorHandler

	start            []func(context.Context) error
	quiet, stop, end []func()

	quieting, stopping sync.Once
	room               chan struct{} // for so many who are told in goroutines of their own
	mu                 sync.Mutex
	over               bool           // nobody is told of anything any more
	telling            sync.WaitGroup // those who are being told; added to under mu, and not once it is over
}

// mostTelling is how many hooks may be under way that nobody waits for. Whoever does not return in time for
// more misses what happens then.
const mostTelling = 64

// beforeRun panics when it is too late to say who wants to hear of things: a hook that misses the beginning
// is a mistake in the program.
func (l *Launcher) beforeRun(what string) {
	if l.started() {
		panic("belay: " + what + " after Run: call it before")
	}
}

// OnError adds one who hears of every run that did not succeed. It panics after Run.
func (l *Launcher) OnError(handler ErrorHandler) {
	l.beforeRun("OnError")
	l.hooks.errors = append(l.hooks.errors, handler)
}

// OnStuck adds one who hears of every run whose context has ended and whose handler does not return: once
// it has gone on for as long again as its class' timeout, though at least 5 s and at most a minute (5 s
// where it was cancelled for another reason), then every ten minutes, and when the process stops without
// it, unless that was told before. It panics after Run.
func (l *Launcher) OnStuck(handler StuckHandler) {
	l.beforeRun("OnStuck")
	l.hooks.stuck = append(l.hooks.stuck, handler)
}

// OnDeath adds one who hears of jobs that will not be run again by themselves. It panics after Run.
func (l *Launcher) OnDeath(handler DeathHandler) {
	l.beforeRun("OnDeath")
	l.hooks.deaths = append(l.hooks.deaths, handler)
}

// OnOrphan adds one who hears of jobs that this process brings back from others that died. It panics after
// Run.
func (l *Launcher) OnOrphan(handler OrphanHandler) {
	l.beforeRun("OnOrphan")
	l.hooks.orphans = append(l.hooks.orphans, handler)
}

// OnInternalError registers a callback for errors outside of runs: outages, calls that Redis refuses,
// unreadable payloads, panics of hooks. It panics after Run.
func (l *Launcher) OnInternalError(handler InternalErrorHandler) {
	l.beforeRun("OnInternalError")
	l.hooks.inner = append(l.hooks.inner, handler)
}

// OnStart adds what is to be done before anything is taken, in the order added. An error ends Run. It
// panics after Run.
func (l *Launcher) OnStart(hook func(ctx context.Context) error) {
	l.beforeRun("OnStart")
	l.hooks.start = append(l.hooks.start, hook)
}

// OnQuiet adds what is to be done once nothing more is taken: after Quiet, or at the beginning of a stop.
// Nobody waits for it. It panics after Run.
func (l *Launcher) OnQuiet(hook func()) {
	l.beforeRun("OnQuiet")
	l.hooks.quiet = append(l.hooks.quiet, hook)
}

// OnStop adds what is to be done when a stop begins, while jobs may still be running. Nobody waits for it.
// It panics after Run.
func (l *Launcher) OnStop(hook func()) {
	l.beforeRun("OnStop")
	l.hooks.stop = append(l.hooks.stop, hook)
}

// OnExit adds what is to be done when the last job has been settled, the last one added first. Run waits
// for it. It panics after Run.
func (l *Launcher) OnExit(hook func()) {
	l.beforeRun("OnExit")
	l.hooks.end = append(l.hooks.end, hook)
}

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

func (l *Launcher) tellQuiet() {
	l.hooks.quieting.Do(func() { l.tellLater("quiet hook", l.hooks.quiet...) })
}

func (l *Launcher) tellStop() {
	l.hooks.stopping.Do(func() { l.tellLater("stop hook", l.hooks.stop...) })
}

func (l *Launcher) exit() {
	for i := len(l.hooks.end) - 1; i >= 0; i-- {
		l.guard("exit hook", l.hooks.end[i])
	}
}

// tellError tells the error handlers of a run that did not succeed. A hand-back is no failure.
func (l *Launcher) tellError(ctx context.Context, j *job.Job, err error, verdict retry.Verdict) {
	switch verdict.Outcome.Exit() {
	case job.ExitRequeued, job.ExitSnoozed, job.ExitDone:
		return
	}
	for _, handler := range l.hooks.errors {
		l.guard("error handler", func() { handler(ctx, j, err) })
	}
	if verdict.Exhausted {
		l.tellDeath(ctx, j, err)
	}
}

// tellDeath tells the class' own handler first, as Sidekiq does.
func (l *Launcher) tellDeath(ctx context.Context, j *job.Job, err error) {
	if own := l.pool.Load().registered(j.Class()).class.Exhausted; own != nil {
		l.guard("exhausted handler", func() { own(ctx, j, err) })
	}
	for _, handler := range l.hooks.deaths {
		l.guard("death handler", func() { handler(ctx, j, err) })
	}
}

// recoveredHook is what the janitor tells of what it has brought back; nil when nobody wants to know.
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
	l.tellLater("orphan handler", func() {
		for _, list := range lists {
			for _, entry := range list.Entries {
				l.tellOrphan(Orphan{Payload: entry.New, Queue: list.Queue, From: from, Home: entry.Home})
			}
		}
	})
}

func (l *Launcher) tellOrphan(orphan Orphan) {
	if parsed, err := job.ParseToRun(orphan.Payload); err == nil {
		orphan.Job = parsed
	} else {
		l.tellInternal(sourcePayload, fmt.Errorf("queue %q: %w", orphan.Queue, err))
	}
	for _, handler := range l.hooks.orphans {
		l.guard("orphan handler", func() { handler(orphan) })
	}
	if orphan.Job != nil && orphan.Home == lua.HomeDead {
		l.tellDeath(context.Background(), orphan.Job, ErrInterrupted)
	}
}

// tellInternal calls the handlers of internal errors. It returns at once.
func (l *Launcher) tellInternal(source string, err error) {
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
	l.tellLater("internal error handler", calls...)
}

// tellLater makes calls, one after the other, that nobody waits for.
func (l *Launcher) tellLater(what string, calls ...func()) {
	if len(calls) == 0 {
		return
	}
	select {
	case l.hooks.room <- struct{}{}:
	default:
		l.cfg.Log.Error().Msg(what + " not called: " + fmt.Sprint(mostTelling) + " earlier ones have not returned")
		return
	}
	l.hooks.mu.Lock()
	defer l.hooks.mu.Unlock()
	if l.hooks.over {
		return
	}
	l.hooks.telling.Go(func() {
		defer func() { <-l.hooks.room }()
		for _, call := range calls {
			l.guard(what, call)
		}
	})
}

// awaitTold gives those who are being told of something a moment to hear it. Nobody is told of anything
// after that.
func (l *Launcher) awaitTold() {
	l.hooks.mu.Lock()
	l.hooks.over = true
	l.hooks.mu.Unlock()
	told := make(chan struct{})
	go func() {
		l.hooks.telling.Wait()
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(fetch.Moment):
	}
}

// guard calls what is the user's and must harm no job.
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
	l.tellInternal(what, &retry.PanicError{Value: value})
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
