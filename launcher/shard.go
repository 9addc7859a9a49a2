package launcher

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/janitor"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// A Shard is one of the keyspaces of a process.
type Shard struct {
	// Name is what log lines and findings about the shard carry; "" in a process without shards.
	Name   string
	Client driver.Client
	Prefix string
}

// Log returns a log whose lines have the name of the shard, if it has one.
func (s Shard) Log(log *slog.Logger) *slog.Logger {
	if s.Name == "" {
		return log
	}
	return log.With("shard", s.Name)
}

// before returns what precedes a text about the shard.
func (s Shard) before() string {
	if s.Name == "" {
		return ""
	}
	return "shard " + s.Name + ": "
}

// A shard is what the process has of one keyspace: its session and its connections there, the clock and the
// marks of this Redis, and the duties. A process without shards has one of them. Decisions about a job use
// those of the shard from which it was taken.
type shard struct {
	Shard
	launcher *Launcher
	cfg      *Config // of the launcher
	queues   *shardQueues
	keys     lua.Keys
	clock    *lua.Clock
	log      *slog.Logger
	report   *link.Reporter
	space    *fetch.Keyspace

	outranked map[string]bool // periodic jobs for which another definition is in force
	overruled map[string]bool // limits for which another size is in force; nil before the first registration

	changed  trigger // the record for Sidekiq's readers must be written
	marked   trigger // there are marks to read
	pollNow  trigger // the poller's duty must not wait
	sweepNow trigger // the lease of the sweep is free
	watchNow trigger // a lease of those that watch is free
	beatNow  trigger // a heartbeat must not wait
	absent   trigger // a process was declared dead by its absence
	marks    lua.Marks
	rules    lua.ClassRules
	rulesAt  int64 // the event of the marks after which the rules were read; -1 before

	// The fields below are set by Run.
	session     atomic.Pointer[fetch.Session]
	janitor     *janitor.Janitor
	poller      *scheduler.Poller
	tickLocks   *scheduler.TickLocks
	sampler     *scheduler.Sampler
	follower    queueFollower
	announced   announcement // the last one that was written in full; only its duty uses it
	lanes       lanes
	registers   *link.Link // for definitions of periodic jobs, and for limits
	bornAt      time.Time
	rtt         atomic.Int64
	heartPace   link.Pace    // of registrations and heartbeats, which share a connection
	beatAt      atomic.Int64 // when, after startedAt, Redis last answered a heartbeat
	announcedAt atomic.Int64 // when, after startedAt, the process was last announced
	lapsedAt    atomic.Int64 // when, after startedAt, Redis was first seen to count the process as lapsed; 0 if it does not
	extra       atomic.Pointer[extra]
	contact     contact
	presence    presence

	statistics statistics
}

func newShard(l *Launcher, of Shard) *shard {
	keys := lua.NewKeys(of.Prefix).WithDeadLimits(lua.DeadLimits{Limit: l.cfg.DeadLimit, For: l.cfg.DeadFor})
	log := of.Log(l.cfg.Log)
	return &shard{
		Shard: of, launcher: l, cfg: &l.cfg, keys: keys, clock: &lua.Clock{},
		log: log, report: link.NewReporter(log), outranked: make(map[string]bool),
		changed: newTrigger(), marked: newTrigger(), pollNow: newTrigger(), sweepNow: newTrigger(),
		watchNow: newTrigger(), beatNow: newTrigger(), absent: newTrigger(), presence: presence{may: newTrigger()},
		rulesAt: -1,
	}
}

// join registers the process in the shard and begins its duties, which end with vitals. It sends the result to
// answers. If Redis refuses the process but another shard does not, it tries again once the process has
// started.
func (s *shard) join(ctx, vitals context.Context, answers chan<- answer, started <-chan struct{}) {
	l := s.launcher
	s.learnMarks(ctx)
	session, err := s.register(ctx)
	if session != nil {
		s.begin(ctx, vitals, session)
	}
	answers <- answer{session != nil, err}
	if err == nil {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-started:
	}
	for err != nil {
		s.report.Fail("register", err)
		select {
		case <-ctx.Done():
		case <-l.halt:
		case <-time.After(link.Jitter(refusedRest)):
		}
		s.learnMarks(ctx) // they may have been denied before, and there may be newer ones
		session, err = s.register(ctx)
	}
	if session != nil {
		s.begin(ctx, vitals, session)
	}
}

// An answer is the result of the first attempt to join a shard: a process that was stopped before has neither
// joined it nor an error.
type answer struct {
	joined bool
	err    error
}

// begin makes the process take jobs under its first session.
func (s *shard) begin(ctx, vitals context.Context, session *fetch.Session) {
	l := s.launcher
	if s.cfg.Check != nil {
		l.background.Go(func() { s.cfg.Check(ctx, s.Shard) })
	}
	s.bornAt = s.clock.Now()
	s.space.Enter(session)
	for _, d := range s.duties() {
		l.background.Go(func() { s.repeat(vitals, d) })
	}
	l.background.Go(func() { s.holdPresence(vitals) })
	s.log.Info("working", "identity", session.Identity, "queues", l.Queues(), "concurrency", l.Concurrency())
}

// identity returns the identity of the session; "" before the first.
func (s *shard) identity() string {
	if session := s.session.Load(); session != nil {
		return session.Identity
	}
	return ""
}
