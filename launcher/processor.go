package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// A processor runs one job at a time. It shares its current run, which Running lists, and its goroutine's
// number, by which a dump finds its stack.
type processor struct {
	id        int
	pool      *pool
	current   atomic.Pointer[run]
	goroutine atomic.Int64
	shared    *sharedContext // of its runs; nil before the first
}

// A run is one execution of a job.
type run struct {
	processor *processor
	taken     *fetch.Run
	job       *job.Job
	shared    *sharedContext
	startedAt time.Time // by this machine's clock
	// made are the run's own loggers, once the handler has asked for one.
	made atomic.Pointer[runLoggers]
	// outcome is the run's outcome, once it is decided.
	outcome *job.Outcome
	// timeout is how long its context lasts, 0 for no limit, and tooLate is the cause of that end.
	timeout time.Duration
	tooLate error
	// timedOut reports, once the handler has returned, that the run's own timeout was the first to end its
	// context, and pastDeadline that this timeout was the job's deadline.
	timedOut, pastDeadline bool
	// late is set when the watch sees that the run's context has ended.
	late atomic.Pointer[lateness]
	// refused reports that the handler returned Requeue: another process should run the job.
	refused bool
	// err is what the handler returned, or its panic. after are the callbacks of AfterRun.
	err   error
	after []func(job.Outcome, error)
	// track is what the run of a tracked job has to report; nil for other jobs.
	track *track
}

// cancelledByBelay reports whether Belay itself cancelled the run, so that its error says nothing about the
// job. A run that had exceeded its timeout before that has failed all the same.
func (r *run) cancelledByBelay() bool {
	return (r.taken.Session.Context.Err() != nil || r.lost()) && !r.timedOut
}

// lost reports whether Redis has replied that another process has the job.
func (r *run) lost() bool { return errors.Is(context.Cause(r.shared), fetch.ErrOwnershipLost) }

func (r *run) launcher() *Launcher { return r.processor.pool.launcher }

// A pool holds all processors and their common state.
type pool struct {
	launcher   *Launcher
	handlers   map[string]registration // with the middleware already around each
	processors []*processor
}

