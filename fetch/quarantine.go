package fetch

import (
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// The quarantine is the state of this process for quarantined jobs: jobs that were running in so many crashes
// that they run alone now. If another job ran beside one and crashed the process, the quarantined one would be
// moved to the dead set for it. A process takes a quarantined job while its ledger is empty, and takes nothing
// beside it. A process that always has more jobs to run is never empty, so it asks to drain.
type quarantine struct {
	loop *Loop

	draining   *queueState // the queue for whose quarantined jobs nothing is taken, if any
	drainUntil time.Time   // when the drain is given up
	restUntil  time.Time   // until when the process does not ask to drain again after it gave up
	wish       *queueState // the queue to ask for in the next pipeline
	undrain    *queueState // the queue whose drain ends in the next pipeline
	asking     bool        // a take of a quarantined job is in flight
	asideSince time.Time   // since when takes are suspended for a quarantined job; zero if they are not
	othersTill time.Time   // until when ordinary jobs come first, after a quarantined one, if there are any
}

const (
	// ordinaryFactor times the duration for which takes were suspended for a quarantined job is how long the
	// process then takes ordinary jobs, if there are any. Otherwise the quarantined jobs that a bad hour
	// leaves behind would stop a whole fleet until each of them has run.
	ordinaryFactor = 3
	// restFactor times the duration of a drain in vain is how long the process takes jobs again before the
	// next drain.
	restFactor = 10
)

// forget clears the state of an earlier session.
func (q *quarantine) forget(k *Keyspace) {
	k.noQuarantined()
	*q = quarantine{loop: q.loop}
}

// ledgerEmpty reports whether the process has no run, and only idle waits in flight.
func (q *quarantine) ledgerEmpty() bool {
	for _, k := range q.loop.spaces {
		if k.session == nil || k.session.held > 0 || k.inFlight > 0 || len(k.reconcile.orphaned) > 0 {
			return false
		}
	}
	return q.loop.count(running, abandoned, returned) == 0
}

// hasProcess reports whether the process has no run, and no call in flight that could bring one.
func (q *quarantine) hasProcess() bool {
	for _, k := range q.loop.spaces {
		if k.session.held > 0 || k.operations > 0 {
			return false
		}
	}
	return q.loop.count(running, abandoned, returned) == 0
}

// aside reports whether takes are suspended for a quarantined job: one runs, or the process is about to ask for
// one, or drains for one.
func (q *quarantine) aside() bool {
	if q.loop.quiet {
		return false
	}
	if q.draining != nil || q.asking {
		return true
	}
	for _, k := range q.loop.spaces {
		if k.session == nil {
			continue
		}
		if k.session.quarantined != nil || k.reconcile.quarantineUnsure || k.reconcile.foundQuarantined() ||
			(q.serves(k) && !k.fenced && k.session.Leased() && q.ledgerEmpty()) {
			return true
		}
	}
	return false
}

// mayTake reports whether a quarantined job can be asked for now. An idle wait might bring another job
// beside it.
func (q *quarantine) mayTake(k *Keyspace) bool {
	return !q.loop.quiet && q.serves(k) && !k.reconcile.quarantineUnsure && !k.reconcile.unsure && !k.fenced &&
		q.ledgerEmpty() && q.hasProcess() && k.session.Leased()
}

// serves reports whether there are quarantined jobs, and ordinary jobs have had their share since the last
// quarantined one.
func (q *quarantine) serves(k *Keyspace) bool {
	return k.firstQuarantined() != nil && !time.Now().Before(q.othersTill)
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

// noQuarantined records that no queue has quarantined jobs, or none that may be taken, until the next
// reading.
func (k *Keyspace) noQuarantined() {
	for _, queue := range k.queues {
		queue.quarantined = false
	}
	k.readQueuesAgain()
}

// noOthers records that no ordinary jobs wait that would come before a quarantined one.
func (q *quarantine) noOthers(k *Keyspace) {
	for _, in := range k.intakes {
		if !in.empty {
			return
		}
	}
	q.othersTill = time.Time{}
}

// advance gives up a drain that was in vain, and records since when takes are suspended for a quarantined job.
func (q *quarantine) advance(k *Keyspace, now time.Time) {
	if q.draining != nil && !now.Before(q.drainUntil) {
		// The running jobs may take hours.
		if k.session.quarantined == nil {
			q.restUntil = now.Add(restFactor * k.cfg.DrainFor)
		}
		q.endDrain()
	}
	if k.reconcile.quarantinesRead {
		k.reconcile.quarantinesRead = false
		q.consider(k)
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

// ended gives ordinary jobs their share after a quarantined one.
func (q *quarantine) ended(k *Keyspace, now time.Time) {
	if !q.asideSince.IsZero() {
		q.othersTill = now.Add(ordinaryFactor * now.Sub(q.asideSince))
	}
	q.endDrain()
	k.readQueuesAgain()
}

// consider decides whether to drain, after a reading of which queues have quarantined jobs.
func (q *quarantine) consider(k *Keyspace) {
	first := k.firstQuarantined()
	switch {
	case q.draining != nil && !q.draining.quarantined:
		q.endDrain()
	case first != nil && q.serves(k) && !q.aside() && !time.Now().Before(q.restUntil):
		q.wish = first
	}
}

func (q *quarantine) endDrain() {
	if q.draining == nil {
		return
	}
	q.draining.intake.space.readQueuesAgain()
	q.undrain, q.draining = q.draining, nil
}

// addDrain adds the calls about draining to a pipeline.
func (k *Keyspace) addDrain(p *pipeline) {
	q := &k.loop.quarantine
	if queue := q.wish; queue != nil && queue.intake.space == k {
		q.wish = nil
		if !k.loop.quiet {
			ask := k.Keys.Drain(queue.name, k.session.Identity, k.cfg.DrainFor, k.session.record.TTL)
			p.add(ask.Call, func(reply driver.Reply) { k.handleDrain(queue, ask, reply) })
		}
	}
	if queue := q.undrain; queue != nil && queue.intake.space == k {
		q.undrain = nil
		p.add(k.Keys.Undrain(queue.name, k.session.Identity), func(driver.Reply) {}) // an error is ignored: the drain expires
	}
}

func (k *Keyspace) handleDrain(queue *queueState, ask lua.Ask[bool], reply driver.Reply) {
	q := &k.loop.quarantine
	held, err := ask.Read(reply)
	switch {
	case driver.Outage(err):
		k.fail(err)
	case err != nil:
		k.cfg.Reporter.Refuse("drain", err)
		q.restUntil = time.Now().Add(restFactor * k.cfg.DrainFor)
	case held:
		q.draining, q.drainUntil = queue, time.Now().Add(k.cfg.DrainFor)
	}
}

// addTakeQuarantined asks for a quarantined job.
func (k *Keyspace) addTakeQuarantined(p *pipeline) {
	session, queues := k.session, k.names()
	ask := k.Keys.TakeQuarantined(session.Identity, queues)
	k.loop.quarantine.asking = true
	p.reserve(k.intakes[0].share, 1) // any share would do: there is no other run
	p.add(ask.Call, func(reply driver.Reply) { k.handleQuarantined(session, queues, ask, reply) })
}

func (k *Keyspace) handleQuarantined(session *Session, queues []string, ask lua.Ask[lua.TakenQuarantined], reply driver.Reply) {
	k.loop.quarantine.asking = false
	taken, err := ask.Read(reply)
	if err != nil {
		k.reconcile.quarantineUnsure = session == k.session
		k.doubt(session, err)
		if driver.Outage(err) {
			k.fail(err)
			return
		}
		k.cfg.Reporter.Refuse("take a quarantined job", err)
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
		k.arriveQuarantined(session, queues[taken.Queue], taken.Bytes, session == k.session)
	case lua.QuarantineFenced:
		k.fenced = k.fenced || session == k.session
	case lua.QuarantineEmpty, lua.QuarantineBusy:
		// Busy: our lists hold a job that is not in the ledger yet. Reconciling will find it.
		k.noQuarantined()
	}
}
