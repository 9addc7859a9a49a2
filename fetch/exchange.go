package fetch

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A batch is one settle under one number, kept with its exact bytes until its answer has been read.
type batch struct {
	life   *Life
	number int64
	held   []*Held // in the order of the settlement
	ask    lua.Ask[lua.SettleVerdict]
	// owed is set once an answer did not come: until one does, these processors are promised to no take.
	owed bool
}

// longestProbe is how long a probe may take that others have failed before: six round trips of half a second, enough to connect
// and to be answered. With a rest, work still resumes within five seconds where one began on a dead connection.
const longestProbe = 3 * time.Second

// An exchange is one pipeline: settles, then starts, then a take for the processors that are idle once the settles have
// landed, then what is to be read or said besides. Everything in it is answered, or known not to be.
type exchange struct {
	parts []part
	// wanted is how many processors are promised to it, for jobs that its operation op may bring.
	wanted  int
	op      int64
	replies []driver.Reply

	may     int  // bytes of jobs that it may bring
	carried int  // bytes that it sends, and may bring
	small   bool // it carries no jobs: how it fares says nothing of what the link carries
	got     int  // bytes that it brought
	// took is how long it was under way, allowed how long it might have been.
	took, allowed time.Duration
}

// A part is some calls of a pipeline and what is done with their replies, one each.
type part struct {
	calls  []driver.Call
	handle func(replies []driver.Reply)
}

// add puts one more call into the pipeline.
func (x *exchange) add(call driver.Call, handle func(reply driver.Reply)) {
	x.addAll([]driver.Call{call}, func(replies []driver.Reply) { handle(replies[0]) })
}

// addAll puts more calls into the pipeline.
func (x *exchange) addAll(calls []driver.Call, handle func(replies []driver.Reply)) {
	x.parts = append(x.parts, part{calls, handle})
}

// compose makes the next pipeline, or nil when there is nothing to say.
func (f *Fetcher) compose(now time.Time) *exchange {
	if !f.outage.since.IsZero() && f.life != nil && !f.life.Over() {
		return f.composeProbe()
	}
	x := &exchange{}
	again := f.addBatches(x)
	f.addStarts(x)
	switch {
	case again:
		// What has failed once goes without anything that it could take with it.
	case f.wantsAlone():
		f.addTakeAlone(x)
	case f.wantsTake(now):
		f.addTake(x)
	}
	f.addTooLarge(x)
	f.addDrain(x)
	f.addLengths(x)
	if !again {
		f.addReading(x)
	}
	f.addRenewals(x)
	f.addForgets(x)
	if len(x.parts) == 0 {
		return nil
	}
	return x
}

// composeProbe makes the one pipeline that goes after a failure: it asks for the lengths of our lists, which are as small as a
// call can be. Its answer tells a slow link, on which the next call that carries jobs is to carry fewer, from a Redis that is
// away; and it says what the call that failed has left in our lists.
func (f *Fetcher) composeProbe() *exchange {
	if f.strays.asking {
		return nil
	}
	x := &exchange{small: true}
	f.look = true
	f.addLengths(x)
	return x
}

// addBatches adds settles: those that are owed, those of jobs that are settled by themselves, and what has ended since. It says
// whether some of them are sent again.
func (f *Fetcher) addBatches(x *exchange) (again bool) {
	var batches []*batch
	for len(f.owed) > 0 && len(batches) < mostBatches {
		batches = append(batches, f.owed[0])
		f.owed = f.owed[1:]
	}
	for len(batches) < mostBatches && len(f.apart) > 0 && f.apart[0].owner.mayNumber() {
		b := &batch{life: f.apart[0].owner}
		f.number(b, f.apart[:1])
		f.apart = f.apart[1:]
		batches = append(batches, b)
	}
	if next := f.composeBatch(); next != nil {
		batches = append(batches, next)
	}
	for _, b := range batches {
		again = again || b.owed
		x.add(b.ask.Call, func(reply driver.Reply) { f.handleBatch(b, reply) })
	}
	return again
}

