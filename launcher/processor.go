package launcher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// A processor runs one job at a time. It shares its current run, which Running lists, and its goroutine's
// number, by which a dump finds its stack.
type processor struct {
	id        int
	pool      *pool
	current   atomic.Pointer[run]
	goroutine atomic.Int64
}

// A run is one execution of a job.
type run struct {
	launcher  *Launcher
	taken     *fetch.Run
	job       *job.Job
	startedAt time.Time // by this machine's clock
	// made are the loggers of its own, once the handler has asked for one.
	made atomic.Pointer[runLoggers]
	// outcome is what becomes of it, once that is decided.
	outcome *job.Outcome
	// timedOut says, once the handler has come back, that its own timeout was the first to end its context.
	timedOut bool
	// refused reports that the handler returned Requeue: another process should run the job.
	refused bool
}

// ours says that Belay itself cancelled the run, so that its error says nothing about the job. A run that
// was over its timeout before has failed already: whatever came later did not make it late.
func (r *run) ours() bool { return r.taken.Session.Context.Err() != nil && !r.timedOut }

// A pool is all processors, and what they have in common.
type pool struct {
	launcher   *Launcher
	handlers   map[string]registration // with the middleware already around each
	fallback   *registration
	processors []*processor
}

// wrapped are the handlers with the middleware around each. Middleware that answers none is a mistake of
// the program, which would fail every job.
func (l *Launcher) wrapped() (map[string]registration, error) {
	handlers := make(map[string]registration, len(l.handlers))
	for class, registered := range l.handlers {
		for _, middleware := range slices.Backward(slices.Concat(l.middleware, registered.class.Middleware)) {
			if registered.handler = middleware(registered.handler); registered.handler == nil {
				return nil, fmt.Errorf("belay: a middleware returned nil for the handler of the class %q: it must return a Handler", class)
			}
		}
		handlers[class] = registered
	}
	return handlers, nil
}

func newPool(l *Launcher, handlers map[string]registration) *pool {
	c := &pool{launcher: l, handlers: handlers}
	if fallback, ok := handlers[AnyClass]; ok {
		delete(handlers, AnyClass) // no class has that name
		c.fallback = &fallback
	}
	for id := range l.Concurrency() {
		c.processors = append(c.processors, &processor{id: id, pool: c})
	}
	return c
}

func (c *pool) start() {
	for _, p := range c.processors {
		go p.loop()
	}
}

func (p *processor) loop() {
	p.goroutine.Store(goroutine())
	defer func() {
		// Only a handler or an error handler that ends its goroutine (runtime.Goexit, t.FailNow)
		// leaves a current run behind. It gets its outcome, and the processor goes on in a new goroutine,
		// also if that happens again here.
		r := p.current.Load()
		if r == nil {
			return
		}
		defer func() {
			if r.outcome == nil { // the class' backoff function ended the goroutine twice
				died := job.Died(r.taken.Bytes)
				r.outcome = &died
			}
			p.finish(r, *r.outcome)
			go p.loop()
		}()
		if r.outcome == nil {
			p.decide(r, &retry.GoexitError{})
		}
	}()
	for {
		taken, ok := p.pool.launcher.loop.Take()
		if !ok {
			return
		}
		p.execute(taken)
	}
}

func (p *processor) execute(taken *fetch.Run) {
	parsed, err := job.ParseToRun(taken.Bytes)
	if err != nil {
		l := p.pool.launcher
		l.cfg.Log.Error().Err(err).Str("queue", taken.Queue).Int("bytes", len(taken.Bytes)).Msg("moved to the dead set: the payload cannot be read")
		l.callInternal(sourcePayload, fmt.Errorf("queue %q: %w", taken.Queue, err))
		l.loop.End(fetch.Result{Run: taken, Outcome: job.Unread(job.KeepUnreadable(taken.Bytes, taken.Queue, err, l.clock.Now(), l.cfg.Retry.Unit))})
		return
	}
	r := &run{launcher: p.pool.launcher, taken: taken, job: withLeft(parsed, taken.Left()), startedAt: time.Now()}
	p.current.Store(r)
	err = p.call(r)
	p.finish(r, p.decide(r, err))
}

// call runs the handler; a panic becomes an error with a stack.
func (p *processor) call(r *run) (err error) {
	registered := p.pool.registered(r.job.Class())
	if registered.handler == nil {
		return &retry.UnregisteredError{Class: r.job.Class()}
	}
	if r.job.Compressed() {
		return retry.ErrCompressed
	}
	defer func() {
		if value := recover(); value != nil {
			err = &retry.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	var ctx context.Context = &runContext{Context: r.taken.Session.Context, run: r}
	if timeout, late := p.pool.launcher.timeout(r.job, &registered); timeout > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, timeout, late)
		defer func() {
			if r.timedOut = errors.Is(context.Cause(timed), ErrTimeout); r.timedOut {
				err = named(err, timeout)
			}
			cancel()
		}()
		ctx = timed
	}
	return registered.handler(ctx, r.job)
}

// decide makes the outcome of an error, and calls the error handlers.
func (p *processor) decide(r *run, err error) job.Outcome {
	if err == nil {
		p.pool.launcher.logRun(r, "", job.ExitDone)
		return job.Done()
	}
	l, ours := p.pool.launcher, r.ours()
	verdict := retry.Decide(l.cfg.Retry, retry.Run{
		Job: r.job, Queue: r.taken.Queue, Err: err, Now: l.clock.Now(), Rand: rand.IntN,
		Backoff: p.pool.registered(r.job.Class()).class.Backoff, Ours: ours,
	})
	r.outcome = &verdict.Outcome
	r.refused = verdict.Outcome.Exit() == job.ExitRequeued && !ours
	if verdict.Panic != nil {
		l.logPanic("backoff", verdict.Panic)
	}
	l.guard("the log of a failed run", func() { l.logEnd(r, err, verdict.Outcome) })
	l.callError(&runContext{Context: r.taken.Session.Context, run: r}, r.job, err, verdict)
	return verdict.Outcome
}

// registered is what was registered for a class; nothing for an unknown class.
func (c *pool) registered(class string) registration {
	if registered, ok := c.handlers[class]; ok {
		return registered
	}
	if c.fallback != nil {
		return *c.fallback
	}
	return registration{}
}

func (p *processor) finish(r *run, outcome job.Outcome) {
	p.current.Store(nil)
	p.pool.launcher.loop.End(fetch.Result{Run: r.taken, Outcome: outcome, Refused: r.refused})
}
