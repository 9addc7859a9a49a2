package fetch

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// Config is what a Loop needs to know.
type Config struct {
	Client driver.Client
	Keys   lua.Keys
	Clock  *lua.Clock
	Log    zerolog.Logger
	// Capsules are the sets of queues to take from. No queue is in two of them.
	Capsules []Capsule
	// Largest is how large an entry may be, in bytes, to be run; larger ones go to the dead set.
	Largest int
	// DeadMost and DeadFor bound the dead set.
	DeadMost int
	DeadFor  time.Duration
	// CallTimeout bounds each call that carries no jobs, except waits. A call that carries jobs has more
	// time, see lua.Pace.
	CallTimeout time.Duration
	// Reporter reports outages. One of its own, writing to Log.
	Reporter *Reporter
	// DrainFor is how long at most nothing is taken so that the process becomes idle for a quarantined job.
	DrainFor time.Duration
	// Unit is how instants are written into payloads.
	Unit job.TimeUnit

	// ShutdownTimeout is how long running jobs may go on after Stop.
	ShutdownTimeout time.Duration
	// Cancel ends the contexts of all runs when the shutdown timeout is over.
	Cancel func()
	// Leaving is called once in a stop, with the instant at which the process will be gone at the latest.
	Leaving func(at time.Time)
}

// A Capsule is a set of queues with an order and a concurrency of its own.
type Capsule struct {
	Order *Order
	// Concurrency is how many of its jobs run at once.
	Concurrency int
}

// A Loop is a worker: the one goroutine that owns every run that the process knows. A turn of it hands
// taken jobs to the processors, gathers the outcomes of those that have returned, and sends all that there
// is to say as one pipeline: settles of these outcomes, and takes for the processors that are idle then.
// When all queues are empty, it waits at each of them.
//
// Nothing in the loop's goroutine blocks on Redis: what does runs in goroutines of its own and comes back
// as an event. Run, Enter and the processors' Take and End are described at each; other methods may be
// called from any goroutine.
type Loop struct {
	cfg        Config
	capsules   []*capsule
	spaces     []*keyspace
	quarantine quarantine
	quiet      bool // no more jobs are taken, ever
	stop       stopping
	*pool
	scratch struct { // room for what is gathered in each turn
		starting []*Run
		results  []Result
	}

	events     chan event
	orders     chan order
	heartbeats chan HeartbeatReply
	sessions   chan *Session
	started    atomic.Bool
	over       atomic.Bool
}

// An event is the end of something that was in flight.
type event interface{ handle() }

// An order is a request from outside of the loop's goroutine.
type order int

const (
	orderNothing order = iota // that it has been taken is the answer
	orderQuiet
	orderStop
	orderStopNow
	orderTooManyClients
)

// NewLoop makes a Loop. It opens no connection before Open.
func NewLoop(cfg Config) *Loop {
	if cfg.Reporter == nil {
		cfg.Reporter = NewReporter(cfg.Log)
	}
	l := &Loop{
		cfg: cfg, pool: newPool(),
		// Room for every operation that can be in flight, so that none of their goroutines ever waits for
		// its reader.
		events: make(chan event, mostInFlight+2*lua.MostQueues),
		orders: make(chan order, 64), heartbeats: make(chan HeartbeatReply, 1), sessions: make(chan *Session, 4),
	}
	l.quarantine.loop = l
	for _, c := range cfg.Capsules {
		l.capsules = append(l.capsules, &capsule{Capsule: c})
	}
	return l
}

// Open opens the connection for jobs.
func (l *Loop) Open() error {
	space, err := newKeyspace(l, &l.cfg)
	if err != nil {
		return err
	}
	l.spaces = []*keyspace{space}
	return nil
}

// Close closes the connections. Call it when nothing is in flight any more, or when that does not matter.
func (l *Loop) Close() error {
	var wrong []error
	for _, k := range l.spaces {
		wrong = append(wrong, k.close())
	}
	return errors.Join(wrong...)
}

// Enter makes session the one under which jobs are taken from now on. Call it before Run with the first
// session.
func (l *Loop) Enter(session *Session) { l.sessions <- session }

// Beaten passes the reply of a confirmed heartbeat to the loop.
func (l *Loop) Beaten(reply HeartbeatReply) {
	select {
	case l.heartbeats <- reply:
	default: // the loop has not come to the last one yet
	}
}

// Watched returns the keys for the session's next heartbeat to ask for; none when the loop reads them
// anyway.
func (l *Loop) Watched(session *Session) []string { return l.spaces[0].watched(session) }

