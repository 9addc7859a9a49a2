package fetch

// reclaim makes runs of orphaned entries. If no processor is idle, an entry is requeued, as after an idle wait:
// so a process on a slow link leaves it to processes that have room. A quarantined job is reclaimed when there
// is no other run.
func (k *Keyspace) reclaim() {
	var rest []orphan
	for _, o := range k.reconcile.orphaned {
		r := k.reclaimOne(o)
		if r == nil {
			rest = append(rest, o)
			continue
		}
		k.cfg.Log.Info("orphaned entry reclaimed after a lost reply", "jid", r.JID(), "queue", r.Queue, "runs_here", r.state != finished)
	}
	c := &k.reconcile
	c.orphaned = rest
	if c.unsure && c.looked && len(c.readings) == 0 && len(c.orphaned) == 0 { // all that our lists hold is in the ledger
		c.unsure, c.doubts = false, 0
		k.readQueuesAgain()
	}
}

// reclaimOne makes a run of an orphaned entry, or returns nil while it may not.
func (k *Keyspace) reclaimOne(o orphan) *Run {
	switch {
	case !k.session.Leased():
		return nil
	case o.place.quarantined:
		if k.reconcile.quarantinedFrom == "" {
			return nil
		}
		return k.arriveQuarantined(k.session, k.reconcile.quarantinedFrom, o.bytes, k.loop.quarantine.hasProcess())
	case !k.loop.quiet && (k.session.quarantined != nil || k.loop.quarantine.asking):
		return nil
	}
	r := newRun(k, k.session, o.place.queue, o.bytes)
	return k.arrive(r, r.capsule.idle() > 0)
}
