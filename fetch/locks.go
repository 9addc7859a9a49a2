package fetch

import (
	"slices"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A unique job carries its lock in its payload (package dedup). The lock changes with the job: Redis records
// the start before the job runs, if the start changes the lock; each heartbeat renews the lock while this
// process has the job; and the settle that ends the job frees the lock. Jobs without a lock cost one search in
// their bytes.

// A heldLock is the lock of a running job.
type heldLock struct {
	dedup.Lock
	class     string
	startSent bool // the start was sent to Redis
	started   bool // Redis has recorded the start
	undoStart bool // Redis must record that the job does not start after all
	// waits is set if the job needs the WAL positions that its start returns.
	waits bool
	// left are the positions that refused duplicates left, from the reply to the job's start.
	left dedup.WAL
}

// kept reports whether Redis still keeps the positions that duplicates left, although the start has freed the
// lock.
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

// script returns the lock in the form that scripts need.
func (l heldLock) script() lua.Lock { return *l.Stored(l.class) }

// whileHeld returns the lock while its job runs. Its TTL is at least that of the process, however short its own
// TTL is. Otherwise it would expire between two heartbeats, and with it the extra run that refused duplicates
// were promised.
func (l heldLock) whileHeld(session *Session) lua.Lock {
	lock := l.script()
	lock.Hold = max(lock.Hold, session.record.TTL)
	return lock
}

// prepare makes a job ready for a processor or, if Redis must record its start first, for that call.
func (k *Keyspace) prepare(r *Run) {
	if r.mayOwn && dedup.Has(r.Bytes) {
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
		return nil // it is moved to the dead set without being parsed, and its lock, if it has one, expires
	}
	lock, err := dedup.Read(parsed)
	if err != nil {
		k.cfg.Log.Warn("unique lock ignored: unreadable field belay_unique", "error", err, "jid", parsed.JID(), "class", parsed.Class())
	}
	if lock.None() {
		return nil
	}
	return &heldLock{Lock: lock, class: parsed.Class(), waits: len(dedup.ReadWAL(parsed)) > 0}
}

// putBack lets a job wait again whose run has not begun. If Redis may have recorded its start and freed its
// lock, the job takes the lock again first: otherwise another job would be accepted while this one waits. (A
// job that had begun in an earlier run then holds a lock that it does not need; the next start frees it.)
func (k *Keyspace) putBack(r *Run, outcome job.Outcome) {
	if r.lock == nil || !r.lock.startSent || r.lock.AtStart() != dedup.StartRelease {
		k.ledger.finish(r, outcome)
		return
	}
	r.lock.undoStart, r.outcome = true, outcome
	k.ledger.move(r, awaitingStart)
}

// requeueAll requeues all runs that have not begun.
func (k *Keyspace) requeueAll() {
	for _, r := range slices.AppendSeq(slices.Collect(k.ledger.in(ready)), k.ledger.in(awaitingStart)) {
		k.putBack(r, job.Requeued())
	}
}

// addStarts adds the call that records which runs of one session start, and which do not start after all.
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
		if len(runs) == lua.MaxItems || bytes > room {
			break
		}
		if r.owner != session {
			continue
		}
		bytes += len(r.Bytes)
		starts = append(starts, lua.Start{
			Queue: r.Queue, Quarantined: r.quarantined, Bytes: r.Bytes, Lock: r.lock.whileHeld(session),
			Release: r.lock.AtStart() == dedup.StartRelease, Leave: r.lock.waits, Mark: r.lock.AtStart() == dedup.StartClear,
			Back: r.lock.undoStart,
		})
		r.lock.startSent = true
		runs = append(runs, r)
		k.ledger.move(r, starting)
	}
	ask := k.Keys.Start(session.Identity, starts)
	p.add(ask.Call, func(reply driver.Reply) { k.handleStarts(runs, ask, reply) })
}

// handleStarts makes those runs ready whose start Redis has recorded.
func (k *Keyspace) handleStarts(runs []*Run, ask lua.Ask[lua.Started], reply driver.Reply) {
	answer, err := ask.Read(reply)
	switch {
	case err == nil:
		k.succeed()
	case driver.Outage(err):
		// A second call with the same start changes nothing.
		for _, r := range runs {
			k.ledger.move(r, awaitingStart)
		}
		k.fail(err)
		runs = nil
	default:
		// Waiting would not help, and a job does not wait for its lock. The lock expires.
		k.cfg.Reporter.Refuse("start", err)
	}
	for i, r := range runs {
		switch {
		case slices.Contains(answer.Lost, i):
			k.cfg.Log.Warn("ownership lost: job not started", "jid", r.JID(), "queue", r.Queue, "identity", r.owner.Identity)
			k.leave(r)
		case r.lock.undoStart:
			r.lock.startSent, r.lock.started, r.lock.undoStart = false, false, false
			k.ledger.finish(r, r.outcome)
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
	for chunk := range slices.Chunk(locks, lua.MaxItems) {
		ask := k.Keys.Renew(chunk)
		p.add(ask.Call, func(reply driver.Reply) {
			if _, err := ask.Read(reply); err != nil && !driver.Outage(err) {
				k.cfg.Reporter.Refuse("renew locks", err)
			}
		})
	}
}

// addForgets deletes the positions that starts have kept for jobs whose end is confirmed. A job that continues
// carries them in its payload. The reply does not matter: positions that are not deleted expire.
func (k *Keyspace) addForgets(p *pipeline) {
	for jids := range slices.Chunk(k.obsolete, lua.MaxItems) {
		p.add(k.Keys.ForgetLeft(jids), func(driver.Reply) {})
	}
	k.obsolete = nil
}

// lockAtEnd returns what a run's end does to the job's lock; nil for a job that has none, or whose start has
// freed it.
func (k *Keyspace) lockAtEnd(r *Run) *lua.Lock {
	if r.lock == nil || (r.lock.started && !r.lock.InHand()) {
		return nil
	}
	lock := r.lock.script()
	lock.Hold = r.lock.Lifetime(r.outcome.After())
	if r.lock.Reruns(r.outcome.Exit()) {
		if parsed, err := job.Parse(r.Bytes); err == nil {
			lock.Next = dedup.Rerun(parsed, job.NewJID(), r.Queue, k.Clock.Now(), k.cfg.Unit)
		}
	}
	return &lock
}
