package fetch

import "github.com/belayq/belay/job"

// bring adds a job that a take or a wait has returned to the ledger, unless a job with the same bytes runs
// already. That happens after a failover that lost the first take: the job was taken again, there is one entry,
// and it ends with the run that continues. If a producer has pushed the same bytes twice, there are two
// entries, and reconciling finds the one that is not in the ledger. A job that arrives for a session that has
// ended is requeued: the session was declared dead and its runs can settle nothing, or the next session takes
// the job again, see runsUnder.
func (k *Keyspace) bring(session *Session, queue, bytes string, wanted bool) {
	r := newRun(k, session, queue, bytes)
	twin := k.ledger.find(session, r)
	if twin == nil || twin.returns() || session != k.session || session.Over() {
		k.arrive(r, wanted)
		return
	}
	k.doubt(session, nil)
	k.cfg.Log.Info("duplicate take ignored: job already running", "jid", twin.JID(), "queue", queue)
}

// returns reports whether the job is on its way back to the head of its queue, from where it may arrive once
// more before the reply to the settle is read.
func (r *Run) returns() bool {
	return r.outcome.Exit() == job.ExitRequeued && (r.state == settling || r.state == unacked)
}

// arrive puts the run of a job that was taken into the ledger: for a processor, or to be requeued if it is not
// wanted or the loop is quiet. It returns the job's run, which is an earlier one if that still continues.
func (k *Keyspace) arrive(r *Run, wanted bool) *Run {
	if earlier := k.runsUnder(r); earlier != nil && wanted && !k.loop.quiet {
		r.Session.transfer(earlier)
		k.cfg.Log.Info("duplicate take ignored: job running under an earlier identity",
			"jid", earlier.JID(), "queue", r.Queue, "formerly", earlier.Session.Identity)
		return earlier
	}
	k.admit(r, wanted)
	return r
}

// admit puts a new run into the ledger: for a processor, or to be requeued.
func (k *Keyspace) admit(r *Run, wanted bool) {
	if wanted && !k.loop.quiet {
		k.prepare(r)
	} else {
		k.ledger.finish(r, job.Requeued())
	}
}

// arriveQuarantined makes a run of a quarantined job.
func (k *Keyspace) arriveQuarantined(session *Session, queue, bytes string, wanted bool) *Run {
	r := newRun(k, session, queue, bytes)
	r.quarantined, session.quarantined = true, r
	session.aloneQueue.Store(&queue)
	if wanted && !k.loop.quiet {
		k.cfg.Log.Info("quarantined job started; other takes suspended", "jid", r.JID(), "queue", queue)
	}
	k.admit(r, wanted)
	return r
}

// newRun makes a run of a job that s has taken. It is in the ledger once it has a state.
func newRun(k *Keyspace, s *Session, queue, bytes string) *Run {
	s.seq++
	return &Run{Bytes: bytes, Queue: queue, Session: s, space: k, owner: s, capsule: k.capsuleOf(queue), seq: s.seq, sum: sumOf(bytes)}
}

// runsUnder returns the run of r's job that continues under an earlier session that Redis has lost, or nil. (A
// run of a session that was declared dead is cancelled, and its result is discarded.)
func (k *Keyspace) runsUnder(r *Run) *Run {
	for _, session := range k.former {
		earlier := k.ledger.find(session, r)
		if earlier != nil && session.Context.Err() == nil && (earlier.state == running || earlier.state == abandoned || earlier.state == finished) {
			return earlier
		}
	}
	return nil
}
