package launcher

import (
	"slices"
	"time"

	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// pollerLeft makes this process ask for the lease of the poller, unless it must not poll yet.
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
	leases := []lease{
		{scheduler.Lease(l.keys), l.pollerLeft},
		{l.janitor.SweepLease(), l.sweepNow.pull},
	}
	for _, watched := range l.janitor.WatchLeases(l.Identity()) {
		leases = append(leases, lease{watched, l.watchNow.pull})
	}
	return leases
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
