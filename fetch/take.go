package fetch

import (
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// compose makes the next pipeline, or nil when there is nothing to say.
func (k *keyspace) compose(now time.Time) *pipeline {
	p := &pipeline{space: k}
	if !k.outage.since.IsZero() && k.session != nil && !k.session.Over() {
		return k.composeProbe(p)
	}
	again := k.addSettles(p)
	k.addStarts(p)
	switch {
	case again:
		// What has failed once goes without anything that it could take with it.
	case k.loop.quarantine.mayTake(k):
		k.addTakeQuarantined(p)
	default:
		k.addTakes(p, now)
	}
	k.addTooLarge(p)
	k.addDrain(p)
	k.addLengths(p)
	if !again {
		k.addReading(p)
	}
	k.addRenewals(p)
	k.addForgets(p)
	if len(p.parts) == 0 {
		return nil
	}
	return p
}

// composeProbe makes the one pipeline that goes after a failure: it asks for the lengths of our lists,
// which is as small as a call can be. Its answer tells a slow link, on which the next call that carries
// jobs is to carry fewer, from a Redis that is away; and it says what the call that failed has left in our
// lists.
func (k *keyspace) composeProbe(p *pipeline) *pipeline {
	if k.reconcile.asking {
		return nil
	}
	p.small = true
	k.reconcile.due = true
	k.addLengths(p)
	return p
}

// addTakes adds a take for each capsule that has idle processors. They share what the link carries.
func (k *keyspace) addTakes(p *pipeline, now time.Time) {
	if k.loop.quiet || k.session == nil || k.fenced || k.reconcile.unsure || k.loop.quarantine.aside() {
		return
	}
	var wanting []*intake
	for _, in := range k.intakes {
		if in.spare() > 0 && in.wantsTake(now) {
			wanting = append(wanting, in)
		}
	}
	if len(wanting) == 0 || !k.session.Leased() {
		return
	}
	for _, in := range wanting {
		k.addTake(p, in, k.pace.Page()/len(wanting))
	}
}

// wantsTake reports whether there may be jobs in the queues.
func (in *intake) wantsTake(now time.Time) bool {
	if !in.dry {
		return in.backedOff() < len(in.queues)
	}
	if in.backedOff() > 0 || !now.Before(in.space.noWaitsUntil) || now.Before(in.pacedAt) {
		return false
	}
	in.pacedAt = now.Add(pacedTake)
	return true
}

func (k *keyspace) addTake(p *pipeline, in *intake, page int) {
	// What this very pipeline settles frees its processors: those runs occupy none any more.
	session, wanted, queues := k.session, min(in.spare(), lua.MostItems), in.next()
	take := k.cfg.Keys.Take(session.Identity, queues, wanted, page, k.cfg.Largest)
	p.promise(in.capsule, wanted)
	p.may += page + k.cfg.Largest
	p.add(take.Call, func(reply driver.Reply) { k.handleTake(session, in, queues, take, reply) })
}

func (k *keyspace) handleTake(session *Session, in *intake, queues []string, take lua.Ask[lua.Taken], reply driver.Reply) {
	taken, err := take.Read(reply)
	if err != nil {
		k.doubt(session, err)
		k.fail("take", err)
		return
	}
	k.succeed()
	ours := session == k.session
	if ours {
		in.learn(queues, taken)
		k.learnWhy(in, taken.Why)
	}
	for _, large := range taken.Large {
		k.addLarge(session, place{queue: queues[large.At]}, lua.Large{Bytes: large.Bytes, Head: large.Head, Tail: large.Tail})
	}
	for _, group := range taken.Jobs {
		for _, bytes := range group.Bytes {
			k.bring(session, queues[group.Queue], bytes, ours)
		}
	}
}

// learnWhy takes in why a take brought no more.
func (k *keyspace) learnWhy(in *intake, why lua.Why) {
	switch why {
	case lua.WhyFenced, lua.WhyQuarantine:
		k.fenced = true
	case lua.WhyEmpty:
		in.dry = true
		k.loop.quarantine.noOthers(k)
	default:
		in.dry = false
	}
}

// bring takes in what a take or a wait answered, unless just such a job runs already. After a failover that
// lost that it was taken, a job was taken again: there is one entry, and it ends with the run that goes on.
// If a producer has pushed the same bytes twice, there are two, and reconciling finds the one that we do
// not know of. What comes to a session that is over is requeued: it was declared dead, and its runs end
// nothing, or the next session takes the job again, see runsUnder.
func (k *keyspace) bring(session *Session, queue, bytes string, wanted bool) {
	twin := k.ledger.find(session, queue, bytes)
	if twin == nil || session != k.session || session.Over() {
		k.arrive(session, queue, bytes, wanted)
		return
	}
	k.doubt(session, nil)
	k.cfg.Log.Info().Str("jid", twin.JID()).Str("queue", queue).Msg("taken again while in hand: not run beside itself")
}

// arrive makes a run of a job that was taken: for a processor, or to be requeued when it is not wanted or
// we are quiet.
func (k *keyspace) arrive(session *Session, queue, bytes string, wanted bool) *Run {
	if earlier := k.runsUnder(queue, bytes); earlier != nil && wanted && !k.loop.quiet {
		session.transfer(earlier)
		k.cfg.Log.Info().Str("jid", earlier.JID()).Str("queue", queue).Str("formerly", earlier.Session.Identity).
			Msg("taken again while its run goes on: not run beside itself; the run ends it under the new identity")
		return earlier
	}
	r := newRun(k, session, queue, bytes)
	if !wanted || k.loop.quiet {
		k.ledger.finish(r, job.Requeued())
		return r
	}
	k.prepare(r)
	return r
}

// runsUnder returns the run of a job with these bytes and from this queue that goes on under an earlier
// session that Redis has lost, or nil. (A run of a session that was declared dead is cancelled, and its
// result is discarded.)
func (k *keyspace) runsUnder(queue, bytes string) *Run {
	for _, session := range k.former {
		r := k.ledger.find(session, queue, bytes)
		if r != nil && session.Context.Err() == nil && (r.state == running || r.state == abandoned || r.state == finished) {
			return r
		}
	}
	return nil
}