// Quiet takes no more jobs. Running ones go on, and so does Run. A second call does nothing.
func (l *Loop) Quiet() { l.give(orderQuiet) }

// Stop makes Run return: nothing more is taken, running jobs have the shutdown timeout, then they are
// cancelled, and what has not returned a moment later is requeued.
func (l *Loop) Stop() { l.give(orderStop) }

// StopNow is Stop without the timeout.
func (l *Loop) StopNow() { l.give(orderStopNow) }

// TooManyClients is called when Redis refused this process a connection.
func (l *Loop) TooManyClients() { l.give(orderTooManyClients) }

// give passes an order to the loop. A full channel holds more orders than there are kinds, so one more
// changes nothing.
func (l *Loop) give(what order) {
	select {
	case l.orders <- what:
	default:
	}
}

// Turns reports whether the loop turns: whether it comes to its orders before ctx ends. Before Run and
// after it nothing is wrong with a loop, and the answer is true.
func (l *Loop) Turns(ctx context.Context) bool {
	if !l.started.Load() || l.over.Load() {
		return true
	}
	if len(l.orders) == 0 { // otherwise there is one to wait for, and no reason to fill the channel up
		l.give(orderNothing)
	}
	for len(l.orders) > 0 && !l.over.Load() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return true
}

// Run works until everything is settled after a stop, or until that has taken too long.
func (l *Loop) Run() {
	l.started.Store(true)
	defer l.over.Store(true)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		l.obeyAll() // before anything more is taken
		l.startReady()
		wake := l.turn(time.Now())
		l.startReady()
		wake = l.advance(time.Now(), wake)
		if l.done() {
			return
		}
		timer.Reset(untilOrHour(wake))
		select {
		case <-l.results.some:
		case event := <-l.events:
			l.handle(event)
		case session := <-l.sessions:
			l.enter(session)
		case reply := <-l.heartbeats:
			l.beaten(reply)
		case what := <-l.orders:
			l.obey(what)
		case <-timer.C:
		}
		l.gather()
	}
}

// untilOrHour returns how long it is until at, or long for no instant.
func untilOrHour(at time.Time) time.Duration {
	if at.IsZero() {
		return time.Hour
	}
	return max(time.Until(at), 0)
}

// turn sends what must be sent and returns when it wants to be called again at the latest; zero for no
// such time.
func (l *Loop) turn(now time.Time) (wake time.Time) {
	for _, k := range l.spaces {
		wake = earlier(wake, k.turn(now))
	}
	return wake
}

// gather takes in everything that has already come back, yields once, and does so again: the processors
// that were just about to finish then share this turn's round trip. That is all the batching there is:
// nothing waits for company.
func (l *Loop) gather() {
	for range 2 {
		l.scratch.results = l.results.take(l.scratch.results)
		for _, result := range l.scratch.results {
			l.end(result)
		}
		clear(l.scratch.results)
		l.scratch.results = l.scratch.results[:0]
		for more := true; more; {
			select {
			case event := <-l.events:
				l.handle(event)
			default:
				more = false
			}
		}
		runtime.Gosched()
	}
}

func (l *Loop) handle(e event) {
	for _, k := range l.spaces {
		k.lease.session = nil
	}
	e.handle()
}

func (l *Loop) enter(session *Session) {
	k := l.spaces[0]
	k.enter(session)
	k.abandon()
}

func (l *Loop) beaten(reply HeartbeatReply) { l.spaces[0].beaten(reply) }

// startReady puts the jobs that may start into the run queue.
func (l *Loop) startReady() {
	runs := l.scratch.starting[:0]
	for _, k := range l.spaces {
		runs = k.startReady(runs)
	}
	if len(runs) > 0 {
		l.queue.add(runs)
		clear(runs)
	}
	l.scratch.starting = runs
}

// end takes in the result of a run. One that was ended already stays as it was: its handler returned too
// late.
func (l *Loop) end(result Result) {
	r, k := result.Run, result.Run.space
	if r.state != running && r.state != abandoned {
		return
	}
	switch {
	case l.stop.asked && result.Outcome.Exit() == job.ExitRequeued:
		k.ledger.move(r, returned)
	case result.Refused:
		k.refuse(r)
	default:
		k.ledger.finish(r, result.Outcome)
	}
	if l.count(running, abandoned) == 0 {
		l.requeueUnfinished()
	}
}
