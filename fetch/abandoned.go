package fetch

import (
	"time"

	"github.com/belayq/belay/job"
)

// An abandonment is what is known of an abandoned run: one that goes on after the end of its session. Its
// job was recovered from us, and comes back, as it was or as a retry, by any way that jobs come. No job
// runs beside its own abandoned run.
type abandonment struct {
	jid        string
	requeuedAt time.Time // when the job was last requeued because of it
}

const (
	// stepAside is how long a job waits in the schedule that no other process seems to take.
	stepAside = time.Second
	// soonAgain is within what time a second refusal says so. It is longer than the queue is backed off
	// after the first, and a job that comes back that soon was not offered to any other process.
	soonAgain = 10 * time.Second
)

// abandon marks the runs whose session has ended.
func (k *keyspace) abandon() {
	for r := range k.ledger.in(running) {
		if r.Session.Over() {
			r.abandonment = &abandonment{jid: r.JID()}
			k.ledger.move(r, abandoned)
		}
	}
}

// abandonedRunOf returns what is known of the job's own abandoned run; nil for nearly all. While there are
// none it costs nothing.
func (k *keyspace) abandonedRunOf(r *Run) *abandonment {
	if k.ledger.count(abandoned) == 0 {
		return nil
	}
	jid := r.JID()
	for other := range k.ledger.in(abandoned) {
		if other.abandonment.jid == jid {
			return other.abandonment
		}
	}
	return nil
}

// startReady appends to runs those that may start, and makes them running. A run without a lease is not
// started: its job stays in its list, and is found there when the session is alive again, or by the process
// that declares us dead.
func (k *keyspace) startReady(runs []*Run) []*Run {
	for r := range k.ledger.in(ready) {
		if !k.leased(r.Session) {
			c := &k.reconcile
			c.quarantineUnsure = c.quarantineUnsure || (r.quarantined && r.Session == k.session)
			k.doubt(r.owner, nil)
			k.ledger.move(r, gone)
		} else if earlier := k.abandonedRunOf(r); earlier != nil {
			k.refuseBeside(r, earlier, time.Now())
		} else {
			k.ledger.move(r, running)
			runs = append(runs, r)
		}
	}
	return runs
}

// refuseBeside requeues a job that must not run beside its abandoned run. The first time it goes to the
// head of its queue, where the others of a fleet take it at once. If it comes to us again, there are none:
// at the head it would be all that we ever take, and what is behind it would wait for the abandoned run
// too. So it steps aside.
func (k *keyspace) refuseBeside(r *Run, earlier *abandonment, now time.Time) {
	recently := now.Sub(earlier.requeuedAt) < soonAgain
	earlier.requeuedAt = now
	if recently {
		k.ledger.finish(r, job.Snoozed(r.Bytes, stepAside))
		return
	}
	k.cfg.Log.Info().Str("jid", r.JID()).Str("queue", r.Queue).
		Msg("requeued: an earlier run of the job, which was recovered from us, still goes on here")
	k.refuse(r)
}

// refuse requeues a job that must not run here now, and leaves its queue to other processes for a while:
// without one, taking and refusing it would be a spin.
func (k *keyspace) refuse(r *Run) {
	k.requeue(r)
	if r.quarantined {
		k.queues[r.Queue].quarantined = false // until the next reading
		return
	}
	k.queues[r.Queue].backOff(time.Now())
	k.queues[r.Queue].release()
}
