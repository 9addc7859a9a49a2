package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// A run is a fetch.Run on a processor, and the context of its handler: the processor's shared context with
// the run as a value, in one allocation instead of a chain. The context ends with the run.
type run struct {
	*fetch.Run
	context.Context

	shard     *shard // from which it was taken
	processor *processor
	job       *job.Job
	shared    *sharedContext
	followed  atomic.Bool // Done was called, so something may wait for the end of the context
	passedOn  atomic.Bool // the run has ended, and later runs use the shared context
	startedAt time.Time   // by this machine's clock
	// timeout is how long its context lasts, 0 for no limit, and tooLate is the cause of that end.
	timeout time.Duration
	tooLate error

	// outcome is zero until it is decided.
	outcome job.Outcome
	// timedOut reports, once the handler has returned, that the run's own timeout was the first to end its
	// context, and pastDeadline that this timeout was the job's deadline. refused reports that the handler
	// returned Requeue: another process should run the job.
	timedOut, pastDeadline, refused bool
	// err is what the handler returned, or its panic.
	err error

	afterMutex sync.Mutex
	after      []call // the callbacks of AfterRun
	afterEnded bool   // all of them were called: AfterRun adds no more

	// made are the run's own loggers, once the handler has asked for one.
	made atomic.Pointer[runLoggers]
	// track is what the run of a tracked job has to report; nil for other jobs.
	track *track
	// late is set when the watch sees that the run's context has ended; only the watch reads and writes it.
	// overdueBy is how long ago that was.
	late      *lateness
	overdueBy atomic.Int64
}

type runKey struct{}

// closedChannel is the Done channel of a run that has ended.
var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done implements context.Context. Package context calls it for each context that is derived from the run's. It
// records the call before it asks whether the run has ended, and finish ends the run before it asks whether
// there was a call. So one of the two sees the other, and no context outlives the run.
func (r *run) Done() <-chan struct{} {
	r.followed.Store(true)
	if r.over() {
		return closedChannel
	}
	return r.Context.Done()
}

// Err implements context.Context.
func (r *run) Err() error {
	if err := r.Context.Err(); err != nil || !r.over() {
		return err
	}
	return context.Canceled
}

// Value implements context.Context.
func (r *run) Value(key any) any {
	switch key {
	case runKey{}:
		return r
	case zerologKey:
		if log := r.loggers().zerolog; log != nil {
			return log
		}
	}
	if r.passedOn.Load() { // context.Cause would find the cause of a later run's end
		return r.Session.Context.Value(key)
	}
	return r.Context.Value(key)
}

// String keeps package fmt from reading the fields of a handler's context, which change meanwhile.
func (r *run) String() string { return "belay.run " + r.job.JID() }

func (r *run) launcher() *Launcher { return r.shard.launcher }

// over reports whether the run has ended.
func (r *run) over() bool { return r.processor.current.Load() != r }

// cancelled reports whether the run was cancelled.
func (r *run) cancelled() bool { return r.shared.run.Load() == cancelledRun }

// lost reports whether Redis has replied that another process has the job.
func (r *run) lost() bool { return errors.Is(context.Cause(r.Context), fetch.ErrOwnershipLost) }

// cancelledByBelay reports whether Belay itself cancelled the run, so that its error says nothing about the
// job. A run that had exceeded its timeout before that has failed all the same.
func (r *run) cancelledByBelay() bool {
	return (r.Session.Context.Err() != nil || r.lost()) && !r.timedOut
}

