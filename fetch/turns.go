package fetch

import (
	"time"

	"github.com/belayq/belay/link"
)

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

// leaveUnstarted removes the runs from the ledger that have not begun, because Redis is away, if the session
// has no lease any more. They occupy processors that other keyspaces need. The jobs stay in their working
// lists, where reconciling finds them.
func (k *Keyspace) leaveUnstarted() {
	for _, waiting := range []state{awaitingStart, ready} {
		for r := range k.ledger.in(waiting) {
			if (waiting == ready || !r.undoStart) && !k.leased(r.Session) {
				k.drop(r)
				k.loop.freed = true
			}
		}
	}
}

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
