package launcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/janitor"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/job/middleware"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// A Launcher is one worker process. New builds it, Handle and Use configure what it runs, Run runs it.
type Launcher struct {
	cfg        Config
	keys       lua.Keys
	clock      *lua.Clock
	queues     *queueSet
	handlers   map[string]registration
	middleware middleware.List[Middleware]
	hooks      hooks
	report     *link.Reporter
	loop       *fetch.Loop
	space      *fetch.Keyspace
	periodic   []*scheduler.Periodic
	outranked  map[string]bool // periodic jobs for which another definition is in force
	limits     []limit.Limit   // those of its classes, each once
	overruled  map[string]bool // limits for which another size is in force; nil before the first registration

	grace     time.Duration // heartGrace, except in tests
	changed   trigger       // the record for Sidekiq's readers must be written
	marked    trigger       // there are marks to read
	pollNow   trigger       // the poller's duty must not wait
	sweepNow  trigger       // the lease of the sweep is free
	watchNow  trigger       // a lease of those that watch is free
	beatNow   trigger       // a heartbeat must not wait
	absent    trigger       // a process was declared dead by its absence
	marks     lua.Marks
	rules     lua.ClassRules
	rulesAt   int64         // the event of the marks after which the rules were read; -1 before
	halt      chan struct{} // closed by the first Stop
	phase     atomic.Int32  // new, running or ended
	startedAt time.Time     // when New made it

	// The fields below are set by Run.
	session   atomic.Pointer[fetch.Session]
	pool      atomic.Pointer[pool] // nil before Run: Running may be called at any time
	janitor   *janitor.Janitor
	poller    *scheduler.Poller
	tickLocks *scheduler.TickLocks
	sampler   *scheduler.Sampler
	follower  queueFollower
	announced announcement // the last one; only its duty uses it
	lanes     lanes
	registers *link.Link // for definitions of periodic jobs, and for limits
	work      context.Context
	cancel    context.CancelCauseFunc // ends work
	bornAt    time.Time
	rtt       atomic.Int64
	heartPace link.Pace    // of registrations and heartbeats, which share a connection
	beatAt    atomic.Int64 // when, after startedAt, Redis last answered a heartbeat
	lapsedAt  atomic.Int64 // when, after startedAt, Redis was first seen to count the process as lapsed; 0 if it does not
	quiet     atomic.Bool
	stopping  atomic.Bool               // Stop was called
	goneAt    atomic.Pointer[time.Time] // the latest instant at which a stop ends, once known
	contact   contact
	watch     watch
	presence  presence
	warnedOf  sync.Map // what is logged once: the gem of a lock, the foreignBatch of a class

	statistics statistics
}

// The phases of Run.
const (
	phaseNew int32 = iota
	phaseRunning
	phaseEnded
)

// New builds a Launcher, or returns all errors of the configuration. It opens nothing and starts nothing.
func New(cfg Config) (*Launcher, error) {
	cfg = cfg.WithDefaults()
	shares, err := newShares(cfg.allCapsules())
	if err := errors.Join(err, cfg.check()); err != nil {
		return nil, fmt.Errorf("configure a worker: %w", err)
	}
	cfg.Retry.PayloadLimit = cfg.PayloadLimit
	l := &Launcher{
		cfg: cfg, clock: &lua.Clock{},
		keys:   lua.NewKeys(cfg.Prefix).WithDeadLimits(lua.DeadLimits{Limit: cfg.DeadLimit, For: cfg.DeadFor}),
		report: link.NewReporter(cfg.Log), startedAt: time.Now(),
		handlers: make(map[string]registration), hooks: hooks{room: make(chan struct{}, maxCalls)},
		outranked: make(map[string]bool), grace: heartGrace,
		changed: newTrigger(), marked: newTrigger(), pollNow: newTrigger(), sweepNow: newTrigger(),
		watchNow: newTrigger(), beatNow: newTrigger(), absent: newTrigger(), presence: presence{may: newTrigger()},
		halt: make(chan struct{}), rulesAt: -1,
	}
	l.queues = newQueueSet(cfg.allCapsules(), shares)
	l.loop = fetch.NewLoop(l.loopConfig(shares))
	return l, nil
}

// Handle registers the handler of a class, or of every other class for AnyClass. It panics after Run, if the
// class has a handler, and if the timeout is negative. These are mistakes in the program; a second handler
// would silently hide the first.
func (l *Launcher) Handle(class string, handler Handler, about Class) {
	switch {
	case l.started():
		panic("belay: Handle after Run: register " + class + " before")
	case handler == nil:
		panic("belay: Handle " + class + ": the handler is nil")
	case about.Timeout < 0:
		panic("belay: Handle " + class + ": the timeout is negative; leave it out for none")
	case l.handlers[class].handler != nil:
		panic("belay: Handle " + class + ": the class has a handler already")
	}
	l.addLimit(class, about.Limit)
	late := &timeoutError{after: about.Timeout, err: context.DeadlineExceeded}
	l.handlers[class] = registration{handler: handler, class: about, late: late}
}

