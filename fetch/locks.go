package fetch

import (
	"slices"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A unique job carries its lock in its payload (package dedup). What is to be done about it goes the way of the job: its start
// is said to Redis before it runs, where that means something to the lock; the lock is renewed at every beat while the job is
// in hand; and the settle that ends the job ends the lock. Jobs without one pay a search in their bytes.

// A heldLock is the lock of a job in hand.
type heldLock struct {
	dedup.Lock
	class   string
	said    bool // it was said to Redis that the run begins, or may have been
	started bool // and Redis has answered
	back    bool // it is to be said that it does not after all
	// waits says that the job wants to know how far databases must have come, which its start tells.
	waits bool
	// left are the positions that refused duplicates left, as its start told.
	left dedup.WAL
}

// kept says that Redis keeps, beside, what was left with the lock that the start has freed.
func (l *heldLock) kept() bool {
	return l != nil && l.started && l.waits && !l.InHand() && len(l.left) > 0
}

// Left are the positions in write-ahead logs that duplicates left which were refused for the job's sake, as far as its start was
// told; nil for nearly all.
func (h *Held) Left() dedup.WAL {
	if h.lock == nil {
		return nil
	}
	return h.lock.left
}

// script is the lock as scripts want it.
func (l heldLock) script() lua.Lock { return *l.Stored(l.class) }

// inHand is the lock while its job is in hand: it stands for as long as the process may be silent, however short its own TTL is. Or
// it would lapse between two beats, and with it the run that it promises to those refused.
func (l heldLock) inHand(life *Life) lua.Lock {
	lock := l.script()
	lock.Hold = max(lock.Hold, life.record.TTL)
	return lock
}

// prepare makes a job ready for its processor, or, where that is to be said first, to be started.
func (f *Fetcher) prepare(held *Held) {
	if dedup.Has(held.Bytes) {
		held.lock = f.lockIn(held.Bytes)
	}
	if held.lock == nil || (held.lock.AtStart() == dedup.StartNothing && !held.lock.waits) {
		f.ready = append(f.ready, held)
		return
	}
	f.unsaid = append(f.unsaid, held)
}

// lockIn is the lock that a payload tells of; nil for none.
func (f *Fetcher) lockIn(bytes string) *heldLock {
	parsed, err := job.Parse(bytes)
	if err != nil {
		return nil // it is buried unread, and its lock, if it has one, lapses
	}
	lock, err := dedup.Read(parsed)
	if err != nil {
		f.cfg.Log.Warn().Err(err).Str("jid", parsed.JID()).Str("class", parsed.Class()).Msg("a unique job runs as one that is not")
	}
	if lock.None() {
		return nil
	}
	return &heldLock{Lock: lock, class: parsed.Class(), waits: len(dedup.ReadWAL(parsed)) > 0}
}

// giveBack hands a job back whose run has not begun. If it may have been said to Redis that it does, and its lock be free for that, it
// takes that again first: or another would be accepted while it waits. (One that has begun before then holds a lock that it need
// not have; it is freed at the next start.)
func (f *Fetcher) giveBack(held *Held) {
	if held.lock == nil || !held.lock.said || held.lock.AtStart() != dedup.StartRelease {
		f.finish(held, job.Requeued())
		return
	}
	held.lock.back, held.phase = true, phaseReady
	f.unsaid = append(f.unsaid, held)
}

// giveBackAll does so with all whose run has not begun.
func (f *Fetcher) giveBackAll() {
	back := append(f.ready, f.unsaid...)
	f.ready, f.unsaid = nil, nil
	for _, held := range back {
		f.giveBack(held)
	}
}

// addStarts says of jobs of one life that their runs begin, or that they do not after all.
func (f *Fetcher) addStarts(x *exchange) {
	if len(f.unsaid) == 0 {
		return
	}
	life := f.unsaid[0].owner
	var starting, rest []*Held
	bytes, room := 0, f.room()
	for _, held := range f.unsaid {
		if held.owner != life || len(starting) == lua.MostItems || bytes > room {
			rest = append(rest, held)
			continue
		}
		bytes += len(held.Bytes)
		starting = append(starting, held)
	}
	f.unsaid = rest
	f.starting += len(starting)
	starts := make([]lua.Start, len(starting))
	for i, held := range starting {
		starts[i] = lua.Start{
			Queue: held.Queue, Quarantined: held.alone, Bytes: held.Bytes, Lock: held.lock.inHand(held.owner),
			Release: held.lock.AtStart() == dedup.StartRelease, Leave: held.lock.waits, Mark: held.lock.AtStart() == dedup.StartClear,
			Back: held.lock.back,
		}
		held.lock.said = true
	}
	ask := f.cfg.Keys.Start(life.Identity, starts)
	x.add(ask.Call, func(reply driver.Reply) { f.handleStarts(starting, ask, reply) })
}

// handleStarts makes jobs ready whose start is known.
func (f *Fetcher) handleStarts(starting []*Held, ask lua.Ask[lua.Started], reply driver.Reply) {
	f.starting -= len(starting)
	answer, err := ask.Read(reply)
	switch {
	case err == nil:
		f.succeed()
	case driver.Outage(err):
		// Said once more it changes nothing more.
		f.unsaid = append(starting, f.unsaid...)
		f.fail("start", err)
		starting = nil
	default:
		// Waiting would not cure it, and a job is not to wait for its lock: that lapses.
		f.cfg.Reporter.refuse("start", err)
	}
	gone := make(map[int]bool, len(answer.Lost))
	for _, i := range answer.Lost {
		gone[i] = true
	}
	for i, held := range starting {
		if gone[i] {
			f.cfg.Log.Warn().Str("jid", held.JID()).Str("queue", held.Queue).Str("identity", held.owner.Identity).
				Msg("ownership lost: the job was recovered from us before it started")
			f.letGo(held)
			continue
		}
		if held.lock.back {
			held.lock.said, held.lock.started, held.lock.back = false, false, false
			f.finish(held, job.Requeued())
			continue
		}
		held.lock.started, held.lock.left = err == nil, dedup.WALOfLines(answer.Left[i])
		f.ready = append(f.ready, held)
	}
	if f.quiet {
		f.giveBackAll()
	}
}

// addRenewals holds on to the locks of what is in hand, once a beat.
func (f *Fetcher) addRenewals(x *exchange) {
	if !f.renew || f.life == nil {
		return
	}
	f.renew = false
	var locks []lua.Lock
	for _, held := range f.life.held {
		if held.lock != nil && held.lock.InHand() && held.phase != phaseGone {
			locks = append(locks, held.lock.inHand(held.owner))
		}
	}
	for some := range slices.Chunk(locks, lua.MostItems) {
		ask := f.cfg.Keys.Renew(some)
		x.add(ask.Call, func(reply driver.Reply) {
			if _, err := ask.Read(reply); err != nil && !driver.Outage(err) {
				f.cfg.Reporter.refuse("renew locks", err)
			}
		})
	}
}

// addForgets takes away what starts have kept for jobs whose end is confirmed. One that lives on carries it in its payload. Nobody
// waits for the answer: what stays lapses.
func (f *Fetcher) addForgets(x *exchange) {
	for some := range slices.Chunk(f.known, lua.MostItems) {
		x.add(f.cfg.Keys.ForgetLeft(some), func(driver.Reply) {})
	}
	f.known = nil
}

// lockAtEnd is what a run's end means for the job's lock; nil for a job that has none, or whose start has released it.
func (f *Fetcher) lockAtEnd(held *Held) *lua.Lock {
	if held.lock == nil || (held.lock.started && !held.lock.InHand()) {
		return nil
	}
	lock := held.lock.script()
	lock.Hold = held.lock.Lifetime(held.outcome.After())
	if held.lock.Reruns(held.outcome.Exit()) {
		if parsed, err := job.Parse(held.Bytes); err == nil {
			lock.Again = dedup.Again(parsed, held.Queue, f.cfg.Clock.Now(), f.cfg.Unit)
		}
	}
	return &lock
}
