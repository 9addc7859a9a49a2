package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	shards     []*shard // one in a process without shards
	process    string   // what the records of all its sessions name, if it has shards: Redis shows them as one process
	queues     *queueSet
	handlers   map[string]registration
	middleware middleware.List[Middleware]
	hooks      hooks
	loop       *fetch.Loop
	periodic   []*scheduler.Periodic
	limits     []limit.Limit // those of its classes, each once

	grace     time.Duration // heartGrace, except in tests
	halt      chan struct{} // closed by the first Stop
	phase     atomic.Int32  // new, running or ended
	startedAt time.Time     // when New made it

	// The fields below are set by Run.
	pool       atomic.Pointer[pool] // nil before Run: Running may be called at any time
	work       context.Context
	cancel     context.CancelCauseFunc // ends work
	background sync.WaitGroup          // the duties, the checks of Redis, and the shards that have not answered yet
	quiet      atomic.Bool
	stopping   atomic.Bool               // Stop was called
	goneAt     atomic.Pointer[time.Time] // the latest instant at which a stop ends, once known
	watch      watch
	warnedOf   sync.Map // what is logged once: the gem of a lock, the foreignBatch of a class
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
		cfg: cfg, startedAt: time.Now(), handlers: make(map[string]registration),
		hooks: hooks{room: make(chan struct{}, maxCalls)}, grace: heartGrace, halt: make(chan struct{}),
	}
	l.queues = newQueueSet(cfg.allCapsules(), shares, len(cfg.Shards))
	for i, of := range cfg.Shards {
		s := newShard(l, of)
		s.queues = l.queues.of[i]
		l.shards = append(l.shards, s)
	}
	if cfg.Shards[0].Name != "" {
		l.process = job.NewJID()[:12]
	}
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
		l.callLater(callsOf("quiet hook", l.hooks.quiet))
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
		l.callLater(callsOf("quiet hook", l.hooks.quiet))
	}
	l.callLater(callsOf("stop hook", l.hooks.stop))
	close(l.halt)
	l.loop.Stop()
}

// noteQuiet records that the process takes no more jobs, and shows that to Sidekiq's readers. It reports
// whether the process took jobs before.
func (l *Launcher) noteQuiet() bool {
	first := !l.quiet.Swap(true)
	for _, s := range l.shards {
		s.pollNow.pull() // to end its duty
		s.changed.pull()
	}
	return first
}