// Use adds middleware around every handler, under a name, at a place. It panics if the name is taken, if the
// place does not exist, and after Run.
func (l *Launcher) Use(name string, m Middleware, at ...middleware.Place) {
	if l.started() {
		panic("belay: Server.Use " + name + " after Run: add middleware before")
	}
	if err := l.middleware.Add(name, m, at...); err != nil {
		panic("belay: Server.Use: " + err.Error())
	}
}

// RemoveMiddleware removes the middleware of that name. It panics if there is none, and after Run.
func (l *Launcher) RemoveMiddleware(name string) {
	if l.started() {
		panic("belay: Server.RemoveMiddleware " + name + " after Run: remove middleware before")
	}
	if err := l.middleware.Remove(name); err != nil {
		panic("belay: Server.RemoveMiddleware: " + err.Error())
	}
}

func (l *Launcher) started() bool { return l.phase.Load() != phaseNew }

// Quiet makes the process take no more jobs. Running jobs continue, and the process runs until Stop. A second
// call does nothing.
func (l *Launcher) Quiet() {
	first := l.noteQuiet()
	l.loop.Quiet()
	if first {
		l.callLater("quiet hook", l.hooks.quiet...)
	}
}

// IsQuiet reports whether the process takes no more jobs.
func (l *Launcher) IsQuiet() bool { return l.quiet.Load() }

// Stop ends the process. It takes no more jobs, and running jobs get the shutdown timeout. Then their
// contexts end with the cause ErrShutdown, and jobs that have not returned a moment later go to the head of
// their queue. A second call ends the timeout at once.
func (l *Launcher) Stop() {
	if l.stopping.Swap(true) {
		l.loop.StopNow()
		return
	}
	// Before the loop gets the order: the process may end a moment after it.
	if l.noteQuiet() {
		l.callLater("quiet hook", l.hooks.quiet...)
	}
	l.callLater("stop hook", l.hooks.stop...)
	close(l.halt)
	l.loop.Stop()
}

// noteQuiet records that the process takes no more jobs, and shows that to Sidekiq's readers. It reports
// whether the process took jobs before.
func (l *Launcher) noteQuiet() bool {
	first := !l.quiet.Swap(true)
	l.pollNow.pull() // to end its duty
	l.changed.pull()
	return first
}

// Identity returns the identity of the process' session; "" before it is registered.
func (l *Launcher) Identity() string {
	if session := l.session.Load(); session != nil {
		return session.Identity
	}
	return ""
}

// Busy returns how many jobs run.
func (l *Launcher) Busy() int { return len(l.Running()) }

// Concurrency returns the maximum number of jobs that run at once, in all capsules.
func (l *Launcher) Concurrency() int { return l.loop.Concurrency() }

// Run registers the process and runs jobs until ctx ends, which has the effect of Stop, and all jobs are
// settled. It returns nil after a stop, and an error at once if its client is closed. A handler that ignores
// its context is left behind, and OnStuck is called. Its job is back in its queue, and may run elsewhere,
// also in another Launcher of this program. Run may be called once.
func (l *Launcher) Run(ctx context.Context) error {
	if !l.phase.CompareAndSwap(phaseNew, phaseRunning) {
		return errors.New("belay: Run was called before")
	}
	defer l.phase.Store(phaseEnded)
	if l.isClosed() {
		return errClosed
	}
	orders := l.queues.begin()
	l.loop.SetOrders(orders)
	l.follower.orders, l.follower.logged = orders, namesOf(orders)
	if err := l.begin(ctx); err != nil {
		return err
	}
	handlers, err := l.wrapped()
	if err != nil {
		return err
	}
	if err := l.open(); err != nil {
		return err
	}
	defer l.close()
	l.logStart()
	defer l.warnOfQueues(ctx)()

	l.setGate()
	l.work, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer l.cancel(nil)
	l.learnMarks(ctx)
	session, err := l.register(ctx)
	if session == nil {
		return err
	}
	if l.cfg.Check != nil {
		defer Beside(ctx, l.cfg.Check)()
	}
	if l.space, err = l.loop.Open(fetch.Space{
		Client: l.counting(l.cfg.Client), Keys: l.keys, Clock: l.clock, Reporter: l.report,
	}); err != nil {
		return fmt.Errorf("open a connection for jobs: %w", err)
	}
	defer func() { _ = l.loop.Close() }()
	l.bornAt = l.clock.Now()
	pool := newPool(l, handlers)
	l.pool.Store(pool)
	l.space.Enter(session)
	pool.start()
	defer l.loop.Dismiss()

	// Heartbeats continue until the last job is settled, so their context is not ctx.
	vitals, stopVitals := context.WithCancel(context.WithoutCancel(ctx))
	var duties sync.WaitGroup
	for _, d := range l.duties() {
		duties.Go(func() { l.repeat(vitals, d) })
	}
	duties.Go(func() { l.holdPresence(vitals) })
	defer context.AfterFunc(ctx, l.Stop)()
	l.cfg.Log.Info("working", "identity", session.Identity, "queues", l.Queues(), "concurrency", l.Concurrency())

	l.loop.Run()

	stopVitals()
	l.endDuties(&duties)
	l.reportLeft()
	l.deregister()
	l.awaitCalls()
	l.exit()
	return nil
}

