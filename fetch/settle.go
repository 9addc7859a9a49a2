package fetch

import (
	"slices"
	"strings"
	"time"

	batches "github.com/belayq/belay/batch"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

const (
	// maxBatches is how many unacknowledged settles go into one pipeline.
	maxBatches = 2
	// retryBlocked is the interval between attempts of a settle that Redis refuses for a permanent reason,
	// such as a key of a wrong type. When a denial of other calls ends, the next attempt comes at once.
	retryBlocked = time.Minute
	// minPart is the minimum size of a part of a split settle: a smaller one costs more in round trips than
	// it gains.
	minPart = 32
)

// A batch is one settle with one number, kept with its exact bytes until its reply has been read.
type batch struct {
	session *Session
	number  int64
	runs    []*Run // in the order of the settlement
	ask     lua.Ask[lua.SettleVerdict]
	ended   []string // jids of tracked jobs that end
}

// addSettles adds settles to a pipeline: unacknowledged ones, those of isolated runs, and one of newly
// finished runs.
func (k *Keyspace) addSettles(p *pipeline) {
	k.ledger.moveAll(unsent, finished)
	count := min(len(k.unacked), maxBatches)
	batches := slices.Clone(k.unacked[:count])
	k.unacked = slices.Delete(k.unacked, 0, count)
	for r := k.ledger.first(isolated); r != nil && len(batches) < maxBatches && r.owner.mayNumber(); r = k.ledger.first(isolated) {
		batches = append(batches, k.newBatch(r.owner, []*Run{r}))
	}
	if next := k.nextBatch(); next != nil {
		batches = append(batches, next)
	}
	for _, b := range batches {
		p.add(b.ask.Call, func(reply driver.Reply) { k.handleSettle(b, reply) })
		if len(b.ended) > 0 {
			// Not in the script: it is only a hint, and its reply does not matter.
			p.add(k.Keys.AnnounceEnded(b.ended), func(driver.Reply) {})
		}
	}
}

// nextBatch gathers finished runs of one session into a new settle.
func (k *Keyspace) nextBatch() *batch {
	first := k.ledger.first(finished)
	if first == nil {
		return nil
	}
	ordered := k.ledger.in(finished)
	if k.loop.quiet {
		// Each requeued job goes to the head of its queue, before those requeued earlier. So the oldest is
		// requeued last.
		runs := slices.SortedStableFunc(ordered, func(x, y *Run) int { return int(y.seq - x.seq) })
		first, ordered = runs[0], slices.Values(runs)
	}
	session := first.owner
	if !session.mayNumber() {
		return nil
	}
	bytes, maxRuns, room := 0, k.part(), k.room()
	gathered := make([]*Run, 0, min(k.ledger.count(finished), maxRuns))
	for r := range ordered {
		if len(gathered) == maxRuns || bytes > room {
			break
		}
		if r.owner != session {
			continue
		}
		bytes += len(r.Bytes) + len(r.outcome.Payload())
		if r.lock != nil && r.lock.Reruns(r.outcome.Exit()) || r.mayOwn && batches.HasNext(r.Bytes, r.outcome) {
			bytes += len(r.Bytes)
		}
		bytes += r.saved.Load().size()
		gathered = append(gathered, r)
	}
	return k.newBatch(session, gathered)
}

// part returns the maximum number of outcomes in one settle. It is half of the concurrency, so that Redis
// works on one half while the processors work on the other; with one piece, one would wait for the other.
func (k *Keyspace) part() int {
	half := (k.loop.Concurrency() + 1) / 2
	if k.loop.quiet || half < minPart { // requeues need their order, and two pipelines have no order
		return lua.MaxItems
	}
	return min(half, lua.MaxItems)
}

// newBatch returns a settle of these runs, with its number and its bytes.
func (k *Keyspace) newBatch(session *Session, gathered []*Run) *batch {
	settled, ended := make([]lua.Settled, len(gathered)), []string(nil)
	for i, r := range gathered {
		settled[i] = lua.Settled{Queue: r.Queue, Bytes: r.Bytes, Outcome: r.outcome, Quarantined: r.quarantined, Last: r.refused, Index: i,
			Gate: r.gateAtEnd(), Owned: lua.Owned{Lock: k.lockAtEnd(r), State: k.stateAtEnd(r)}}
		if r.mayOwn {
			settled[i].Member, settled[i].Next = batches.Ending(r.Bytes, r.outcome), k.nextAtEnd(r)
		}
		if saved := r.saved.Load(); saved != nil && saved.ends() {
			ended = append(ended, settled[i].State.JID)
		}
		k.ledger.move(r, settling)
	}
	k.loop.freed = true
	session.number++
	b := &batch{session: session, number: session.number, runs: make([]*Run, len(settled)), ended: ended}
	session.unread = append(session.unread, b)
	settlement := lua.Settlement{Identity: session.Identity, Number: b.number, Mark: session.mark(), Jobs: settled, Today: k.Clock.Now()}
	settlement.NearNewest = func(jobs []lua.Settled) bool { return k.nearNewest(session, gathered, jobs) }
	if k.gate.Load() != nil {
		settlement.Queues = k.namesTaken()
	}
	b.ask = k.Keys.Settle(settlement)
	for i := range settled { // Settle has sorted them
		b.runs[i] = gathered[settled[i].Index]
	}
	return b
}

// nearNewest reports whether our list certainly has more jobs that are older than all of these, which are of
// one queue, than newer ones. Then each of them is nearer to the newest end. Beside many runs that take long, a
// search from the oldest end was half of the time of Redis.
func (k *Keyspace) nearNewest(session *Session, gathered []*Run, jobs []lua.Settled) bool {
	oldest := gathered[jobs[0].Index]
	for i := range jobs {
		if r := gathered[jobs[i].Index]; r.seq < oldest.seq {
			oldest = r
		}
	}
	// Those of other queues count too, and those that have ended: to count only those in the list would be a
	// walk over all runs for each batch.
	newer := int(session.seq - oldest.seq)
	for _, in := range k.intakes {
		newer += in.reserved
	}
	older := 0
	for r := range k.ledger.in(running) { // nearly in the order in which they were taken
		if older > newer || r.owner == session && r.seq > oldest.seq {
			break
		}
		if r.owner == session && r.ownList() == oldest.ownList() {
			older++
		}
	}
	return older > newer
}

// nextAtEnd returns the next jobs that a run's end stores; nil for nearly all runs.
func (k *Keyspace) nextAtEnd(r *Run) *lua.NextJobs {
	next, err := batches.Next(r.Bytes, r.outcome, k.Clock.Now(), k.cfg.Unit)
	if err != nil {
		k.log.Error("next jobs ignored: unreadable field belay_then", "error", err, "jid", r.JID(), "queue", r.Queue)
	}
	return next
}

func (k *Keyspace) handleSettle(b *batch, reply driver.Reply) {
	verdict, err := b.ask.Read(reply)
	switch {
	case err == nil:
		k.succeed()
		k.confirm(b, verdict)
	case driver.Outage(err):
		// The settle may or may not have been executed. It is sent again with the same bytes and number,
		// which has no effect if it was.
		k.moveAll(b, unacked)
		k.unacked = append(k.unacked, b)
		k.fail(err)
	case len(b.runs) > 1:
		// Redis refuses one of the runs and so the whole batch. Each run is settled alone from now on.
		b.session.read(b)
		k.moveAll(b, isolated)
	default:
		b.session.read(b)
		k.log.Error("settle refused; will retry every minute",
			"error", err, "queue", b.runs[0].Queue, "exit", string(b.runs[0].outcome.Exit()))
		if k.ledger.count(blocked) == 0 {
			k.blockedAt = time.Now().Add(retryBlocked)
		}
		k.moveAll(b, blocked)  // stays in the ledger, so that it is not reclaimed; its processor is free
		k.reconcile.due = true // finds out whether other calls are denied too, also if no take may be sent
	}
}

func (k *Keyspace) moveAll(b *batch, to state) {
	for _, r := range b.runs {
		k.ledger.move(r, to)
	}
}

// retryBlocked settles the blocked runs once more when it is time.
func (k *Keyspace) retryBlocked(now time.Time) {
	if now.Before(k.blockedAt) {
		return
	}
	k.ledger.moveAll(blocked, isolated)
}

// confirm ends the runs of a settle that Redis has executed.
func (k *Keyspace) confirm(b *batch, verdict lua.SettleVerdict) {
	b.session.read(b)
	for _, i := range verdict.Lost {
		if b.runs[i].mayWait() {
			continue
		}
		k.loop.lost.Add(1)
		k.log.Warn("ownership lost: result discarded",
			"jid", b.runs[i].JID(), "queue", b.runs[i].Queue, "identity", b.session.Identity, "exit", string(b.runs[i].outcome.Exit()))
	}
	for i, r := range b.runs {
		k.leave(r)
		if r.keepsLeft() && positionsObsolete(r.outcome) && !slices.Contains(verdict.Lost, i) {
			k.obsolete = append(k.obsolete, r.lock.JID)
		}
		if r.quarantined && r.owner == k.session {
			k.loop.quarantine.ended(k, time.Now())
		}
	}
}

// positionsObsolete reports whether the positions kept for a job's next start are no longer needed: the job has
// ended, or its payload contains them.
func positionsObsolete(outcome job.Outcome) bool {
	return outcome.Exit().Ends() || strings.Contains(outcome.Payload(), `"`+dedup.FieldRefusedWAL+`"`)
}
