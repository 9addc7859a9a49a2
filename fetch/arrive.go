package fetch

import "github.com/belayq/belay/job"

// bring takes in what a take or a wait answered, unless just such a job runs already. After a failover that
// lost that it was taken, a job was taken again: there is one entry, and it ends with the run that goes on.
// If a producer has pushed the same bytes twice, there are two, and reconciling finds the one that we do
// not know of. What comes to a session that is over is requeued: it was declared dead, and its runs end
// nothing, or the next session takes the job again, see runsUnder.
func (k *keyspace) bring(session *Session, queue, bytes string, wanted bool) {
	twin := k.ledger.find(session, queue, bytes)
	if twin == nil || session != k.session || session.Over() {
		k.arrive(session, queue, bytes, wanted)
		return
	}
	k.doubt(session, nil)
	k.cfg.Log.Info().Str("jid", twin.JID()).Str("queue", queue).Msg("taken again while in hand: not run beside itself")
}

// arrive makes a run of a job that was taken: for a processor, or to be requeued when it is not wanted or
// we are quiet.
func (k *keyspace) arrive(session *Session, queue, bytes string, wanted bool) *Run {
	if earlier := k.runsUnder(queue, bytes); earlier != nil && wanted && !k.loop.quiet {
		session.transfer(earlier)
		k.cfg.Log.Info().Str("jid", earlier.JID()).Str("queue", queue).Str("formerly", earlier.Session.Identity).
			Msg("taken again while its run goes on: not run beside itself; the run ends it under the new identity")
		return earlier
	}
	r := newRun(k, session, queue, bytes)
	if !wanted || k.loop.quiet {
		k.ledger.finish(r, job.Requeued())
		return r
	}
	k.prepare(r)
	return r
}

// arriveQuarantined makes a run of a quarantined job.
func (k *keyspace) arriveQuarantined(session *Session, queue, bytes string, wanted bool) *Run {
	r := newRun(k, session, queue, bytes)
	r.quarantined, session.quarantined = true, r
	session.aloneQueue.Store(&queue)
	switch {
	case !wanted || k.loop.quiet:
		k.ledger.finish(r, job.Requeued())
	default:
		k.cfg.Log.Info().Str("jid", r.JID()).Str("queue", queue).
			Msg("a quarantined job runs alone: it was running in too many crashes; nothing else is taken meanwhile")
		k.prepare(r)
	}
	return r
}

// newRun makes a run of a job that s has taken. It is in the ledger once it has a state.
func newRun(k *keyspace, s *Session, queue, bytes string) *Run {
	s.seq++
	return &Run{Bytes: bytes, Queue: queue, Session: s, space: k, owner: s, capsule: k.capsuleOf(queue), seq: s.seq, sum: sumOf(bytes)}
}

// runsUnder returns the run of a job with these bytes and from this queue that goes on under an earlier
// session that Redis has lost, or nil. (A run of a session that was declared dead is cancelled, and its
// result is discarded.)
func (k *keyspace) runsUnder(queue, bytes string) *Run {
	for _, session := range k.former {
		r := k.ledger.find(session, queue, bytes)
		if r != nil && session.Context.Err() == nil && (r.state == running || r.state == abandoned || r.state == finished) {
			return r
		}
	}
	return nil
}
