package fetch

import (
	"time"

	"github.com/belayq/belay/job"
)

// An abandonment belongs to an abandoned run: one that goes on after its session has ended. Another process
// has recovered its job, so the job may come back to this process, unchanged or as a retry. A job never runs
// beside its own abandoned run.
type abandonment struct {
	jid        string
	requeuedAt time.Time // when the job was last requeued because of it
}

const (
	// stepAside is how long a job waits in the schedule if no other process seems to take it.
	stepAside = time.Second
	// soonAgain: a job that comes back within this time after its first refusal was not taken by any other
	// process. It is longer than the queue is backed off after that refusal.
	soonAgain = 10 * time.Second
)

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
	for other := range k.ledger.in(abandoned) {
		if other.abandonment.jid == jid {
			return other.abandonment
		}
	}
	return nil
}

// refuseBeside requeues a job that must not run beside its abandoned run. The first time it goes to the head
// of its queue, where other processes take it at once. If it comes back soon, there are no other processes: at
// the head it would keep the jobs behind it waiting for the abandoned run too, so it goes to the schedule for
// a moment.
func (k *Keyspace) refuseBeside(r *Run, earlier *abandonment, now time.Time) {
	recently := now.Sub(earlier.requeuedAt) < soonAgain
	earlier.requeuedAt = now
	if recently {
		k.ledger.finish(r, job.Snoozed(r.Bytes, stepAside))
		return
	}
	k.cfg.Log.Info().Str("jid", r.JID()).Str("queue", r.Queue).
		Msg("requeued: earlier run still active in this process")
	k.refuse(r)
}

// refuse requeues a job that must not run here now, and leaves its queue to other processes for a while:
// without that pause this process would take and refuse the job in a tight loop.
func (k *Keyspace) refuse(r *Run) {
	k.requeue(r)
	if r.quarantined {
		k.queues[r.Queue].quarantined = false // until the next reading
		return
	}
	k.queues[r.Queue].backOff(time.Now())
	k.queues[r.Queue].release()
}
