package fetch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

// A Loop is a worker: one goroutine that owns every run of the process. It never blocks on Redis: calls run in
// goroutines of their own and return as events. The comments of Open and Run, and of the processors' Take and
// End, say when to call them; other methods may be called from any goroutine.
type Loop struct {
	cfg        Config
	shares     []*Share
	spaces     []*Keyspace
	begin      int       // the index of the keyspace that begins the next round of calls
	taker      *Keyspace // the first keyspace that takes jobs in this round
	waitsFrom  int       // drawn: where allotWaits begins
	freed      bool      // a settle has made processors idle in this round
	quarantine quarantine
	quiet      bool // the loop takes no more jobs, until it ends
	stop       stopping
	pool       *pool
	scratch    struct { // reused in each turn, to avoid allocations
		starting []*Run
		results  []Result
	}

	events   chan event
	requests chan func() // from outside of the loop's goroutine
	started  atomic.Bool
	over     atomic.Bool
	lost     atomic.Uint64
}

// Run runs the loop until, after a stop, all jobs are settled or the time for that is over. This is what a
// worker does, in each turn:
//
//  1. It passes the jobs that may start to the processors (startReady).
//  2. For each keyspace it sends a pipeline: settles of the runs that have ended, then takes for the
//     processors that are idle (Keyspace.call). If all queues are empty, it waits on each of them with a
//     blocking call instead.
//  3. If the process stops, it continues the stop (advance).
//  4. It sleeps until a run has ended, a call has returned, or something is due.
//  5. It records these results and replies in the ledger (gather). The reply to a take brings the jobs that
//     start in the next turn.
func (l *Loop) Run() {
	l.started.Store(true)
	defer l.over.Store(true)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for len(l.requests) > 0 { // before anything more is taken
			(<-l.requests)()
		}
		l.startReady()
		wake := l.turn(time.Now())
		l.startReady() // orphaned entries that turn has reclaimed
		wake = l.advance(time.Now(), wake)
		if l.done() {
			return
		}
		timer.Reset(time.Until(wake))
		select {
		case <-l.pool.signal:
		case event := <-l.events:
			l.handle(event)
		case request := <-l.requests:
			request()
		case <-timer.C:
		}
		l.gather()
	}
}

// turn sends the calls that are due. It returns the latest instant at which it must be called again.
func (l *Loop) turn(now time.Time) (wake time.Time) {
	wake = now.Add(time.Hour)
	l.call(now)
	if l.freed && len(l.spaces) > 1 {
		l.call(now) // for processors that became idle after the call of a keyspace that has jobs for them
	}
	for _, k := range l.spaces {
		wake = earlier(wake, k.wait(now))
	}
	return wake
}

// call sends the calls of all keyspaces, but for idle waits. The keyspace behind the first one that takes jobs
// begins the next time.
func (l *Loop) call(now time.Time) {
	l.freed, l.taker = false, nil
	for i := range l.spaces {
		l.spaces[(l.begin+i)%len(l.spaces)].call(now)
	}
	if l.taker != nil {
		l.begin = (l.taker.index + 1) % len(l.spaces)
	}
}

// call sends the calls that are due, but for idle waits.
func (k *Keyspace) call(now time.Time) {
	k.lease.session = nil
	k.retryBlocked(now)
	k.endBackOffs(now)
	if k.outage.away && len(k.loop.spaces) > 1 {
		k.leaveUnstarted()
	}
	if k.outage.resting(now) {
		return
	}
	k.reclaim()
	k.loop.quarantine.advance(k, now)
	for k.maySend(now) {
		p := k.compose(now)
		if p == nil {
			break
		}
		k.send(p)
	}
}

// compose makes the next pipeline, or nil if there is nothing to send.
func (k *Keyspace) compose(now time.Time) *pipeline {
	p := &pipeline{space: k}
	if k.outage.away && k.session != nil && !k.session.Over() {
		return k.composeProbe(p)
	}
	k.addSettles(p)
	k.addStarts(p)
	again := k.ledger.count(unacked) > 0
	switch {
	case again:
		// A settle that has failed once is sent without other calls, which could fail with it. Its runs occupy
		// no processor, so a process that took jobs meanwhile could have any number of unacked ones.
	case k.loop.quarantine.mayTake(k):
		k.addTakeQuarantined(p)
	default:
		k.addTakes(p, now)
	}
	k.addTooLarge(p)
	k.addDrain(p)
	k.addLengths(p)
	if !again {
		k.addReading(p)
	}
	k.addRenewals(p)
	k.addForgets(p)
	if len(p.parts) == 0 {
		return nil
	}
	return p
}

// composeProbe makes the one pipeline that is sent during an outage. It reads the lengths of our lists, which
// is as small as a call can be. If the reply comes, Redis is not away but the link is slow, and the next call
// that carries jobs asks for fewer. The reply also shows what the failed call has left in our lists.
func (k *Keyspace) composeProbe(p *pipeline) *pipeline {
	if k.reconcile.asking {
		return nil
	}
	p.small = true
	k.reconcile.due = true
	k.addLengths(p)
	return p
}

// startReady passes the jobs that may start to the processors.
func (l *Loop) startReady() {
	runs := l.scratch.starting[:0]
	for _, k := range l.spaces {
		runs = k.startReady(runs)
	}
	if len(runs) > 0 {
		l.pool.add(runs)
		clear(runs)
	}
	l.scratch.starting = runs
}