// Identity returns the identity of the process' session; "" before it is registered. With shards it is that of
// the first shard where the process has a session.
func (l *Launcher) Identity() string {
	for _, s := range l.shards {
		if identity := s.identity(); identity != "" {
			return identity
		}
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
// also in another Launcher of this program. With shards the process starts when the first one has answered, and
// the others join when they answer; Run returns an error if all of them refuse the process. Run may be called
// once.
func (l *Launcher) Run(ctx context.Context) error {
	if !l.phase.CompareAndSwap(phaseNew, phaseRunning) {
		return errors.New("belay: Run was called before")
	}
	defer l.phase.Store(phaseEnded)
	if l.isClosed() {
		return errClosed
	}
	l.loop.SetOrders(l.queues.begin())
	if err := l.begin(ctx); err != nil {
		return err
	}
	handlers, err := l.wrapped()
	if err != nil {
		return err
	}
	defer l.close()
	for _, s := range l.shards {
		if err := s.open(); err != nil {
			return s.named(err)
		}
	}
	l.logStart()
	defer l.warnOfQueues(ctx)()

	l.work, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer l.cancel(nil)
	pool := newPool(l, handlers)
	l.pool.Store(pool)
	// Heartbeats continue until the last job is settled, so their context is not ctx.
	vitals, stopVitals := context.WithCancel(context.WithoutCancel(ctx))
	defer stopVitals()
	joining, endJoining := context.WithCancel(ctx)
	defer endJoining()
	if started, err := l.join(joining, vitals); !started {
		endJoining()
		l.background.Wait()
		return err
	}
	pool.start()
	defer l.loop.Dismiss()
	l.background.Go(func() { l.watchRuns(vitals) })
	defer context.AfterFunc(ctx, l.Stop)()

	l.loop.Run()

	stopVitals()
	endJoining()
	l.endDuties()
	l.reportLeft()
	l.deregister()
	l.awaitCalls()
	l.exit()
	return nil
}

// join registers the process in all shards at once. It returns when the first one has answered; the others
// join when they answer. It reports false if the process was stopped first, or with the errors of all shards
// if all of them refuse the process.
func (l *Launcher) join(ctx, vitals context.Context) (started bool, err error) {
	answers, start := make(chan answer, len(l.shards)), make(chan struct{})
	for _, s := range l.shards {
		l.background.Go(func() { s.join(ctx, vitals, answers, start) })
	}
	var errs []error
	for range l.shards {
		answer := <-answers
		if answer.joined {
			close(start)
			return true, nil
		}
		errs = append(errs, answer.err)
	}
	if slices.Contains(errs, nil) {
		return false, nil
	}
	return false, errors.Join(errs...)
}

func (l *Launcher) loopConfig(shares []fetch.Share) fetch.Config {
	return fetch.Config{
		Log: l.cfg.Log, Shares: shares,
		Largest:     l.cfg.PayloadLimit + job.PayloadSlack,
		CallTimeout: min(max(l.cfg.TTL/2, time.Second), maxCall), DrainFor: l.cfg.drainFor(),
		Unit: l.cfg.Retry.Unit, ShutdownTimeout: max(l.cfg.ShutdownTimeout, 0),
		Cancel:  func() { l.cancel(ErrShutdown) },
		Leaving: func(at time.Time) { l.goneAt.Store(&at) },
	}
}

// open prepares the connections to the shard, and what uses them.
func (s *shard) open() error {
	var err error
	if s.lanes, err = openLanes(s.counting(s.Client)); err != nil {
		return fmt.Errorf("open a connection for vitals: %w", err)
	}
	if s.space, err = s.launcher.loop.Open(fetch.Space{
		Name: s.Name, Client: s.counting(s.Client), Keys: s.keys, Clock: s.clock, Reporter: s.report,
		TooManyClients: func() { s.tooManyClients(true) },
	}); err != nil {
		return fmt.Errorf("open a connection for jobs: %w", err)
	}
	s.setGate()
	s.follower.orders = s.launcher.queues.orders()
	s.follower.logged = namesOf(s.follower.orders)
	s.follower.link = &link.Link{Client: s.lanes.chores, Round: s.launcher.round(), Log: s.log, Duty: "queues"}
	s.registers = &link.Link{Client: s.lanes.chores, Freight: s.lanes.freight, Round: s.launcher.round(), Log: s.log, Duty: "periodic"}
	s.janitor = janitor.New(janitor.Config{
		Client: s.lanes.chores, Freight: s.lanes.freight, Keys: s.keys, Log: s.log,
		Beat: s.cfg.Beat, TTL: s.cfg.TTL, Between: s.cfg.Janitor, Round: s.launcher.round(),
		Largest: s.cfg.PayloadLimit + job.PayloadSlack, Crashes: s.cfg.crashPolicy(), Unit: s.cfg.Retry.Unit,
		Recovered: s.recovered,
		Absent:    func() { s.beatNow.pull(); s.absent.pull() },
	})
	s.poller = scheduler.New(scheduler.Config{
		Client: s.lanes.chores, Freight: s.lanes.poll, Keys: s.keys, Clock: s.clock, Log: s.log, Unit: s.cfg.Retry.Unit,
		Largest: s.cfg.PayloadLimit + job.PayloadSlack, Round: s.launcher.round(), Every: s.cfg.Poll, Off: s.cfg.pollOff,
		Queues: s.launcher.Queues, Crashes: s.cfg.crashPolicy(),
		Marks: &s.marks,
	})
	beside := scheduler.Config{
		Client: s.lanes.chores, Freight: s.lanes.freight, Keys: s.keys, Clock: s.clock, Log: s.log,
		Largest: s.cfg.PayloadLimit + job.PayloadSlack, Round: s.launcher.round(),
	}
	s.tickLocks, s.sampler = scheduler.NewTickLocks(beside), scheduler.NewSampler(beside)
	s.report.Notify(s.launcher.callInternal)
	return nil
}

// close closes all connections: no call is in flight, or the process must end.
func (l *Launcher) close() {
	for _, s := range l.shards {
		s.close()
	}
	_ = l.loop.Close()
}

func (s *shard) close() {
	if s.lanes.heart != nil {
		_ = s.lanes.close()
	}
}

// callThroughOutage makes a call of the start within limit, or longer on a slow link. Through an outage it
// makes the call again, until ctx ends or Stop is called. It returns a denial at once, so that the operator
// sees the error at the start, unless the process is to wait for what an operator does about it.
func (s *shard) callThroughOutage(
	ctx context.Context, name string, limit time.Duration, pace *link.Pace, call func(context.Context) error,
) error {
	for {
		err := pace.Within(ctx, limit, call)
		if err == nil {
			s.report.Succeed(name)
			return nil
		}
		denied := driver.Denial(err) != ""
		if ctx.Err() != nil || s.launcher.stopping.Load() || denied && !s.cfg.WaitForRedis || !denied && !driver.Outage(err) {
			return err
		}
		s.report.Fail(name, err)
		select {
		case <-ctx.Done():
		case <-s.launcher.halt:
		case <-time.After(link.Jitter(s.launcher.vitalsDeadline() / 4)):
		}
	}
}

// register begins the process' first session, waiting for Redis until ctx ends or Stop is called. It returns
// no session and no error if the process was stopped first.
func (s *shard) register(ctx context.Context) (session *fetch.Session, err error) {
	err = s.callThroughOutage(ctx, "register", s.launcher.vitalsDeadline(), &s.heartPace, func(ctx context.Context) error {
		_, err := driver.CheckVersion(ctx, s.lanes.heart) // the error of a script would not explain itself
		return err
	})
	if err == nil && s.cfg.Permitted != nil {
		// One call asks for hundreds of permissions. No heartbeat waits for it yet.
		var pace link.Pace
		err = s.callThroughOutage(ctx, "register", driver.CallTimeout, &pace, func(ctx context.Context) error {
			return s.cfg.Permitted(ctx, s.Shard)
		})
	}
	if err == nil {
		err = s.callThroughOutage(ctx, "register", s.launcher.vitalsDeadline(), &s.heartPace, func(ctx context.Context) (err error) {
			session, err = s.newSession(ctx, "")
			return err
		})
	}
	if err != nil && (ctx.Err() != nil || s.launcher.stopping.Load()) {
		return nil, nil //nolint:nilnil,nilerr // stopped before it began: there is nothing to undo and nothing wrong
	}
	if advice := driver.Denial(err); advice != "" && !strings.Contains(err.Error(), advice) {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	return session, s.named(err)
}

// named returns the error with the name of the shard.
func (s *shard) named(err error) error {
	if err == nil || strings.HasPrefix(err.Error(), s.before()) { // as an error of a client does, or without shards
		return err
	}
	return fmt.Errorf("%s%w", s.before(), err)
}

// newSession registers a new identity, which the process uses from then on.
func (s *shard) newSession(ctx context.Context, formerly string) (*fetch.Session, error) {
	session, err := fetch.Register(s.launcher.work, ctx, s.lanes.heart, s.keys, s.clock, s.cfg.Name, lua.Record{
		Queues: s.queues.forRecord(), Beat: s.cfg.Beat, TTL: s.cfg.TTL, Concurrency: s.launcher.Concurrency(), Formerly: formerly,
	})
	if err != nil {
		return nil, err
	}
	s.session.Store(session)
	s.answered()
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
func (l *Launcher) endDuties() {
	closed := make(chan struct{})
	late := time.AfterFunc(time.Until(l.goneAt.Load().Add(-fetch.Goodbye)), func() {
		for _, s := range l.shards {
			s.close()
		}
		close(closed)
	})
	l.background.Wait()
	if late.Stop() {
		return
	}
	<-closed
	// From here on only the heartbeats' connections are used.
	for _, s := range l.shards {
		if heart, err := s.Client.Lane(1); err == nil {
			s.lanes.heart = heart
		}
	}
}

// deregister ends all sessions at once, because one Redis that does not answer must not use the time of the
// others.
func (l *Launcher) deregister() {
	var ending sync.WaitGroup
	for _, s := range l.shards {
		if s.session.Load() != nil {
			ending.Go(s.deregister)
		}
	}
	ending.Wait()
}

// deregister ends the session, if Redis answers, and then writes the figures of the last seconds, if there is
// time left. If Redis does not answer, the process counts as crashed, and its jobs are recovered.
func (s *shard) deregister() {
	ctx, cancel := context.WithDeadline(context.Background(), *s.launcher.goneAt.Load())
	defer cancel()
	session := s.session.Load()
	if former := session.Formerly(); former != "" {
		// The sweep finds jobs that reach its lists from now on. The call has no effect if the identity was
		// declared dead.
		_, _ = s.keys.Deregister(former, s.queues.forRecord()).Do(ctx, s.lanes.heart)
	}
	_ = scheduler.GiveUp(ctx, s.lanes.heart, s.keys, session.Identity, s.keys.Sweeper(), s.keys.Watcher(), s.keys.Deputy()) // otherwise they expire
	left, err := s.keys.Deregister(session.Identity, s.queues.forRecord()).Do(ctx, s.lanes.heart)
	switch {
	case err != nil:
		s.log.Error("deregistration failed; unfinished jobs will be recovered", "error", err, "identity", session.Identity)
		return
	case left > 0:
		s.log.Warn("stopped with unsettled jobs; they will be recovered", "identity", session.Identity, "jobs", left)
	default:
		s.log.Info("stopped", "identity", session.Identity)
	}
	_ = s.writeStatistics(ctx, s.lanes.heart) // nothing more can be done
}