// composeBatch gathers ended runs of one life into a new batch.
func (f *Fetcher) composeBatch() *batch {
	if len(f.pending) == 0 {
		return nil
	}
	if f.quiet {
		// What goes back goes to the head, the last one first in line: so the oldest goes last.
		slices.SortFunc(f.pending, func(x, y *Held) int { return int(y.seq - x.seq) })
	}
	life := f.pending[0].owner
	if !life.mayNumber() {
		return nil
	}
	next := &batch{life: life}
	gathered := make([]*Held, 0, min(len(f.pending), lua.MostItems))
	bytes, rest, most, room := 0, f.pending[:0], f.part(), f.room()
	for i, held := range f.pending {
		if held.owner != life || len(gathered) == most || bytes > room {
			rest = append(rest, f.pending[i])
			continue
		}
		held.phase = phaseSent
		bytes += len(held.Bytes) + len(held.outcome.Payload())
		if held.lock != nil && held.lock.Reruns(held.outcome.Exit()) {
			bytes += len(held.Bytes)
		}
		gathered = append(gathered, held)
	}
	clear(f.pending[len(rest):])
	f.pending = rest
	f.number(next, gathered)
	return next
}

// leastPart is the least that a settle is cut to: with less, what each round trip costs is more than what is gained.
const leastPart = 32

// part is how many ends go into one settle at most. It is half of what can be in hand, so that Redis works on one half while the
// processors work on the other; in one piece, they would take turns.
func (f *Fetcher) part() int {
	half := (f.cfg.Concurrency + 1) / 2
	if f.quiet || half < leastPart { // what goes back goes in order, and two pipelines have none
		return lua.MostItems
	}
	return min(half, lua.MostItems)
}

// room is how many bytes go into one settle at most, but for the last job's. On a slow link they are few, so that heartbeats
// come through between two settles.
func (f *Fetcher) room() int {
	if f.quiet { // as for part
		return lua.MostBytes
	}
	return f.pace.Page()
}

// spare is how many processors a take may be asked for: not those that proven strays are waiting for, and one less for
// each open wait, which may answer at any moment.
func (f *Fetcher) spare() int { return f.idle() - f.strays.waiting() - f.waits.open() }

// number gives the batch its number and its bytes.
func (f *Fetcher) number(b *batch, gathered []*Held) {
	settled := make([]lua.Settled, len(gathered))
	for i, held := range gathered {
		settled[i] = lua.Settled{Queue: held.Queue, Bytes: held.Bytes, Outcome: held.outcome, Quarantined: held.alone, Index: i, Lock: f.lockAtEnd(held)}
	}
	b.life.number++
	b.number = b.life.number
	b.life.unread = append(b.life.unread, b)
	b.ask = f.cfg.Keys.Settle(lua.Settlement{
		Identity: b.life.Identity, Number: b.number, Mark: b.life.mark(), Jobs: settled,
		Today: f.cfg.Clock.Now(), DeadMost: f.cfg.DeadMost, DeadFor: f.cfg.DeadFor,
	})
	b.held = make([]*Held, len(settled))
	for i := range settled {
		b.held[i] = gathered[settled[i].Index]
	}
}

// wantsTake says whether a take makes sense now.
func (f *Fetcher) wantsTake(now time.Time) bool {
	if f.quiet || f.life == nil || !f.life.Leased() || f.fenced || f.strays.unsure || f.spare() <= 0 || f.aside() {
		return false
	}
	if f.dry && len(f.shunned) == 0 && now.Before(f.noWaitsUntil) && !now.Before(f.paceAt) {
		f.paceAt = now.Add(pacedTake)
		return f.mayTake()
	}
	return !f.dry && len(f.shunned) < len(f.cfg.Order.Names()) && f.mayTake()
}

func (f *Fetcher) mayTake() bool { return f.cfg.Company.mayTake(f) }

// open are those of the queues that are not shunned.
func (f *Fetcher) open(queues []string) []string {
	if len(f.shunned) == 0 {
		return queues
	}
	return slices.DeleteFunc(slices.Clone(queues), func(queue string) bool { return !f.shunned[queue].IsZero() })
}

// addTake adds a take.
func (f *Fetcher) addTake(x *exchange) {
	// What this very pipeline settles frees its processors, so idle counts them: they went out of pending above.
	life, wanted, queues := f.life, min(f.spare(), lua.MostItems), f.open(f.cfg.Order.Next())
	page := f.pace.Page()
	take := f.cfg.Keys.Take(life.Identity, queues, wanted, page, f.cfg.Largest)
	f.promise(x, wanted)
	x.may += page + f.cfg.Largest
	x.add(take.Call, func(reply driver.Reply) { f.handleTake(life, queues, take, reply) })
}

// promise promises processors to a pipeline that may bring jobs.
func (f *Fetcher) promise(x *exchange, wanted int) {
	x.wanted, x.op = wanted, f.begin()
	f.promised += wanted
}

