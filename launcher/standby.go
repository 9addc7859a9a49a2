package launcher

import (
	"slices"
	"time"

	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// pollerLeft makes this process ask for the lease of the poller, unless it must not poll yet.
func (s *shard) pollerLeft() {
	if time.Since(s.launcher.startedAt) >= s.cfg.PollWait {
		s.pollNow.pull()
	}
}

// A lease is what a process of the fleet needs for a duty that one of them has. A process that finds it held
// stands by: it asks again when a heartbeat finds the lease free.
type lease struct {
	lua.Watched
	free func() // it must not block
}

// leases returns the leases that this process stands by for.
func (s *shard) leases() leases {
	list := leases{
		{scheduler.Lease(s.keys), s.pollerLeft},
		{s.janitor.SweepLease(), s.sweepNow.pull},
	}
	for _, watched := range s.janitor.WatchLeases(s.identity()) {
		list = append(list, lease{watched, s.watchNow.pull})
	}
	return list
}

// leases are what one heartbeat checks.
type leases []lease

// watched returns the keys whose existence the heartbeat checks.
func (list leases) watched() (watched []lua.Watched) {
	for _, lease := range list {
		watched = append(watched, lease.Watched)
	}
	return watched
}

// wake makes the duties of these leases ask for them.
func (list leases) wake(free []string) {
	for _, lease := range list {
		if slices.Contains(free, lease.Key) {
			lease.free()
		}
	}
}
