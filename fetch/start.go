package fetch

import (
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

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
	k.log.Info("duplicate take ignored: job already running", "jid", twin.JID(), "queue", queue)
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
		k.log.Info("duplicate take ignored: job running under an earlier identity",
			"jid", earlier.JID(), "queue", r.Queue, "formerly", earlier.Session.Identity)
		return earlier
	}
	k.admit(r, wanted)
	return r
}

// admit puts a new run into the ledger: for a processor, or to be requeued.
func (k *Keyspace) admit(r *Run, wanted bool) {
	switch {
	case wanted && !k.loop.quiet:
		k.prepare(r)
	case r.reclaimed:
		k.learnBelongings(r)
		k.putBack(r, job.Requeued())
	default:
		k.finish(r, job.Requeued())
	}
}

// prepare makes a job ready for a processor or, if Redis must record its start first, for that call.
func (k *Keyspace) prepare(r *Run) {
	k.learnBelongings(r)
	if r.gate == nil && !r.lock.startsLock() {
		k.ledger.move(r, ready)
		return
	}
	k.ledger.move(r, awaitingStart)
}

// learnBelongings finds out which lock and gate a job has.
func (k *Keyspace) learnBelongings(r *Run) {
	gateOf := k.gate.Load()
	if gateOf != nil || r.mayOwn && dedup.Has(r.Bytes) {
		// An unreadable job is moved to the dead set without a run. If it has a lock, the lock expires.
		if parsed, err := r.Job(); err == nil {
			r.lock = k.lockOf(parsed)
			if gateOf != nil {
				r.gate, r.first = (*gateOf)(parsed), parsed.InterruptedCount() > 0
			}
		}
	}
}

// arriveQuarantined puts the run of a quarantined job into the ledger.
func (k *Keyspace) arriveQuarantined(r *Run, wanted bool) *Run {
	r.quarantined, r.Session.quarantined = true, r
	r.Session.quarantineQueue.Store(&r.Queue)
	k.admit(r, wanted)
	return r
}

// newRun makes a run of a job that s has taken. It is in the ledger once it has a state.
func newRun(k *Keyspace, s *Session, queue, bytes string) *Run {
	s.seq++
	return &Run{
		Bytes: bytes, Queue: queue, Session: s, space: k, owner: s, intake: k.intakeOf(queue), seq: s.seq, sum: sumOf(bytes),
		mayOwn: job.MayOwn(bytes),
	}
}

// runsUnder returns the run of r's job that continues under an earlier session that Redis has lost, or nil. (A
// run of a session that was declared dead is cancelled, and its result is discarded.)
func (k *Keyspace) runsUnder(r *Run) *Run {
	for _, session := range k.former {
		earlier := k.ledger.find(session, r)
		if earlier != nil && session.Context.Err() == nil && (earlier.state == running || earlier.state == abandoned || earlier.state == finished || earlier.state == unsent) {
			return earlier
		}
	}
	return nil
}

const (
	// stepAside is how long a job waits in the schedule if no other process seems to take it.
	stepAside = time.Second
	// soonAgain: a job that comes back within this time after its first refusal was not taken by any other
	// process. It is longer than the queue is backed off after that refusal.
	soonAgain = 10 * time.Second
)

// startReady moves the ready runs that may start to running and appends them to runs. Without a lease a run
// waits for the next confirmed heartbeat. When its session has ended it leaves the ledger: its job stays in its
// working list, and the process that declared this one dead recovers it.
func (k *Keyspace) startReady(runs []*Run) []*Run {
	for r := range k.ledger.in(ready) {
		if !k.leased(r.Session) {
			if r.Session.Over() {
				k.drop(r)
			}
		} else if earlier := k.abandonedRunOf(r); earlier != nil {
			k.refuseBeside(r, earlier, time.Now())
		} else {
			if r.quarantined {
				k.log.Info("quarantined job started; other takes suspended", "jid", r.JID(), "queue", r.Queue)
			}
			k.ledger.move(r, running)
			runs = append(runs, r)
		}
	}
	return runs
}

// leaseMargin is by how much the lease of a watched session ends before its absence can declare it dead: for
// small steps of a clock that a watcher does not notice, and for the time from a lease's check to the start.
const leaseMargin = 300 * time.Millisecond

// Leased reports whether a job may be started now: the last confirmed heartbeat is so recent that no process
// can have declared this session dead. A session that is not watched has a margin of one heartbeat.
func (s *Session) Leased() bool {
	age := lua.SinceBoot() - time.Duration(s.confirmedAt.Load())
	limit := s.record.TTL - s.record.Beat
	if s.watched.Load() {
		limit = min(limit, s.record.Beat+lua.AbsentAfter-leaseMargin)
	}
	return !s.over.Load() && age < limit
}

// lease caches the result of Session.Leased for the runs that one event or turn has made ready: reading the
// clock that counts suspends is a system call, and the jobs of a batch start within microseconds.
type lease struct {
	session *Session
	holds   bool
}

// leased returns whether the session's runs may start.
func (k *Keyspace) leased(session *Session) bool {
	if k.lease.session != session {
		k.lease.session, k.lease.holds = session, session.Leased()
	}
	return k.lease.holds
}

// drop removes a run from the ledger whose job stays in our list.
func (k *Keyspace) drop(r *Run) {
	c := &k.reconcile
	c.quarantineUnsure = c.quarantineUnsure || (r.quarantined && r.Session == k.session)
	k.doubt(r.owner, nil)
	k.ledger.move(r, gone)
}

// refuseBeside requeues a job that must not run beside its abandoned run. The first time it goes to the head
// of its queue, where other processes take it at once. If it comes back soon, there are no other processes: at
// the head it would keep the jobs behind it waiting for the abandoned run too, so it goes to the schedule for
// a moment.
func (k *Keyspace) refuseBeside(r *Run, earlier *abandonment, now time.Time) {
	recently := now.Sub(earlier.requeuedAt) < soonAgain
	earlier.requeuedAt = now
	if recently {
		k.putBack(r, job.Snoozed(r.Bytes, stepAside))
		return
	}
	k.log.Info("requeued: earlier run still active in this process", "jid", r.JID(), "queue", r.Queue)
	k.refuse(r)
}

// An abandonment belongs to an abandoned run: one that continues after its session has ended. Another process
// has recovered its job, so the job may come back to this process, unchanged or as a retry. A job never runs
// beside its own abandoned run.
type abandonment struct {
	jid        string
	requeuedAt time.Time // when the job was last requeued because of it
}

// abandon marks the runs whose session has ended.
func (k *Keyspace) abandon() {
	for r := range k.ledger.in(running) {
		if r.Session.Over() {
			r.abandonment = &abandonment{jid: r.JID()}
			k.ledger.move(r, abandoned)
		}
	}
}

// abandonedRunOf returns the abandonment of an earlier run of the same job; nil for nearly all jobs. It costs
// nothing while there are no abandoned runs.
func (k *Keyspace) abandonedRunOf(r *Run) *abandonment {
	if k.ledger.count(abandoned) == 0 {
		return nil
	}
	jid := r.JID()
	for earlier := range k.ledger.in(abandoned) {
		if earlier.abandonment.jid == jid {
			return earlier.abandonment
		}
	}
	return nil
}