// send puts the pipeline under way.
func (f *Fetcher) send(x *exchange) {
	calls := make([]driver.Call, 0, len(x.parts)+3)
	for _, p := range x.parts {
		calls = append(calls, p.calls...)
	}
	f.inFlight++
	// All of them share one link, and over some clients one connection: what is under way goes first.
	x.carried = lua.Carried(calls...) + x.may
	f.carrying += x.carried
	x.allowed = f.pace.Timeout(f.cfg.CallTimeout, f.carrying)
	if x.small {
		x.allowed = max(x.allowed, min(f.probing.Timeout(f.cfg.CallTimeout, f.carrying), longestProbe))
	}
	go func() {
		// Calls belong to no handler and no request: what they carry must arrive also when the process is being stopped.
		sentAt := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), x.allowed)
		defer cancel()
		x.replies = f.lane.Do(ctx, calls...)
		x.took = time.Since(sentAt)
		f.events <- x
	}()
}

// learnPace takes in how the pipeline fared. Several that fail in one outage count once.
func (x *exchange) learnPace(f *Fetcher) {
	for _, reply := range x.replies {
		if reply.Err == nil {
			x.got += lua.Brought(reply.Value)
			continue
		}
		if driver.Certain(reply.Err) {
			continue
		}
		switch {
		case x.small:
			f.lastFailure = nil // Redis itself is away, or a new connection takes longer than this
			if x.took >= x.allowed {
				f.probing.Failed()
			}
		case f.outage.since.IsZero():
			f.pace.Failed()
			f.lastFailure = reply.Err
		}
		return
	}
	if x.small {
		f.probing.Eased(x.took, x.allowed)
	}
	f.pace.Answered(x.got, x.took, x.allowed)
}

// begin numbers an operation that may bring jobs; end closes it.
func (f *Fetcher) begin() int64 {
	f.nextOp++
	f.takes[f.nextOp] = true
	return f.nextOp
}

func (f *Fetcher) end(op int64) { delete(f.takes, op) }

func (x *exchange) handle(f *Fetcher) {
	f.inFlight--
	f.carrying -= x.carried
	x.learnPace(f)
	if x.op != 0 {
		f.promised -= x.wanted
		f.end(x.op)
	}
	replies := x.replies
	for _, p := range x.parts {
		p.handle(replies[:len(p.calls)])
		replies = replies[len(p.calls):]
	}
}

func (f *Fetcher) handleBatch(b *batch, reply driver.Reply) {
	if b.owed {
		b.owed = false
		f.owing -= len(b.held)
	}
	verdict, err := b.ask.Read(reply)
	switch {
	case err == nil:
		f.succeed()
		f.confirm(b, verdict)
	case driver.Outage(err):
		// Unknown or not now: the same bytes under the same number do no harm if they were executed after all.
		f.owe(b)
		f.fail("settle", err)
	case len(b.held) > 1:
		// One of them is refused for good and takes the others with it: each for itself.
		b.life.read(b)
		f.apart = append(f.apart, b.held...)
	default:
		b.life.read(b)
		f.cfg.Log.Error().Err(err).Str("queue", b.held[0].Queue).Str("exit", string(b.held[0].outcome.Exit())).
			Msg("settle refused: the job stays in its working list and is tried again each minute")
		f.stick(b.held[0])
	}
}

// owe keeps a batch to be sent again as it is.
func (f *Fetcher) owe(b *batch) {
	b.owed = true
	f.owing += len(b.held)
	f.owed = append(f.owed, b)
}

// stick keeps a job known, so that no look adopts it, and frees its processor.
func (f *Fetcher) stick(held *Held) {
	held.phase = phaseStuck
	if len(f.stuck) == 0 {
		f.stuckAt = time.Now().Add(retryStuck)
	}
	f.stuck = append(f.stuck, held)
}

func (f *Fetcher) retryStuck(now time.Time) {
	if len(f.stuck) == 0 || now.Before(f.stuckAt) {
		return
	}
	f.apart, f.stuck = append(f.apart, f.stuck...), nil
}

func (f *Fetcher) confirm(b *batch, verdict lua.SettleVerdict) {
	b.life.read(b)
	for _, i := range verdict.Lost {
		f.cfg.Log.Warn().Str("jid", b.held[i].JID()).Str("queue", b.held[i].Queue).Str("identity", b.life.Identity).
			Str("exit", string(b.held[i].outcome.Exit())).Msg("ownership lost: the job was recovered from us; nothing was written for this run")
	}
	for i, held := range b.held {
		f.letGo(held)
		if held.lock.kept() && needless(held.outcome) && !slices.Contains(verdict.Lost, i) {
			f.known = append(f.known, held.lock.JID)
		}
		if held.alone && held.owner == f.life {
			f.endedAlone(time.Now())
		}
	}
}

