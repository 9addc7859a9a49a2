package fetch

import (
	"slices"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// The quarantine is the state of this process for quarantined jobs. Such a job was running in so many crashes
// that it now runs alone: if a job beside it crashed the process, the quarantined one would go to the dead set
// for that. So a process takes a quarantined job only while its ledger is empty, and nothing beside it. The
// ledger of a busy process is never empty, so such a process drains: for a while it takes no jobs.
type quarantine struct {
	loop *Loop

	draining      *queueState // the queue for whose quarantined jobs the process drains, if it does
	drainUntil    time.Time   // when the drain is given up
	restUntil     time.Time   // until when the process does not drain again, after a drain in vain
	toDrain       *queueState // the queue for which the next pipeline asks to drain
	toUndrain     *queueState // the queue whose drain the next pipeline ends
	asking        *Keyspace   // where a take of a quarantined job is in flight
	asideSince    time.Time   // since when takes are suspended for a quarantined job; zero if they are not
	ordinaryUntil time.Time   // until when ordinary jobs come first, after a quarantined one, if there are any
}

const (
	// After a quarantined job the process takes ordinary jobs, if there are any, for ordinaryFactor times as
	// long as takes were suspended. Otherwise many quarantined jobs would stop a whole fleet until all of
	// them have run.
	ordinaryFactor = 3
	// After a drain in vain the process takes jobs for restFactor times as long before it drains again.
	restFactor = 10
)

// forget clears the state of an earlier session in a keyspace.
func (q *quarantine) forget(k *Keyspace) {
	k.noQuarantined()
	if of := q.draining; of != nil && of.intake.space == k {
		q.draining = nil
	}
	if of := q.toDrain; of != nil && of.intake.space == k {
		q.toDrain = nil
	}
	if of := q.toUndrain; of != nil && of.intake.space == k {
		q.toUndrain = nil
	}
	if q.asking == k {
		q.asking = nil
	}
}

// holdsNothing reports whether the process has no run from the keyspace. If its Redis is away, a run whose
// handler has returned does not count, or an outage would keep quarantined jobs of other keyspaces waiting.
func (k *Keyspace) holdsNothing() bool {
	switch {
	case k.ledger.count(running, abandoned, returned) > 0: // also those of earlier sessions
		return false
	case k.outage.away:
		return k.ledger.count(awaitingStart, starting, ready) == 0
	default:
		return k.session == nil || k.session.held == 0
	}
}

// isEmpty reports whether the process has no run from the keyspace, and only idle waits in flight.
func (k *Keyspace) isEmpty() bool {
	switch {
	case !k.holdsNothing():
		return false
	case k.outage.away: // orphaned entries are reclaimed when it answers, and a probe brings no job
		return k.operations == k.openWaits()
	default:
		return k.inFlight == 0 && len(k.reconcile.orphaned) == 0
	}
}

// ledgerEmpty reports whether all keyspaces are empty.
func (q *quarantine) ledgerEmpty() bool {
	for _, k := range q.loop.spaces {
		if !k.isEmpty() {
			return false
		}
	}
	return true
}

// nothingElse reports whether the process has no run, and no call in flight that could bring one.
func (q *quarantine) nothingElse() bool {
	for _, k := range q.loop.spaces {
		if !k.holdsNothing() || k.operations > 0 {
			return false
		}
	}
	return true
}

// busy reports whether the process has a quarantined job from any keyspace, or takes one. One whose settle has
// no reply counts as long as it has none: if another job crashed the process meanwhile, this one would go to
// the dead set for that.
func (q *quarantine) busy() bool {
	return q.asking != nil || slices.ContainsFunc(q.loop.spaces, func(k *Keyspace) bool {
		return k.session != nil && k.session.quarantined != nil
	})
}

// aside reports whether takes are suspended for a quarantined job: one runs, or the process drains for one or
// is about to take one.
func (q *quarantine) aside() bool {
	if q.loop.quiet {
		return false
	}
	return q.draining != nil || q.busy() || slices.ContainsFunc(q.loop.spaces, func(k *Keyspace) bool {
		return k.reconcile.quarantineUnsure || k.reconcile.foundQuarantined() ||
			(q.serves(k) && !k.fenced && !k.outage.away && k.session.Leased() && q.ledgerEmpty())
	})
}

// mayTake reports whether a quarantined job can be taken now: not while an idle wait may bring another job.
func (q *quarantine) mayTake(k *Keyspace) bool {
	return !q.loop.quiet && q.serves(k) && !k.reconcile.quarantineUnsure && !k.reconcile.unsure && !k.fenced &&
		q.ledgerEmpty() && q.nothingElse() && k.session.Leased()
}

// serves reports whether there are quarantined jobs, and enough time for ordinary jobs has passed since the
// last one.
func (q *quarantine) serves(k *Keyspace) bool {
	return k.firstQuarantined() != nil && !time.Now().Before(q.ordinaryUntil)
}

// firstQuarantined returns the first queue that has quarantined jobs, or nil.
func (k *Keyspace) firstQuarantined() *queueState {
	for _, in := range k.intakes {
		for _, queue := range in.queues {
			if queue.quarantined {
				return queue
			}
		}
	}
	return nil
}

// noQuarantined records, until the next reading, that no queue has quarantined jobs that may be taken.
func (k *Keyspace) noQuarantined() {
	for _, queue := range k.queues {
		queue.quarantined = false
	}
	k.readQueuesAgain()
}

// noOrdinary ends the time in which ordinary jobs come first, if none wait.
func (q *quarantine) noOrdinary() {
	for _, k := range q.loop.spaces {
		if k.session == nil || k.outage.away {
			continue
		}
		for _, in := range k.intakes {
			if !in.empty {
				return
			}
		}
	}
	q.ordinaryUntil = time.Time{}
}

// advance gives up a drain in vain, and records since when takes are suspended for a quarantined job.
func (q *quarantine) advance(k *Keyspace, now time.Time) {
	switch of := q.draining; {
	case of == nil:
	case of.intake.space.outage.away:
		q.endDrain() // other keyspaces have jobs
	case !now.Before(q.drainUntil):
		// A job that still runs may take hours.
		if !q.busy() {
			q.restUntil = now.Add(restFactor * k.cfg.DrainFor)
		}
		q.endDrain()
	}
	if k.reconcile.quarantinesRead {
		k.reconcile.quarantinesRead = false
		q.decideDrain(k)
	}
	switch {
	case !q.aside():
		q.asideSince = time.Time{}
	case q.asideSince.IsZero():
		q.asideSince = now
	}
}

// wake returns when a drain is given up; zero for none.
func (q *quarantine) wake() time.Time {
	if q.draining == nil {
		return time.Time{}
	}
	return q.drainUntil
}

// ended begins the time in which ordinary jobs come first, after a quarantined one.
func (q *quarantine) ended(k *Keyspace, now time.Time) {
	if !q.asideSince.IsZero() {
		q.ordinaryUntil = now.Add(ordinaryFactor * now.Sub(q.asideSince))
	}
	q.endDrain()
	k.readQueuesAgain()
}

// decideDrain begins or ends a drain, after a reading of which queues have quarantined jobs.
func (q *quarantine) decideDrain(k *Keyspace) {
	first := k.firstQuarantined()
	switch {
	case q.draining != nil && !q.draining.quarantined:
		q.endDrain()
	case first != nil && q.serves(k) && !q.aside() && !time.Now().Before(q.restUntil):
		q.toDrain = first
	}
}

func (q *quarantine) endDrain() {
	if q.draining == nil {
		return
	}
	q.draining.intake.space.readQueuesAgain()
	q.toUndrain, q.draining = q.draining, nil
}

// addDrain adds the calls about draining to a pipeline.
func (k *Keyspace) addDrain(p *pipeline) {
	q := &k.loop.quarantine
	if queue := q.toDrain; queue != nil && queue.intake.space == k {
		q.toDrain = nil
		if !k.loop.quiet {
			ask := k.Keys.Drain(queue.name, k.session.Identity, k.cfg.DrainFor, k.session.record.TTL)
			p.add(ask.Call, func(reply driver.Reply) { k.handleDrain(queue, ask, reply) })
		}
	}
	if queue := q.toUndrain; queue != nil && queue.intake.space == k {
		q.toUndrain = nil
		p.add(k.Keys.Undrain(queue.name, k.session.Identity), func(driver.Reply) {}) // after an error the drain expires
	}
}

func (k *Keyspace) handleDrain(queue *queueState, ask lua.Ask[bool], reply driver.Reply) {
	q := &k.loop.quarantine
	held, err := ask.Read(reply)
	switch {
	case driver.Outage(err):
		k.fail(err)
	case err != nil:
		k.report.Refuse("drain", err)
		q.restUntil = time.Now().Add(restFactor * k.cfg.DrainFor)
	case held:
		q.draining, q.drainUntil = queue, time.Now().Add(k.cfg.DrainFor)
	}
}

// addTakeQuarantined adds a take of a quarantined job to a pipeline.
func (k *Keyspace) addTakeQuarantined(p *pipeline) {
	// A queue whose quarantined job may not start now is passed over until the next reading.
	var queues, others []string
	for _, name := range k.namesTaken() {
		if k.queues[name].quarantined {
			queues = append(queues, name)
		} else {
			others = append(others, name)
		}
	}
	session := k.session
	ask := k.Keys.TakeQuarantined(session.Identity, queues, others)
	k.loop.quarantine.asking = k
	p.reserve(k.intakes[0], 1) // any would do: there is no other run
	p.add(ask.Call, func(reply driver.Reply) { k.handleQuarantined(session, queues, ask, reply) })
}

func (k *Keyspace) handleQuarantined(session *Session, queues []string, ask lua.Ask[lua.TakenQuarantined], reply driver.Reply) {
	if k.loop.quarantine.asking == k {
		k.loop.quarantine.asking = nil
	}
	taken, err := ask.Read(reply)
	if err != nil {
		k.reconcile.quarantineUnsure = session == k.session
		k.doubt(session, err)
		if driver.Outage(err) {
			k.fail(err)
			return
		}
		k.report.Refuse("take a quarantined job", err)
		k.noQuarantined()
		return
	}
	k.succeed()
	switch taken.Word {
	case lua.QuarantineTaken:
		if len(taken.Bytes) > k.cfg.Largest {
			k.addLarge(session, ownList{queue: queues[taken.Queue], quarantined: true}, lua.LargeOf(taken.Bytes))
			return
		}
		k.arriveQuarantined(newRun(k, session, queues[taken.Queue], taken.Bytes), session == k.session)
	case lua.QuarantineFenced:
		k.fenced = k.fenced || session == k.session
	case lua.QuarantineEmpty, lua.QuarantineBusy:
		// Busy: our lists hold a job that is not in the ledger yet. Reconciling will find it.
		k.noQuarantined()
	}
}
