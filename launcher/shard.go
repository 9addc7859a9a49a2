package launcher

import (
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

// A shard is what the process has of one keyspace: its session and its connections there, the clock and the marks
// of this Redis, and the duties. A process without shards has one of them. Decisions about a job use those of the
// shard from which it was taken.
type shard struct {
	launcher *Launcher
	cfg      *Config // of the launcher
	client   driver.Client
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
	session   atomic.Pointer[fetch.Session]
	janitor   *janitor.Janitor
	poller    *scheduler.Poller
	tickLocks *scheduler.TickLocks
	sampler   *scheduler.Sampler
	follower  queueFollower
	announced announcement // the last one; only its duty uses it
	lanes     lanes
	registers *link.Link // for definitions of periodic jobs, and for limits
	bornAt    time.Time
	rtt       atomic.Int64
	heartPace link.Pace    // of registrations and heartbeats, which share a connection
	beatAt    atomic.Int64 // when, after startedAt, Redis last answered a heartbeat
	lapsedAt  atomic.Int64 // when, after startedAt, Redis was first seen to count the process as lapsed; 0 if it does not
	contact   contact
	presence  presence

	statistics statistics
}

func newShard(l *Launcher) *shard {
	keys := lua.NewKeys(l.cfg.Prefix).WithDeadLimits(lua.DeadLimits{Limit: l.cfg.DeadLimit, For: l.cfg.DeadFor})
	return &shard{
		launcher: l, cfg: &l.cfg, client: l.cfg.Client, keys: keys, clock: &lua.Clock{},
		log: l.cfg.Log, report: link.NewReporter(l.cfg.Log), outranked: make(map[string]bool),
		changed: newTrigger(), marked: newTrigger(), pollNow: newTrigger(), sweepNow: newTrigger(),
		watchNow: newTrigger(), beatNow: newTrigger(), absent: newTrigger(), presence: presence{may: newTrigger()},
		rulesAt: -1,
	}
}

// identity returns the identity of the session; "" before the first.
func (s *shard) identity() string {
	if session := s.session.Load(); session != nil {
		return session.Identity
	}
	return ""
}