// needless says that what was kept for a job's next start is of no more use: the job has ended, or its bytes carry it.
func needless(outcome job.Outcome) bool {
	switch outcome.Exit() {
	case job.ExitDone, job.ExitDiscarded, job.ExitDead:
		return true
	}
	return strings.Contains(outcome.Payload(), `"`+dedup.FieldRefusedWAL+`"`)
}

func (f *Fetcher) handleTake(life *Life, queues []string, take lua.Ask[lua.Taken], reply driver.Reply) {
	taken, err := take.Read(reply)
	if err != nil {
		f.doubt(life, err)
		f.fail("take", err)
		return
	}
	f.succeed()
	ours := life == f.life
	if ours {
		f.learn(queues, taken)
	}
	for _, large := range taken.Large {
		f.tooLarge(life, place{queue: queues[large.At]}, lua.Large{Bytes: large.Bytes, Head: large.Head, Tail: large.Tail})
	}
	for _, group := range taken.Jobs {
		for _, bytes := range group.Bytes {
			f.bring(life, queues[group.Queue], bytes, ours)
		}
	}
}

// learn takes in what a take says of the queues.
func (f *Fetcher) learn(queues []string, taken lua.Taken) {
	f.note(f.paused, queues, taken.Paused)
	f.noteBroken(queues, taken)
	switch taken.Why {
	case lua.WhyFenced, lua.WhyQuarantine:
		f.fenced = true
	case lua.WhyEmpty:
		f.dry = true
		f.suspects.othersTill = time.Time{} // there are no others
	default:
		f.dry = false
	}
}

// bring brings into hand what a take or a wait answered, unless just such a job is in hand. After a failover that lost
// that it was taken, the job in hand was taken again: there is one entry, and it ends with the run that goes on. If somebody
// has pushed the same bytes twice, there are two, and the look finds the one that we do not know of. What comes to a life that
// is over goes back: it was declared dead, and its runs end nothing, or the next life takes the job again, see runsUnder.
// Only this Fetcher's jobs are compared: no other of the process has its queues, but in a program with two servers for one.
func (f *Fetcher) bring(life *Life, queue, bytes string, wanted bool) {
	twin := life.find(queue, bytes)
	if twin == nil || life != f.life || life.Over() {
		f.arrive(life, queue, bytes, wanted)
		return
	}
	f.doubt(life, nil)
	f.cfg.Log.Info().Str("jid", twin.JID()).Str("queue", queue).Msg("taken again while in hand: not run beside itself")
}

// arrive brings a job into hand: for a processor, or straight back when it is not wanted or we are quiet.
func (f *Fetcher) arrive(life *Life, queue, bytes string, wanted bool) *Held {
	if former := f.runsUnder(queue, bytes); former != nil && wanted && !f.quiet {
		life.adopt(former)
		f.cfg.Log.Info().Str("jid", former.JID()).Str("queue", queue).Str("formerly", former.Life.Identity).
			Msg("taken again while its run goes on: not run beside itself; the run ends it under the new identity")
		return former
	}
	held := life.take(queue, bytes)
	if !wanted || f.quiet {
		f.finish(held, job.Requeued())
		return held
	}
	f.prepare(held)
	return held
}

// note remembers which of the queues are at these positions.
func (f *Fetcher) note(set map[string]bool, queues []string, positions []int) {
	clear(set)
	for _, position := range positions {
		set[queues[position]] = true
	}
}

// noteBroken names each broken queue once. Only a take that found all queues empty has seen all of them; one that found
// enough before says nothing of those behind.
func (f *Fetcher) noteBroken(queues []string, taken lua.Taken) {
	for _, position := range taken.Broken {
		if !f.broken[queues[position]] {
			f.cfg.Log.Error().Str("queue", queues[position]).Str("key", f.cfg.Keys.Queue(queues[position])).
				Msg("queue passed over: its key, or our working list, is not a list; rename or delete the key")
		}
	}
	switch taken.Why {
	case lua.WhyEmpty:
		f.note(f.broken, queues, taken.Broken)
	case lua.WhyEnough, lua.WhyBytes:
		for _, position := range taken.Broken {
			f.broken[queues[position]] = true
		}
	}
}