// gather reads all results and events that have arrived, yields once, and reads again, so that processors
// that were about to finish share this turn's round trip. Beyond that and what pool.notify waits, the loop
// never waits to fill a batch.
func (l *Loop) gather() {
	for range 2 {
		l.scratch.results = l.pool.ended(l.scratch.results)
		for _, result := range l.scratch.results {
			l.end(result)
		}
		clear(l.scratch.results)
		l.scratch.results = l.scratch.results[:0]
		for len(l.events) > 0 {
			l.handle(<-l.events)
		}
		runtime.Gosched()
	}
}

// handle processes an event. The leases are read again for the runs that it makes ready.
func (l *Loop) handle(e event) {
	for _, k := range l.spaces {
		k.lease.session = nil
	}
	e.handle()
}

// end records the result of a run. It ignores the result of a run that was ended before: its handler returned
// too late.
func (l *Loop) end(result Result) {
	r, k := result.Run, result.Run.space
	if r.state != running && r.state != abandoned {
		return
	}
	switch {
	case result.Outcome.Exit() != job.ExitRequeued || r.owner.Over():
		k.finish(r, result.Outcome)
	case !l.stop.asked:
		k.refuse(r) // every job that returns to the head of its queue, or this process would take it at once
	case result.Refused:
		k.finish(r, result.Outcome)
	default:
		k.ledger.move(r, returned)
	}
	if l.count(running, abandoned) == 0 {
		l.requeueUnfinished()
	}
}

// An event is the completion of a call that was in flight.
type event interface{ handle() }

// Config configures a Loop.
type Config struct {
	Log *slog.Logger
	// Shares are the queues to take from, and the processors that they share. No queue is in two of them.
	Shares []Share
	// Largest is the maximum size of an entry in bytes; larger ones go to the dead set without a run.
	Largest int
	// CallTimeout bounds each call that carries no jobs, except waits. Calls that carry jobs get more time:
	// see link.Pace.
	CallTimeout time.Duration
	// DrainFor is the maximum time without takes while the process becomes idle for a quarantined job.
	DrainFor time.Duration
	// Unit is how instants are written into payloads.
	Unit job.TimeUnit

	// ShutdownTimeout is how long running jobs may continue after Stop.
	ShutdownTimeout time.Duration
	// Cancel ends the contexts of all runs when the shutdown timeout is over.
	Cancel func()
	// Leaving is called once in a stop, with the latest instant at which the process will have ended.
	Leaving func(at time.Time)
}

// NewLoop returns a Loop without keyspaces. Open adds them.
func NewLoop(cfg Config) *Loop {
	cfg.Log = logbook.OrDiscard(cfg.Log)
	l := &Loop{
		cfg: cfg, pool: newPool(), events: make(chan event, maxEvents), requests: make(chan func(), 256),
		waitsFrom: rand.N(1 << 16),
	}
	l.quarantine.loop = l
	for _, share := range cfg.Shares {
		l.shares = append(l.shares, &share)
	}
	return l
}

// Open adds a keyspace, with a connection for its jobs. Call it before Run.
func (l *Loop) Open(at Space) (*Keyspace, error) {
	k, err := newKeyspace(l, at)
	if err != nil {
		return nil, err
	}
	l.spaces = append(l.spaces, k)
	if len(l.spaces) > 1 {
		l.events = make(chan event, len(l.spaces)*maxEvents)
	}
	k.follow()
	l.allotWaits()
	return k, nil
}

// maxEvents is how many operations of a keyspace can be in flight. The channel of events has room for all of
// them, so that their goroutines never wait for the loop.
const maxEvents = maxInFlight + 2*lua.MaxQueues

// Close closes the connections. Calls that are still in flight fail.
func (l *Loop) Close() error {
	var errs []error
	for _, k := range l.spaces {
		errs = append(errs, k.close())
	}
	return errors.Join(errs...)
}

// Lost returns how many jobs were recovered from this process while it had them: their results were dropped.
func (l *Loop) Lost() uint64 { return l.lost.Load() }

// Quiet makes the loop take no more jobs. Running jobs and Run continue. A second call does nothing.
func (l *Loop) Quiet() { l.give(l.beQuiet) }

// Stop makes Run return: the loop takes no more jobs, running jobs get the shutdown timeout and are then
// cancelled, and jobs that have not returned a moment later are requeued.
func (l *Loop) Stop() { l.give(l.beginStop) }

// StopNow is Stop without the timeout.
func (l *Loop) StopNow() { l.give(l.beginStopNow) }

// give passes a request to the loop. It drops the request if the channel is full: the channel has room for far
// more requests than there are kinds, and for the replies to many heartbeats.
func (l *Loop) give(request func()) {
	select {
	case l.requests <- request:
	default:
	}
}

// Turns reports whether the loop's goroutine reads its requests, such as Quiet and Stop, before ctx ends. If
// not, the loop stands still. It returns true before Run and after it.
func (l *Loop) Turns(ctx context.Context) bool {
	if !l.started.Load() || l.over.Load() {
		return true
	}
	if len(l.requests) == 0 { // otherwise Turns waits for the requests that are there
		l.give(func() {})
	}
	for len(l.requests) > 0 && !l.over.Load() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return true
}
