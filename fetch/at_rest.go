package fetch

// Most processes of a fleet have no run most of the time, and readings that find empty lists would be half
// of what they ask of Redis. So the heartbeat of a process at rest stands for such a reading: an empty list
// is no key, and while none of the keys exists that it would read, there is nothing to see.

// mostUnlooked is how many heartbeats in a row stand for readings at most: a reading is also what finds out
// that the loop's own connection is dead before a job needs it.
const mostUnlooked = 3

// beaten makes sure, after each confirmed heartbeat, that what lies in our lists and which queues are paused
// is known: the heartbeat's reply says so, or the next turn reads it.
func (k *Keyspace) beaten(reply HeartbeatReply) {
	k.renew, k.fenced, k.yielded = true, false, false
	for _, q := range k.queues {
		if q.broken {
			q.intake.dry = false
		}
	}
	if k.isAtRest() && reply.watched && reply.There == 0 && k.unlooked < mostUnlooked {
		k.unlooked++
		return
	}
	k.reconcile.due, k.unlooked = true, 0
}

// isAtRest reports whether there is no run, and nothing known or suspected that a reading would have to
// settle.
func (k *Keyspace) isAtRest() bool {
	c, q := &k.reconcile, &k.loop.quarantine
	return !c.due && q.ledgerEmpty() && k.outage.since.IsZero() && !k.anyPaused() && !c.unsure && !c.quarantineUnsure &&
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

// Watched returns the keys whose existence the session's next heartbeat checks, which are those that a reading
// would read; none when the loop reads them itself.
func (k *Keyspace) Watched(session *Session) []string {
	if k.atRest.Load() != session {
		return nil
	}
	return append(k.listsToSee(session, k.names()), k.Keys.Paused())
}
