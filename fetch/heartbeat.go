package fetch

import "github.com/belayq/belay/lua"

// Most processes of a fleet have no run most of the time, and reading empty lists would be half of their calls
// to Redis. So the heartbeat of an idle process replaces such a reading: Redis deletes empty lists, so while
// none of the keys exists that the reading would read, there is nothing to find.

// maxSkippedReadings is the maximum number of heartbeats in a row that replace readings: three minutes' by
// default. Only a reading uses the loop's own connection while there are no jobs, and some networks drop a
// connection after four minutes without use. If that happened, the next settle would find out by its deadline.
const maxSkippedReadings = 120

// handleHeartbeat makes sure, after each confirmed heartbeat, that the loop knows the contents of its lists and
// which queues are paused: from the heartbeat's reply, or because the next turn reads them.
func (k *Keyspace) handleHeartbeat(reply HeartbeatReply) {
	k.renew, k.fenced, k.yielded = true, false, false
	for _, q := range k.queues {
		if q.broken {
			q.intake.empty = false
		}
	}
	if k.isIdle() && reply.watched && reply.There == 0 && k.skippedReadings < maxSkippedReadings {
		k.skippedReadings++
		return
	}
	k.reconcile.due, k.skippedReadings = true, 0
}

// isIdle reports whether there is no run, and nothing that a reading would have to clarify.
func (k *Keyspace) isIdle() bool {
	c, q := &k.reconcile, &k.loop.quarantine
	return !c.due && k.session != nil && k.isEmpty() && !k.outage.away && !k.anyPaused() && !c.unsure && !c.quarantineUnsure &&
		k.firstQuarantined() == nil && q.draining == nil
}

func (k *Keyspace) anyPaused() bool {
	for _, q := range k.queues {
		if q.paused {
			return true
		}
	}
	return false
}

// Idle reports whether the process has no run from the keyspace, and none of its queues is known to be paused
// or to have quarantined jobs.
func (k *Keyspace) Idle() bool { return k.idleSession.Load() != nil }

// Watched returns the keys whose existence the session's next heartbeat checks: the process' own lists and the
// set of paused queues. It returns none while the loop reads them itself.
func (k *Keyspace) Watched(session *Session) (watched []lua.Watched) {
	if k.idleSession.Load() != session {
		return nil
	}
	for _, key := range append(k.listsToSee(session, k.names()), k.Keys.Paused()) {
		watched = append(watched, lua.Watched{Key: key})
	}
	return watched
}