func (l *Launcher) loopConfig(shares []fetch.Share) fetch.Config {
	return fetch.Config{
		Log: l.cfg.Log, Shares: shares,
		Largest:     l.cfg.PayloadLimit + job.PayloadSlack,
		CallTimeout: min(max(l.cfg.TTL/2, time.Second), maxCall), DrainFor: l.cfg.drainFor(),
		Unit: l.cfg.Retry.Unit, ShutdownTimeout: max(l.cfg.ShutdownTimeout, 0),
		TooManyClients: func() { l.tooManyClients(true) },
		Cancel:         func() { l.cancel(ErrShutdown) },
		Leaving:        func(at time.Time) { l.goneAt.Store(&at) },
	}
}

func (l *Launcher) open() error {
	var err error
	if l.lanes, err = openLanes(l.counting(l.cfg.Client)); err != nil {
		return fmt.Errorf("open a connection for vitals: %w", err)
	}
	l.follower.link = &link.Link{Client: l.lanes.chores, Round: l.round(), Log: l.cfg.Log, Duty: "queues"}
	l.registers = &link.Link{Client: l.lanes.chores, Freight: l.lanes.freight, Round: l.round(), Log: l.cfg.Log, Duty: "periodic"}
	l.janitor = janitor.New(janitor.Config{
		Client: l.lanes.chores, Freight: l.lanes.freight, Keys: l.keys, Log: l.cfg.Log,
		Beat: l.cfg.Beat, TTL: l.cfg.TTL, Between: l.cfg.Janitor, Round: l.round(),
		Largest: l.cfg.PayloadLimit + job.PayloadSlack, Crashes: l.cfg.crashPolicy(), Unit: l.cfg.Retry.Unit,
		Recovered: l.recovered,
		Absent:    func() { l.beatNow.pull(); l.absent.pull() },
	})
	l.poller = scheduler.New(scheduler.Config{
		Client: l.lanes.chores, Freight: l.lanes.poll, Keys: l.keys, Clock: l.clock, Log: l.cfg.Log, Unit: l.cfg.Retry.Unit,
		Largest: l.cfg.PayloadLimit + job.PayloadSlack, Round: l.round(), Every: l.cfg.Poll, Off: l.cfg.pollOff,
		Queues: l.Queues, Crashes: l.cfg.crashPolicy(),
		Marks: &l.marks,
	})
	beside := scheduler.Config{
		Client: l.lanes.chores, Freight: l.lanes.freight, Keys: l.keys, Clock: l.clock, Log: l.cfg.Log,
		Largest: l.cfg.PayloadLimit + job.PayloadSlack, Round: l.round(),
	}
	l.tickLocks, l.sampler = scheduler.NewTickLocks(beside), scheduler.NewSampler(beside)
	l.report.Notify(l.callInternal)
	return nil
}

func (l *Launcher) close() { _ = l.lanes.close() } // no call is in flight, or the process must end

// callThroughOutage makes a call of the start within limit, or longer on a slow link. Through an outage it
// makes the call again, until ctx ends or Stop is called. It returns a denial at once, so that the operator
// sees the error at the start, unless the process is to wait for what an operator does about it.
func (l *Launcher) callThroughOutage(
	ctx context.Context, name string, limit time.Duration, pace *link.Pace, call func(context.Context) error,
) error {
	for {
		err := pace.Within(ctx, limit, call)
		if err == nil {
			l.report.Succeed(name)
			return nil
		}
		denied := driver.Denial(err) != ""
		if ctx.Err() != nil || l.stopping.Load() || denied && !l.cfg.WaitForRedis || !denied && !driver.Outage(err) {
			return err
		}
		l.report.Fail(name, err)
		select {
		case <-ctx.Done():
		case <-l.halt:
		case <-time.After(link.Jitter(l.vitalsDeadline() / 4)):
		}
	}
}

