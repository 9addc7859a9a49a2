package fetch

import (
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

// addTakes adds a take for each share that has idle processors. The takes divide the page size of the link.
func (k *Keyspace) addTakes(p *pipeline, now time.Time) {
	if k.loop.quiet || !k.mayTake() || k.loop.quarantine.aside() {
		return
	}
	var wanting []reservation
	for _, in := range k.intakes {
		if in.spare() <= 0 || !in.wantsTake(now) || !k.leased(k.session) {
			continue
		}
		if part := in.part(now); part > 0 {
			wanting = append(wanting, reservation{in, part})
		}
	}
	if len(wanting) == 0 {
		return
	}
	for _, wants := range wanting {
		wants.intake.pacedAt = now.Add(pacedTake)
		k.addTake(p, wants, k.link.Page()/len(wanting))
	}
	if k.loop.taker == nil {
		k.loop.taker = k
	}
}

// wantsTake reports whether there may be jobs in the queues.
func (in *intake) wantsTake(now time.Time) bool {
	backedOff := in.backedOff()
	resting := backedOff == 0 && now.Before(in.space.noWaitsUntil) // waits are not possible, so takes replace them
	switch {
	case backedOff == len(in.order.Names()):
		return false // also if there is no queue
	case !in.empty:
		return true
	default:
		return (in.polls() || resting) && !now.Before(in.pacedAt)
	}
}

// spare returns how many jobs a take may ask for: not for the processors that orphaned entries need, and
// one less for each open wait, which may bring a job at any moment. But if takes are all that reads some of the
// queues, they leave no processor to the waits, or a process with few processors would never read those queues;
// a job too many that a wait brings is requeued.
func (in *intake) spare() int {
	spare := in.share.idle() - len(in.space.reconcile.orphaned)
	if in.polls() {
		return spare
	}
	return spare - in.waits
}

// polls reports whether there are more queues than idle waits. Then takes read all of them every pacedTake.
func (in *intake) polls() bool { return len(in.order.Names()) > in.quota }

// next returns the queues of one take, in this turn's order and without those that are backed off.
func (in *intake) next() []string {
	names := in.order.Next()
	if in.space.backedOff == 0 {
		return names
	}
	var open []string
	for _, name := range names {
		if in.space.queues[name].backOffUntil.IsZero() {
			open = append(open, name)
		}
	}
	return open
}

func (k *Keyspace) addTake(p *pipeline, wants reservation, page int) {
	in := wants.intake
	// Runs that the same pipeline settles no longer occupy a processor.
	session, wanted, queues := k.session, min(wants.jobs, lua.MaxItems), in.next()
	take := k.Keys.Take(session.Identity, queues, wanted, page, k.cfg.Largest)
	for _, name := range queues {
		k.queues[name].takes++
	}
	p.reserve(in, wanted)
	p.may += page
	p.add(take.Call, func(reply driver.Reply) { k.handleTake(session, in, queues, take, reply) })
}

func (k *Keyspace) handleTake(session *Session, in *intake, queues []string, take lua.Ask[lua.Taken], reply driver.Reply) {
	taken, err := take.Read(reply)
	defer k.endTake(queues)
	if err != nil {
		k.doubt(session, err)
		k.fail(err)
		return
	}
	k.succeed()
	current := session == k.session
	if current {
		in.learn(queues, taken)
		k.learnWhy(in, taken.Why)
		brought := len(taken.Jobs) > 0
		if brought {
			in.loneAt = time.Time{}
		}
		if brought || taken.Why == lua.WhyEmpty {
			in.found(brought)
		}
	}
	for _, large := range taken.Large {
		k.addLarge(session, ownList{queue: queues[large.At]}, lua.Large{Bytes: large.Bytes, Head: large.Head, Tail: large.Tail})
	}
	for _, group := range taken.Jobs {
		for _, bytes := range group.Bytes {
			k.bring(session, queues[group.Queue], bytes, current)
		}
	}
}

// learn records what the reply to a take says about its queues.
func (in *intake) learn(queues []string, taken lua.Taken) {
	k := in.space
	var denied []string
	var denial error
	for i, name := range queues {
		q, err := k.queues[name], taken.Broken[i] // q.takes has kept it there
		q.paused = slices.Contains(taken.Paused, i)
		switch {
		case driver.Denial(err) != "":
			denied, denial = append(denied, name), err
		case err != nil && !q.broken:
			k.log.Error("queue skipped: redis refuses to move its jobs; operator action required",
				"queue", name, "key", k.Keys.Queue(name), "error", err)
		}
		// A take that did not find all queues empty has not read those that follow.
		q.broken = err != nil || q.broken && taken.Why != lua.WhyEmpty
	}
	switch {
	case denial != nil:
		in.denied = true
		k.report.Fail(takes, fmt.Errorf("queues %q: %w", denied, denial))
	case in.denied && taken.Why == lua.WhyEmpty:
		in.denied = false
		k.report.Succeed(takes)
	}
}

// takes is the name of the takes in reports that Redis refuses.
const takes = "take"

// endTake records that a take of these queues is not in flight any more.
func (k *Keyspace) endTake(queues []string) {
	for _, name := range queues {
		k.queues[name].takes--
	}
}

// learnWhy records why a take brought no more jobs.
func (k *Keyspace) learnWhy(in *intake, why lua.Why) {
	switch why {
	case lua.WhyFenced, lua.WhyQuarantine:
		k.fenced = true
	case lua.WhyEmpty:
		in.empty = true
		k.loop.quarantine.noOrdinary()
	default:
		in.empty = false
	}
}

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
		k.log.Info("orphaned entry reclaimed after a lost reply", "jid", r.JID(), "queue", r.Queue, "runs_here", r.state != finished && !r.undoStart)
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
	queue := o.list.queue
	if o.list.quarantined {
		queue = k.reconcile.quarantinedFrom // "" until it is known
	}
	if !k.session.Leased() || queue == "" || !o.list.quarantined && !k.loop.quiet && k.loop.quarantine.busy() {
		return nil
	}
	r := newRun(k, k.session, queue, o.bytes)
	r.reclaimed = true
	if o.list.quarantined {
		return k.arriveQuarantined(r, k.loop.quarantine.nothingElse())
	}
	return k.arrive(r, r.intake.share.idle() > 0)
}