// wrapped returns the handlers with the middleware around each. Middleware that returns nil is a mistake in
// the program, which would fail every job.
func (l *Launcher) wrapped() (map[string]registration, error) {
	handlers := make(map[string]registration, len(l.handlers))
	for class, registered := range l.handlers {
		for _, middleware := range slices.Backward(slices.Concat(l.middleware.All(), registered.class.Middleware)) {
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
		// Only a handler or a callback that ends its goroutine (runtime.Goexit, t.FailNow) leaves a current
		// run behind. It gets its outcome, and the processor continues in a new goroutine, also if that happens
		// again here.
		r := p.current.Load()
		if r == nil {
			return
		}
		defer func() {
			defer func() {
				p.finish(r, *r.outcome)
				go p.loop()
			}()
			if r.outcome == nil { // the class' backoff function ended the goroutine twice
				died := job.Died(r.taken.Bytes)
				r.outcome = &died
			}
			p.callAfter(r)
		}()
		if r.outcome == nil {
			p.decide(r, retry.ErrGoexit)
		}
	}()
	named := pprof.WithLabels(context.Background(), pprof.Labels("belay_processor", strconv.Itoa(p.id)))
	for {
		taken, ok := p.pool.launcher.loop.Take()
		if !ok {
			return
		}
		pprof.SetGoroutineLabels(named) // again, because a handler may have changed them
		p.execute(taken)
	}
}

func (p *processor) execute(taken *fetch.Run) {
	parsed, err := job.ParseToRun(taken.Bytes)
	if err != nil {
		l := p.pool.launcher
		l.cfg.Log.Error("moved to the dead set: unreadable payload", "error", err, "queue", taken.Queue, "bytes", len(taken.Bytes))
		l.callInternal(sourcePayload, fmt.Errorf("queue %q: %w", taken.Queue, err))
		if state := lua.DeadUnread(taken.Bytes, taken.Bytes, l.clock.Now()); state != nil {
			taken.Leave(*state)
		}
		l.loop.End(fetch.Result{Run: taken, Outcome: job.Unread(job.KeepUnreadable(taken.Bytes, taken.Queue, err, l.clock.Now(), l.cfg.Retry.Unit))})
		return
	}
	p.pool.launcher.warnForeignLock(parsed)
	r := &run{processor: p, taken: taken, job: withLeft(parsed, taken.Left()), startedAt: time.Now()}
	registered := p.pool.registered(r.job)
	r.timeout, r.tooLate = p.pool.launcher.timeout(r.job, &registered)
	r.shared = p.contextFor(r)
	if _, tracked := r.job.Track(); tracked {
		r.track = &track{}
	}
	p.current.Store(r)
	if outcome, drop := p.pool.launcher.dropped(r); drop {
		p.finish(r, outcome)
		return
	}
	err = p.call(r, registered.handler)
	outcome := p.decide(r, err)
	if len(r.after) > 0 {
		decided := outcome // a copy, because only runs with callbacks pay for its place on the heap
		r.outcome = &decided
		p.callAfter(r)
	}
	p.finish(r, outcome)
}

// withLeft returns the job as it is run: with the positions that refused duplicates left, which only the reply
// to its start contains. They are in its payload from here on, so that a retry or a snooze keeps them.
func withLeft(j *job.Job, left dedup.WAL) *job.Job {
	if len(left) == 0 {
		return j
	}
	patched, err := job.Parse(j.Patch(dedup.ReadRefusedWAL(j).Later(left).Edit(dedup.FieldRefusedWAL)))
	if err != nil {
		return j // a payload that cannot take another field runs as it is
	}
	return patched
}

// call runs the handler; a panic becomes an error with a stack.
func (p *processor) call(r *run, handler Handler) (err error) {
	if handler == nil {
		return retry.Unregistered(cmp.Or(r.job.Wrapped(), r.job.Class()))
	}
	own := r.job
	if own.Compressed() {
		if own, err = own.Decompressed(); err != nil {
			return retry.Compressed(err)
		}
	}
	defer func() {
		if value := recover(); value != nil {
			err = &retry.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	var ctx context.Context = &runContext{Context: r.shared.Context, run: r}
	if r.timeout > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, r.timeout, r.tooLate)
		defer func() {
			cause := context.Cause(timed)
			if r.timedOut = errors.Is(cause, ErrTimeout); r.timedOut {
				err, r.pastDeadline = named(err, cause), errors.Is(cause, ErrDeadline)
			}
			cancel()
		}()
		ctx = timed
	}
	return handler(ctx, own)
}

// decide returns the outcome of an error, and calls the error handlers.
func (p *processor) decide(r *run, err error) job.Outcome {
	r.err = err
	if err == nil {
		p.pool.launcher.logRun(r, "", job.ExitDone)
		return job.Done()
	}
	l, byBelay := p.pool.launcher, r.cancelledByBelay()
	if r.cancelled() && !r.lost() || l.marks.Binds(r.job) {
		outcome := job.Cancelled()
		r.outcome = &outcome
		l.guard("the log of a cancelled run", func() { l.logEnd(r, err, outcome) })
		if failedToo(err) {
			l.callError(&runContext{Context: r.shared.Context, run: r}, r.job, err, retry.Verdict{Outcome: outcome})
		}
		return outcome
	}
	excused := r.excused()
	verdict := retry.Decide(l.cfg.Retry, retry.Run{
		Job: excused, Queue: r.taken.Queue, Err: err, Now: l.clock.Now(), Rand: rand.IntN,
		Backoff: p.pool.registered(r.job).class.Backoff, Ours: byBelay,
	})
	if r.pastDeadline && verdict.Outcome.Exit() == job.ExitRetry {
		verdict.Outcome = job.Expired(true) // the retry would start too late
	}
	if excused != r.job && verdict.Outcome.Exit() != job.ExitRequeued { // which keeps the job's bytes
		r.taken.Saved(r.job).Set(lua.FieldCrashes, "")
	}
	r.outcome = &verdict.Outcome
	r.refused = verdict.Outcome.Exit() == job.ExitRequeued && !byBelay
	if verdict.Panic != nil {
		l.logPanic("backoff", verdict.Panic)
	}
	l.guard("the log of a failed run", func() { l.logEnd(r, err, verdict.Outcome) })
	l.callError(&runContext{Context: r.shared.Context, run: r}, r.job, err, verdict)
	return verdict.Outcome
}

// registered returns the registration of a job's class, else of the class that it wraps, else of AnyClass. For
// an unknown class it returns the zero registration.
func (c *pool) registered(j *job.Job) registration {
	if registered, ok := c.handlers[j.Class()]; ok {
		return registered
	}
	if registered, ok := c.handlers[j.Wrapped()]; ok {
		return registered
	}
	return c.handlers[AnyClass]
}

func (p *processor) finish(r *run, outcome job.Outcome) {
	p.current.Store(nil)
	r.shared.release(r)
	if r.track != nil {
		r.endTracked(outcome)
	}
	p.pool.launcher.statistics.count(r, outcome, p.pool.launcher.clock)
	p.pool.launcher.loop.End(fetch.Result{Run: r.taken, Outcome: outcome, Refused: r.refused})
}

// callAfter calls the callbacks of AfterRun, each once, also if one of them ends its goroutine.
func (p *processor) callAfter(r *run) {
	if len(r.after) == 0 {
		return
	}
	callback := r.after[0]
	r.after = r.after[1:]
	defer p.callAfter(r)
	p.pool.launcher.guard("callback after a run", func() { callback(*r.outcome, r.err) })
}