// register begins the process' first session, waiting for Redis until ctx ends or Stop is called. It returns
// no session and no error if the process was stopped first.
func (l *Launcher) register(ctx context.Context) (session *fetch.Session, err error) {
	err = l.callThroughOutage(ctx, "register", l.vitalsDeadline(), &l.heartPace, func(ctx context.Context) error {
		_, err := driver.CheckVersion(ctx, l.lanes.heart) // the error of a script would not explain itself
		return err
	})
	if err == nil && l.cfg.Permitted != nil {
		// One call asks for hundreds of permissions. No heartbeat waits for it yet.
		var pace link.Pace
		err = l.callThroughOutage(ctx, "register", driver.CallTimeout, &pace, l.cfg.Permitted)
	}
	if err == nil {
		err = l.callThroughOutage(ctx, "register", l.vitalsDeadline(), &l.heartPace, func(ctx context.Context) (err error) {
			session, err = l.newSession(ctx, "")
			return err
		})
	}
	if err != nil && (ctx.Err() != nil || l.stopping.Load()) {
		return nil, nil //nolint:nilnil,nilerr // stopped before it began: there is nothing to undo and nothing wrong
	}
	if advice := driver.Denial(err); advice != "" && !strings.Contains(err.Error(), advice) {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	return session, err
}

// newSession registers a new identity, which the process uses from then on.
func (l *Launcher) newSession(ctx context.Context, formerly string) (*fetch.Session, error) {
	session, err := fetch.Register(l.work, ctx, l.lanes.heart, l.keys, l.clock, l.cfg.Name, lua.Record{
		Queues: l.queues.forRecord(), Beat: l.cfg.Beat, TTL: l.cfg.TTL, Concurrency: l.Concurrency(), Formerly: formerly,
	})
	if err != nil {
		return nil, err
	}
	l.session.Store(session)
	l.answered()
	return session, nil
}

// maxCall bounds a call even with a long TTL, because a stop must not wait long for a Redis that does not
// reply.
const maxCall = 5 * time.Second

// vitalsDeadline bounds one call of the vitals: a quarter of the TTL, so that several attempts fit into one
// TTL, and no longer than a stop may wait.
func (l *Launcher) vitalsDeadline() time.Duration {
	return min(l.cfg.TTL/beatsPerTTL, fetch.LastSettle-fetch.Goodbye)
}

// minRound is the minimum timeout of a call of the janitor or the poller: four round trips of half a
// second, to connect, to authenticate, and to send a script that Redis has not cached. A slow call declares
// no process dead.
const minRound = 2 * time.Second

// round bounds a call of the janitor or the poller without jobs.
func (l *Launcher) round() time.Duration { return max(l.vitalsDeadline(), minRound) }

// endDuties waits for the duties, which begin no new pass. Shortly before the process must end, calls still
// under way are cancelled, whatever their timeout: each script executes completely or not at all.
func (l *Launcher) endDuties(duties *sync.WaitGroup) {
	closed := make(chan struct{})
	late := time.AfterFunc(time.Until(l.goneAt.Load().Add(-fetch.Goodbye)), func() {
		l.close()
		close(closed)
	})
	duties.Wait()
	if late.Stop() {
		return
	}
	<-closed
	// From here on only the heartbeat's connection is used.
	if heart, err := l.cfg.Client.Lane(1); err == nil {
		l.lanes.heart = heart
	}
}

// deregister ends the session, if Redis answers, and then writes the figures of the last seconds, if there is
// time left. If Redis does not answer, the process counts as crashed, and its jobs are recovered.
func (l *Launcher) deregister() {
	ctx, cancel := context.WithDeadline(context.Background(), *l.goneAt.Load())
	defer cancel()
	session := l.session.Load()
	if former := session.Formerly(); former != "" {
		// The sweep finds jobs that reach its lists from now on. The call has no effect if the identity was
		// declared dead.
		_, _ = l.keys.Deregister(former, l.queues.forRecord()).Do(ctx, l.lanes.heart)
	}
	_ = scheduler.GiveUp(ctx, l.lanes.heart, l.keys, session.Identity, l.keys.Sweeper(), l.keys.Watcher(), l.keys.Deputy()) // otherwise they expire
	left, err := l.keys.Deregister(session.Identity, l.queues.forRecord()).Do(ctx, l.lanes.heart)
	switch {
	case err != nil:
		l.cfg.Log.Error("deregistration failed; unfinished jobs will be recovered", "error", err, "identity", session.Identity)
		return
	case left > 0:
		l.cfg.Log.Warn("stopped with unsettled jobs; they will be recovered", "identity", session.Identity, "jobs", left)
	default:
		l.cfg.Log.Info("stopped", "identity", session.Identity)
	}
	_ = l.writeStatistics(ctx, l.lanes.heart) // nothing more can be done
}