// A processor runs one job at a time. It shares its current run, which Running lists, and its goroutine's
// number, by which a dump finds its stack.
type processor struct {
	id        int
	pool      *pool
	current   atomic.Pointer[run]
	goroutine atomic.Int64
	shared    *sharedContext // of its runs; nil before the first
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
				r.finish()
				go p.loop()
			}()
			r.callAfter()
		}()
		if !r.decided() {
			r.decide(retry.ErrGoexit)
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

// execute runs a taken job, from its bytes to its result.
func (p *processor) execute(taken *fetch.Run) {
	l := p.pool.launcher
	s := l.shards[taken.Shard()]
	parsed, err := taken.Job()
	if err != nil {
		s.killUnreadable(taken, err)
		return
	}
	l.warnForeignLock(parsed)
	l.warnForeignBatch(parsed, p.pool)
	r := &run{Run: taken, shard: s, processor: p, job: withLeft(parsed, taken.Left()), startedAt: time.Now()}
	registered := p.pool.registered(r.job)
	r.timeout, r.tooLate = s.timeout(r.job, &registered)
	r.shared = p.contextFor(r)
	r.Context = r.shared.Context
	if _, tracked := r.job.Track(); tracked {
		r.track = &track{}
	}
	p.current.Store(r)
	if !r.dropped() {
		r.decide(r.call(registered.handler))
		r.callAfter()
	}
	r.finish()
}

// A sharedContext is the context under which a processor runs jobs, one after the other. To cancel a run, the
// context is cancelled, and the processor makes a new one for the next run; so it does at the end of a run
// whose context was followed. A context for each of the other runs would be most of the cost of a short run.
type sharedContext struct {
	context.Context
	session context.Context
	cancel  context.CancelCauseFunc
	run     atomic.Pointer[run] // the current run; noRun between two runs, cancelledRun after a cancellation
}

var noRun, cancelledRun = &run{}, &run{}

// contextFor returns the context for a run. It is the context of the previous run, unless that has ended.
func (p *processor) contextFor(r *run) *sharedContext {
	session := r.Session.Context
	if p.shared != nil && p.shared.session == session && p.shared.run.CompareAndSwap(noRun, r) {
		return p.shared
	}
	if p.shared != nil {
		p.shared.cancel(nil) // no run uses it, and its parent context must release it
	}
	p.shared = &sharedContext{session: session}
	p.shared.Context, p.shared.cancel = context.WithCancelCause(session)
	p.shared.run.Store(r)
	return p.shared
}

// release ends the use of the context by a run, and the context if something may wait for that.
func (c *sharedContext) release(r *run) {
	if r.followed.Load() {
		c.cancelRun(r, nil)
	} else if c.run.CompareAndSwap(r, noRun) {
		r.passedOn.Store(true)
	}
}

// cancelRun ends the context of a run, unless the run has ended.
func (c *sharedContext) cancelRun(r *run, cause error) bool {
	first := c.run.CompareAndSwap(r, cancelledRun)
	if first {
		c.cancel(cause)
	}
	return first
}

// killUnreadable moves a job to the dead set whose payload cannot be read.
func (s *shard) killUnreadable(taken *fetch.Run, err error) {
	s.log.Error("moved to the dead set: unreadable payload", "error", err, "queue", taken.Queue, "bytes", len(taken.Bytes))
	s.launcher.callInternal(sourcePayload, fmt.Errorf("queue %q: %w", taken.Queue, err))
	now := s.clock.Now()
	if state := lua.DeadUnread(taken.Bytes, taken.Bytes, job.UnreadableClass, err.Error(), now); state != nil {
		taken.Leave(*state)
	}
	kept := job.KeepUnreadable(taken.Bytes, taken.Queue, err, now, s.cfg.Retry.Unit)
	s.launcher.loop.End(fetch.Result{Run: taken, Outcome: job.Unread(kept)})
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

// timeout returns the timeout of a run and the cause with which its context then ends: the job's own timeout,
// its class' or the process', or the time until the job's deadline if that is less.
func (s *shard) timeout(j *job.Job, registered *registration) (time.Duration, error) {
	timeout, late := s.launcher.ownTimeout(j, registered)
	if deadline, limited := j.Deadline(); limited {
		if left := max(deadline.Sub(s.clock.Now()), 1); timeout == 0 || left < timeout {
			return left, &timeoutError{after: left, err: context.DeadlineExceeded, deadline: true}
		}
	}
	return timeout, late
}

func (l *Launcher) ownTimeout(j *job.Job, registered *registration) (time.Duration, error) {
	if own, ok := j.Timeout(); ok {
		return own, &timeoutError{after: own, err: context.DeadlineExceeded}
	}
	if registered.class.Timeout > 0 {
		return registered.class.Timeout, registered.late
	}
	if l.cfg.Timeout > 0 {
		return l.cfg.Timeout, &timeoutError{after: l.cfg.Timeout, err: context.DeadlineExceeded}
	}
	return 0, nil // most runs, which pay no allocation
}

// dropped reports whether the job must not start, because it was cancelled or has expired, or because an
// operator's rule drops its class. The run's outcome then ends the job, see job.Exit.Ends.
func (r *run) dropped() bool {
	s := r.shard
	expires, limited := r.job.StartBy()
	var reason string
	switch {
	case s.marks.Binds(r.job):
		r.outcome, reason = job.Cancelled(), "cancelled"
	case s.marks.Invalid(r.job):
		r.outcome, reason = job.Cancelled(), "batch invalidated"
	case s.rules.Drops(r.job):
		r.outcome, reason = job.Cancelled(), "rule of its class"
	case limited && s.clock.Now().After(expires):
		r.outcome, reason = job.Expired(false), "expired"
	default:
		return false
	}
	s.log.Info("job dropped before its start", "jid", r.job.JID(), "class", r.job.DisplayClass(), "queue", r.Queue,
		"exit", string(r.outcome.Exit()), "reason", reason)
	return true
}

// call runs the handler; a panic becomes an error with a stack.
func (r *run) call(handler Handler) (err error) {
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
	if r.timeout == 0 {
		return handler(r, own)
	}
	ctx, cancel := context.WithTimeoutCause(timed{r}, r.timeout, r.tooLate)
	defer func() {
		cause := context.Cause(ctx)
		if r.timedOut = errors.Is(cause, ErrTimeout); r.timedOut {
			err, r.pastDeadline = named(err, cause), errors.Is(cause, ErrDeadline)
		}
		cancel()
	}()
	return handler(ctx, own)
}

// A timed is a run from which only call derives a context. call also ends that context, so the run's own need
// not end for it.
type timed struct{ *run }

// Done implements context.Context.
func (t timed) Done() <-chan struct{} { return t.Context.Done() }

// decided reports whether the run has its outcome.
func (r *run) decided() bool { return r.outcome != job.Outcome{} }

// decide gives the run the outcome of the handler's error, and calls the error handlers. The outcome stands
// before any code of the program is called, which may end the goroutine.
func (r *run) decide(err error) {
	l := r.launcher()
	r.err = err
	if err == nil {
		r.outcome = job.Done()
		if l.debugging() { // most runs pay no more than this
			l.guard("the log of a run", func() { r.log("") }, r.job)
		}
		return
	}
	byBelay := r.cancelledByBelay()
	if r.cancelled() && !r.lost() || r.shard.marks.Binds(r.job) {
		r.outcome = job.Cancelled()
		l.guard("the log of a cancelled run", r.logEnd, r.job)
		if failedToo(err) {
			l.callError(r, r.job, err, retry.Verdict{Outcome: r.outcome})
		}
		return
	}
	excused := r.excused()
	class := r.processor.pool.registered(r.job).class
	verdict := retry.Decide(l.cfg.Retry, retry.EndedRun{
		Job: excused, Queue: r.Queue, Err: err, Now: r.shard.clock.Now(), Rand: rand.IntN,
		Backoff: class.Backoff, Rules: class.Rules, KeepErrors: class.KeepErrors, Ours: byBelay, Gated: r.Gated(),
	})
	if r.pastDeadline && verdict.Outcome.Exit() == job.ExitRetry {
		verdict.Outcome = job.Expired(true) // the retry would start too late
	}
	requeued := verdict.Outcome.Exit() == job.ExitRequeued
	if excused != r.job && verdict.Outcome.Exit().Carries() { // else the job keeps its bytes, with its crashes
		r.Saved(r.job).Set(lua.FieldCrashes, "")
	}
	r.outcome, r.refused = verdict.Outcome, requeued && !byBelay
	if verdict.Panic != nil {
		l.logPanic("backoff", verdict.Panic, r.job)
	}
	l.guard("the log of a failed run", r.logEnd, r.job)
	if verdict.Ruled && verdict.Outcome.Exit() == job.ExitSnoozed {
		l.guard("the log of a snoozed run", r.logSnoozed, r.job)
	}
	l.callError(r, r.job, err, verdict)
}

// addAfter adds a callback of AfterRun, and reports whether it will be called.
func (r *run) addAfter(callback call) bool {
	r.afterMutex.Lock()
	defer r.afterMutex.Unlock()
	if r.afterEnded {
		return false
	}
	r.after = append(r.after, callback)
	return true
}

// callAfter calls the callbacks of AfterRun, each once, also if one of them ends its goroutine.
func (r *run) callAfter() {
	r.afterMutex.Lock()
	after := r.after
	r.after, r.afterEnded = nil, len(after) == 0
	r.afterMutex.Unlock()
	if len(after) == 0 {
		return
	}
	defer r.callAfter() // for one that a callback has added
	r.launcher().callEach(after)
}

// finish frees the processor, counts the run, and passes its outcome to the loop, which settles it.
func (r *run) finish() {
	l := r.launcher()
	r.processor.current.Store(nil) // before release, see Done
	r.shared.release(r)
	if r.track != nil {
		r.endTracked()
	}
	r.shard.statistics.countRun(r, r.shard.clock)
	l.loop.End(fetch.Result{Run: r.Run, Outcome: r.outcome, Refused: r.refused})
}
