package launcher

import (
	"slices"
	"time"

	"github.com/belayq/belay/janitor"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// pollerLeft makes this process ask for the lease of the poller, unless it must not poll yet. Nothing else is
// published to the channels of a presence.
func (l *Launcher) pollerLeft() {
	if time.Since(l.startedAt) >= l.cfg.PollWait {
		l.pollNow.pull()
	}
}

// A lease is what a process of the fleet needs for a duty that one of them has. A process that finds it held
// stands by: it asks again when a heartbeat finds the lease free.
type lease struct {
	lua.Watched
	free func() // it must not block
}

func (l *Launcher) leases() []lease {
	return []lease{
		{scheduler.Lease(l.keys), l.pollerLeft},
		{l.janitor.SweepLease(), l.sweepNow.pull},
		{janitor.WatcherLease(l.keys), l.watchNow.pull},
		{janitor.DeputyLease(l.keys), l.watchNow.pull},
	}
}

// watchedLeases returns the leases for the next heartbeat.
func (l *Launcher) watchedLeases() (watched []lua.Watched) {
	for _, lease := range l.leases() {
		watched = append(watched, lease.Watched)
	}
	return watched
}

// wake makes the duties of these leases ask for them.
func (l *Launcher) wake(free []string) {
	for _, lease := range l.leases() {
		if slices.Contains(free, lease.Key) {
			lease.free()
		}
	}
}