// Several keyspaces share the processors. Those with jobs get equal parts, so that a long queue of one does
// not keep the jobs of another waiting. While a Redis does not answer, its takes reserve no more than its
// part. A keyspace whose last take brought nothing has no part. It looks for jobs with a take for one, at
// once if the processors are idle anyway, and otherwise more and more seldom.

// firstLook is how soon a keyspace whose take brought nothing looks again beside keyspaces that have jobs. It
// is about a round trip. Up to pacedTake the delay doubles, so a keyspace that jobs reach often is looked at
// often.
const firstLook = time.Millisecond

// turns is the state of an intake beside those of the same share in other keyspaces.
type turns struct {
	dry    bool         // the last take brought no job, and no wait has since then
	lookAt time.Time    // when a dry intake may look beside intakes that have jobs
	looks  link.Backoff // between two looks
}

// alone reports whether the share has jobs of one keyspace only, as in every process without shards.
func (in *intake) alone() bool { return len(in.share.intakes) == 1 }

// found records whether a take or a wait has brought a job.
func (in *intake) found(job bool) {
	switch {
	case in.alone():
	case job:
		in.dry = false
		in.looks.Reset()
	default:
		in.dry, in.lookAt = true, time.Now().Add(in.looks.Next())
	}
}

// mayTake reports whether the keyspace can take jobs, if the session has a lease.
func (k *Keyspace) mayTake() bool {
	return k.session != nil && !k.fenced && !k.reconcile.unsure && !k.outage.away && k.ledger.count(unacked) == 0
}

// contends reports whether the intake would take jobs for a processor that is idle.
func (in *intake) contends(now time.Time) bool {
	return in.reserved > 0 || in.spare() > 0 && in.space.mayTake() && in.wantsTake(now) && in.space.leased(in.space.session)
}

// part returns how many jobs the next take of the intake may ask for, of those that it can ask for now.
func (in *intake) part(now time.Time) int {
	if in.alone() {
		return in.spare()
	}
	var wet, dry contenders
	looks, spaces := 0, in.share.intakes
	for i := range spaces {
		other := spaces[(in.space.loop.begin+i)%len(spaces)]
		switch {
		case !other.contends(now):
		case !other.dry:
			wet.add(other, in)
		default:
			dry.add(other, in)
			if other != in && other.reserved == 0 && !other.rests(now) {
				looks++
			}
		}
	}
	switch {
	case !in.dry:
		return min(in.spare()-looks, wet.part(in))
	case wet.count == 0:
		return min(in.spare(), dry.part(in))
	case in.reserved > 0 || in.rests(now):
		return 0
	default:
		return 1
	}
}

// contenders counts the intakes among which the processors of a share are divided.
type contenders struct {
	count, ahead int // ahead is how many of them come before the intake that asks
	asked        bool
}

func (c *contenders) add(other, in *intake) {
	c.count++
	c.asked = c.asked || other == in
	if !c.asked {
		c.ahead++
	}
}

// part returns how many more processors the intake may occupy. What cannot be divided goes to those that come
// first, and another one is first after each take.
func (c *contenders) part(in *intake) int {
	processors := in.share.Concurrency
	part := processors / c.count
	if c.ahead < processors%c.count {
		part++
	}
	return part - in.busy - in.reserved
}

// rests reports whether a dry intake does not look beside intakes that have jobs.
func (in *intake) rests(now time.Time) bool { return in.dry && now.Before(in.lookAt) }
