package fetch

import "time"

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
