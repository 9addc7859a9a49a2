package fetch

import (
	"slices"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A unique job carries its lock in its payload (package dedup). What must be done about it goes the way of
// the job: its start is said to Redis before it runs, where that means something to the lock; the lock is
// renewed at every beat while the job is in hand; and the settle that ends the job ends the lock. Jobs
// without one pay a search in their bytes.

// A heldLock is the lock of a running job.
type heldLock struct {
	dedup.Lock
	class   string
	said    bool // the start was sent to Redis
	started bool // and Redis has answered
	back    bool // Redis must record that it does not begin after all
	// waits is set if the job needs the WAL positions that its start returns.
	waits bool
	// left are the positions that refused duplicates left, as the reply to its start said.
	left dedup.WAL
}

// kept reports whether Redis keeps the positions that were left with the lock after the start has freed it.
func (l *heldLock) kept() bool {
	return l != nil && l.started && l.waits && !l.InHand() && len(l.left) > 0
}

// Left returns the WAL positions of duplicates that were refused before the run began, as far as its start
// has been recorded; nil for nearly all runs.
func (r *Run) Left() dedup.WAL {
	if r.lock == nil {
		return nil
	}
	return r.lock.left
}

// script is the lock as scripts want it.
func (l heldLock) script() lua.Lock { return *l.Stored(l.class) }

// whileHeld returns the lock while its job runs: it stands for as long as the process may be silent,
// however short its own TTL is. Otherwise it would lapse between two heartbeats, and with it the run that
// it promises to those refused.
func (l heldLock) whileHeld(session *Session) lua.Lock {
	lock := l.script()
	lock.Hold = max(lock.Hold, session.record.TTL)
	return lock
}

// prepare makes a job ready for its processor, or, where Redis must record its start first, for that.
func (k *Keyspace) prepare(r *Run) {
	if dedup.Has(r.Bytes) {
		r.lock = k.lockIn(r.Bytes)
	}
	if r.lock == nil || (r.lock.AtStart() == dedup.StartNothing && !r.lock.waits) {
		k.ledger.move(r, ready)
		return
	}
	k.ledger.move(r, awaitingStart)
}

// lockIn returns the lock that a payload names; nil for none.
func (k *Keyspace) lockIn(bytes string) *heldLock {
	parsed, err := job.Parse(bytes)
	if err != nil {
		return nil // it is moved to the dead set unread, and its lock, if it has one, lapses
	}
	lock, err := dedup.Read(parsed)
	if err != nil {
		k.cfg.Log.Warn().Err(err).Str("jid", parsed.JID()).Str("class", parsed.Class()).Msg("unique lock ignored: unreadable field belay_unique")
	}
	if lock.None() {
		return nil
	}
	return &heldLock{Lock: lock, class: parsed.Class(), waits: len(dedup.ReadWAL(parsed)) > 0}
}

// requeue returns a job whose run has not begun. If Redis may have recorded its start, and its lock be free
// for that, it takes the lock again first: otherwise another job would be accepted while this one waits.
// (One that has begun before then holds a lock that it need not have; it is freed at the next start.)
func (k *Keyspace) requeue(r *Run) {
	if r.lock == nil || !r.lock.said || r.lock.AtStart() != dedup.StartRelease {
		k.ledger.finish(r, job.Requeued())
		return
	}
	r.lock.back = true
	k.ledger.move(r, awaitingStart)
}

// requeueAll does so with all runs that have not begun.
func (k *Keyspace) requeueAll() {
	for _, r := range slices.AppendSeq(slices.Collect(k.ledger.in(ready)), k.ledger.in(awaitingStart)) {
		k.requeue(r)
	}
}

// addStarts records for runs of one session that they begin, or that they do not after all.
func (k *Keyspace) addStarts(p *pipeline) {
	first := k.ledger.first(awaitingStart)
	if first == nil {
		return
	}
	session := first.owner
	var runs []*Run
	var starts []lua.Start
	bytes, room := 0, k.room()
	for r := range k.ledger.in(awaitingStart) {
		if len(runs) == lua.MostItems || bytes > room {
			break
		}
		if r.owner != session {
			continue
		}
		bytes += len(r.Bytes)
		starts = append(starts, lua.Start{
			Queue: r.Queue, Quarantined: r.quarantined, Bytes: r.Bytes, Lock: r.lock.whileHeld(session),
			Release: r.lock.AtStart() == dedup.StartRelease, Leave: r.lock.waits, Mark: r.lock.AtStart() == dedup.StartClear,
			Back: r.lock.back,
		})
		r.lock.said = true
		runs = append(runs, r)
		k.ledger.move(r, starting)
	}
	ask := k.Keys.Start(session.Identity, starts)
	p.add(ask.Call, func(reply driver.Reply) { k.handleStarts(runs, ask, reply) })
}

// handleStarts makes runs ready whose start is recorded.
func (k *Keyspace) handleStarts(runs []*Run, ask lua.Ask[lua.Started], reply driver.Reply) {
	answer, err := ask.Read(reply)
	switch {
	case err == nil:
		k.succeed()
	case driver.Outage(err):
		// Said once more it changes nothing more.
		for _, r := range runs {
			k.ledger.move(r, awaitingStart)
		}
		k.fail(err)
		runs = nil
	default:
		// Waiting would not cure it, and a job does not wait for its lock: that lapses.
		k.cfg.Reporter.refuse("start", err)
	}
	for i, r := range runs {
		switch {
		case slices.Contains(answer.Lost, i):
			k.cfg.Log.Warn().Str("jid", r.JID()).Str("queue", r.Queue).Str("identity", r.owner.Identity).
				Msg("ownership lost: job not started")
			k.leave(r)
		case r.lock.back:
			r.lock.said, r.lock.started, r.lock.back = false, false, false
			k.ledger.finish(r, job.Requeued())
		default:
			r.lock.started, r.lock.left = err == nil, dedup.WALOfLines(answer.Left[i])
			k.ledger.move(r, ready)
		}
	}
	if k.loop.quiet {
		k.requeueAll()
	}
}

// addRenewals renews the locks of the session's runs, once a heartbeat.
func (k *Keyspace) addRenewals(p *pipeline) {
	if !k.renew || k.session == nil {
		return
	}
	k.renew = false
	var locks []lua.Lock
	for r := range k.ledger.of(k.session) {
		if r.lock != nil && r.lock.InHand() {
			locks = append(locks, r.lock.whileHeld(k.session))
		}
	}
	for some := range slices.Chunk(locks, lua.MostItems) {
		ask := k.Keys.Renew(some)
		p.add(ask.Call, func(reply driver.Reply) {
			if _, err := ask.Read(reply); err != nil && !driver.Outage(err) {
				k.cfg.Reporter.refuse("renew locks", err)
			}
		})
	}
}

// addForgets takes away what starts have kept for jobs whose end is confirmed. One that lives on carries it
// in its payload. The answer does not matter: what stays lapses.
func (k *Keyspace) addForgets(p *pipeline) {
	for some := range slices.Chunk(k.obsolete, lua.MostItems) {
		p.add(k.Keys.ForgetLeft(some), func(driver.Reply) {})
	}
	k.obsolete = nil
}

// lockAtEnd is what a run's end means for the job's lock; nil for a job that has none, or whose start has
// released it.
func (k *Keyspace) lockAtEnd(r *Run) *lua.Lock {
	if r.lock == nil || (r.lock.started && !r.lock.InHand()) {
		return nil
	}
	lock := r.lock.script()
	lock.Hold = r.lock.Lifetime(r.outcome.After())
	if r.lock.Reruns(r.outcome.Exit()) {
		if parsed, err := job.Parse(r.Bytes); err == nil {
			lock.Again = dedup.Again(parsed, r.Queue, k.Clock.Now(), k.cfg.Unit)
		}
	}
	return &lock
}
