package launcher

import (
	"errors"
	"time"

	"github.com/belayq/belay/driver"
)

// lanes are the connections of a process beside those of its loop. Only the heartbeat's is always open. The
// others are opened when they are needed, so that a process that is idle has few connections.
type lanes struct {
	// heart is the heartbeat's own, because nothing may delay a heartbeat.
	heart driver.Client
	// chores is for the small calls of all other duties.
	chores *driver.OnDemand
	// freight is for pages of jobs, and poll for those of the poller: the jobs of a dead process must not delay
	// jobs that are due.
	freight, poll *driver.OnDemand
}

// openLanes returns lanes of client. It dials nothing.
func openLanes(client driver.Client) (lanes, error) {
	heart, err := client.Lane(1)
	onDemand := func() *driver.OnDemand { return driver.NewOnDemand(client, driver.IdleFor) }
	return lanes{heart: heart, chores: onDemand(), freight: onDemand(), poll: onDemand()}, err
}

func (l *lanes) onDemand() []*driver.OnDemand { return []*driver.OnDemand{l.chores, l.freight, l.poll} }

func (l *lanes) close() error {
	errs := []error{l.heart.Close()}
	for _, lane := range l.onDemand() {
		errs = append(errs, lane.Close())
	}
	return errors.Join(errs...)
}

// tooManyClients makes room for a call of the caller, which Redis has refused a connection. First the presence
// of the session and the idle waits close theirs, because the TTL and takes can replace them; then, for a
// heartbeat or the loop, the duties do. Nothing replaces a heartbeat or a settle.
func (s *shard) tooManyClients(vital bool) {
	s.presence.Stop(presenceRest)
	s.space.YieldWaits()
	if !vital {
		return
	}
	for _, lane := range s.lanes.onDemand() {
		lane.Rest(s.launcher.vitalsDeadline() + time.Second/2) // longer than until the next attempt, which may be refused too
	}
}
