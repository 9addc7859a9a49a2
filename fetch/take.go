package fetch

import (
	"time"

	"github.com/belayq/belay/driver"
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
		if brought := len(taken.Jobs) > 0; brought || taken.Why == lua.WhyEmpty {
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
		k.log.Info("orphaned entry reclaimed after a lost reply", "jid", r.JID(), "queue", r.Queue, "runs_here", r.state != finished)
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
	case o.list.quarantined:
		if k.reconcile.quarantinedFrom == "" {
			return nil
		}
		return k.arriveQuarantined(k.session, k.reconcile.quarantinedFrom, o.bytes, k.loop.quarantine.nothingElse())
	case !k.loop.quiet && k.loop.quarantine.busy():
		return nil
	}
	r := newRun(k, k.session, o.list.queue, o.bytes)
	return k.arrive(r, r.intake.share.idle() > 0)
}
