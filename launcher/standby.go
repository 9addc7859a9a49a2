package launcher

import (
	"context"
	"slices"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// maxListenRest is the longest pause before another attempt to listen. Without it a process that stands by
// notices a moment later that there is no poller.
const maxListenRest = time.Minute

// minListenRest is the first pause. It is long because nothing waits for this: during an outage the
// heartbeat notices that Redis is back, and each attempt costs a connection.
const minListenRest = 5 * time.Second

// listenForPoller asks for the lease of the poller as soon as its holder gives it up, until ctx ends.
func (l *Launcher) listenForPoller(ctx context.Context) {
	backoff := link.Backoff{First: minListenRest, Max: maxListenRest}
	for ctx.Err() == nil {
		began := time.Now()
		listening, end := context.WithCancel(ctx)
		l.endListen.Store(&end)
		// It is not probed: a process that misses a message learns from its next heartbeat that there is no poller.
		err := l.cfg.Client.Listen(listening, l.keys.PollerLeft(), 0, func() {}, func(string) {
			l.pollerLeft()
		})
		end()
		if time.Since(began) > maxListenRest {
			backoff.Reset()
		}
		rest := backoff.Next()
		if driver.Denial(err) != "" {
			rest = maxListenRest // an operator forbids it, and nothing depends on it
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}

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
	return []lease{
		{scheduler.Lease(l.keys), l.pollerLeft},
		{l.janitor.SweepLease(), l.sweepNow.pull},
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
