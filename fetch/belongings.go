package fetch

import (
	"slices"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A job may have a lock, which its payload names (package dedup), and a gate (see Keyspace.SetGate). Both
// change with the job: Redis records the start before the job runs, if the start changes the lock, or if the
// gate has to let it start; and the settle that ends the job frees the lock and the slot. Each heartbeat
// renews the lock while this process has the job. Jobs without either cost one search in their bytes.

// A heldLock is the lock of a running job.
type heldLock struct {
	dedup.Lock
	class string
	// waits is set if the job needs the WAL positions that its start returns.
	waits bool
	// left are the positions that refused duplicates left, from the reply to the job's start.
	left dedup.WAL
}

// keepsLeft reports whether Redis still keeps the positions that duplicates left, although the start has freed
// the lock.
func (r *Run) keepsLeft() bool {
	return r.lock != nil && r.started && r.lock.waits && !r.lock.InHand() && len(r.lock.left) > 0
}

// startsLock reports whether the lock changes when the run starts, or the run needs what its start returns.
func (l *heldLock) startsLock() bool {
	return l != nil && (l.AtStart() != dedup.StartNothing || l.waits)
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

// lockOf returns the lock that a payload names; nil for none.
func (k *Keyspace) lockOf(parsed *job.Job) *heldLock {
	lock, err := dedup.Read(parsed)
	if err != nil {
		k.log.Warn("unique lock ignored: unreadable field belay_unique", "error", err, "jid", parsed.JID(), "class", parsed.Class())
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
	if r.lock == nil || !r.mayHaveStarted() || r.lock.AtStart() != dedup.StartRelease {
		k.finish(r, outcome)
		return
	}
	r.undoStart, r.outcome = true, outcome
	k.ledger.move(r, awaitingStart)
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
}

// refuseStart refuses a job whose start Redis has refused. A quarantined one becomes the last one of its
// quarantine: it may have to wait for long, and those behind it need not.
func (k *Keyspace) refuseStart(r *Run) {
	r.refused = true
	k.refuse(r)
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
		starts = append(starts, r.start(session))
		r.starts++
		runs = append(runs, r)
		k.ledger.move(r, starting)
	}
	ask := k.Keys.Start(session.Identity, starts)
	p.add(ask.Call, func(reply driver.Reply) { k.handleStarts(runs, ask, reply) })
}

// start returns the start of the run, or that it does not start after all, as the script needs it.
func (r *Run) start(session *Session) lua.Start {
	start := lua.Start{Queue: r.Queue, Quarantined: r.quarantined, Bytes: r.Bytes, Back: r.undoStart}
	if r.lock.startsLock() {
		lock := r.lock.whileHeld(session)
		start.Lock = &lock
		start.Release, start.Leave, start.Mark = r.lock.AtStart() == dedup.StartRelease, r.lock.waits, r.lock.AtStart() == dedup.StartClear
	}
	if !r.undoStart { // the slot of a run that goes back is freed or kept by its settle
		start.Gate, start.First = r.gate, r.first
	}
	return start
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
		k.report.Refuse("start", err)
	}
	for i, r := range runs {
		switch {
		case err != nil:
			k.startRefused(r)
		case slices.Contains(answer.Parked, i):
			k.leave(r) // its job is in the waiting list of its gate
		case slices.Contains(answer.Busy, i):
			k.refuseStart(r)
		case slices.Contains(answer.Lost, i):
			if r.gate == nil || r.starts == 1 { // otherwise an earlier call, whose reply was lost, has let the job wait
				k.log.Warn("ownership lost: job not started", "jid", r.JID(), "queue", r.Queue, "identity", r.owner.Identity)
			}
			k.leave(r)
		case r.undoStart:
			k.endUndo(r)
		default:
			if r.started = true; r.lock != nil {
				r.lock.left = dedup.WALOfLines(answer.Left[i])
			}
			k.ledger.move(r, ready)
		}
	}
	if k.loop.quiet {
		k.requeueAll()
	}
}

// startRefused continues with a run whose start Redis refuses for another reason than an outage. Waiting would
// not help, and a job does not wait for its lock, which expires. But no job runs past its gate because of an
// error: it goes back to its queue, which is left to other processes for a while.
func (k *Keyspace) startRefused(r *Run) {
	r.starts-- // Redis has not executed it
	switch {
	case r.undoStart:
		k.endUndo(r)
	case r.gate != nil:
		k.refuseStart(r)
	default:
		k.ledger.move(r, ready)
	}
}

// endUndo lets the job of a run that does not start after all wait again.
func (k *Keyspace) endUndo(r *Run) {
	r.started, r.undoStart = false, false
	k.finish(r, r.outcome)
}

// mayHaveStarted reports whether Redis may have recorded a start of the job in this session. That of a
// reclaimed job may be from an earlier run, whose end a failover has lost: without a new start nothing else
// frees its slot.
func (r *Run) mayHaveStarted() bool { return r.starts > 0 || r.reclaimed }

// mayWait reports whether the job may be in the waiting list of its gate: no reply to its start was read.
func (r *Run) mayWait() bool { return r.gate != nil && r.starts > 0 && !r.started }

// gateAtEnd returns the gate of a run whose start Redis may have recorded; nil for nearly all.
func (r *Run) gateAtEnd() *lua.Gate {
	if !r.mayHaveStarted() {
		return nil
	}
	return r.gate
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
				k.report.Refuse("renew locks", err)
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
	if r.lock == nil || (r.started && !r.lock.InHand()) {
		return nil
	}
	lock := r.lock.script()
	lock.Hold = r.lock.Lifetime(r.outcome.After())
	if r.lock.Reruns(r.outcome.Exit()) {
		if parsed, err := r.Job(); err == nil {
			lock.Next = dedup.Rerun(parsed, job.NewJID(), r.Queue, k.Clock.Now(), k.cfg.Unit)
		}
	}
	return &lock
}
