package fetch

import (
	"time"

	"github.com/belayq/belay/job"
)

const (
	// stepAside is how long a job waits in the schedule if no other process seems to take it.
	stepAside = time.Second
	// soonAgain: a job that comes back within this time after its first refusal was not taken by any other
	// process. It is longer than the queue is backed off after that refusal.
	soonAgain = 10 * time.Second
)

// startReady moves the ready runs that may start to running and appends them to runs. Without a lease a run is
// not started: its job stays in its working list. Reconcile finds it there when the session is alive again,
// or the process that declares this one dead recovers it.
func (k *Keyspace) startReady(runs []*Run) []*Run {
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
	k.cfg.Log.Info("requeued: earlier run still active in this process", "jid", r.JID(), "queue", r.Queue)
	k.refuse(r)
}

// refuse requeues a job that must not run here now, and leaves its queue to other processes for a while:
// without that pause this process would take and refuse the job in a tight loop.
func (k *Keyspace) refuse(r *Run) {
	k.putBack(r, job.Requeued())
	if r.quarantined {
		k.queues[r.Queue].quarantined = false // until the next reading
		return
	}
	k.queues[r.Queue].backOff(time.Now())
	k.queues[r.Queue].release()
}
