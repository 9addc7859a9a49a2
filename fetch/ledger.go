package fetch

import (
	"hash/maphash"
	"iter"

	"github.com/belayq/belay/job"
)

// A Run is one job that this process has taken and whose settlement is not yet confirmed.
type Run struct {
	Bytes string
	Queue string
	// Session is the session under which the job was taken. Its Context is the run's.
	Session *Session

	space       *keyspace
	owner       *Session // the session that has the job in its list: Session, or a later one that took it again
	capsule     *capsule
	quarantined bool  // it lies in the quarantine list
	seq         int64 // number of the run in its owner's session, from 1
	state       state
	outcome     job.Outcome
	lock        *heldLock    // the lock that the payload names; nil for nearly all
	abandonment *abandonment // what is known of an abandoned run; nil for nearly all
	sum         uint64       // of Bytes
	next, prev  *Run         // in the list of its state
}

// JID returns the job's id; "" for a payload that cannot be read and therefore never runs.
func (r *Run) JID() string {
	parsed, err := job.Parse(r.Bytes)
	if err != nil {
		return ""
	}
	return parsed.JID()
}

// A state says how far a run has come. A run has exactly one. Those from awaitingStart to unacked occupy a
// processor.
type state int

const (
	gone          state = iota // not in the ledger
	awaitingStart              // taken; Redis must record its start, or that it does not start, before it goes on
	starting                   // the call that does so is under way
	ready                      // taken; it waits for its processor
	running                    // given to a processor
	abandoned                  // its session has ended, and its handler has not returned
	returned                   // it came back unfinished while the process stops; it waits for the others, to keep their order
	finished                   // its outcome is decided, and not yet sent
	unacked                    // the answer to its settle did not come; the same settle is sent again
	settling                   // its settle was sent for the first time
	isolated                   // its settle was refused together with others'; it is settled by itself
	blocked                    // Redis refuses its settle for a reason that waiting does not cure; tried again each minute
	states
)

// A capsule is a set of queues with a concurrency of its own, and the number of its runs in each state.
type capsule struct {
	Capsule
	counts   [states]int
	promised int // jobs that takes under way may bring
}

// idle returns how many jobs the capsule has processors for, besides those that takes under way may bring.
func (c *capsule) idle() int {
	busy := c.promised
	for s := awaitingStart; s <= unacked; s++ {
		busy += c.counts[s]
	}
	return c.Concurrency - busy
}

// The ledger holds every run that this process knows, in the order in which each came to its state. All
// that the loop decides by (idle processors, what a settle contains, whether a stop is complete) is derived
// from it.
type ledger struct {
	lists [states]runList
	alike []int32 // how many runs have a sum with this remainder
}

// A runList is a linked list, so that a run moves between states without allocation or search.
type runList struct {
	first, last *Run
	count       int
}

// newLedger makes a ledger for a process that runs so many jobs at once. The table of sums is large enough
// that a new job seldom looks like one that is in hand.
func newLedger(concurrency int) ledger { return ledger{alike: make([]int32, 64*concurrency+64)} }

// move is the only way from one state to another; it keeps all counts.
func (l *ledger) move(r *Run, to state) {
	if r.state == gone {
		r.owner.held++
		l.alike[r.sum%uint64(len(l.alike))]++
	} else {
		l.lists[r.state].remove(r)
		r.capsule.counts[r.state]--
	}
	if r.state = to; to == gone {
		r.owner.drop(r)
		l.alike[r.sum%uint64(len(l.alike))]--
		return
	}
	l.lists[to].add(r)
	r.capsule.counts[to]++
}

// moveAll moves all runs of one state.
func (l *ledger) moveAll(from, to state) {
	for r := l.first(from); r != nil; r = l.first(from) {
		l.move(r, to)
	}
}

// transfer makes a run of an earlier session one of s, which has taken its job again.
func (s *Session) transfer(r *Run) {
	r.owner.drop(r)
	s.seq++
	r.owner, r.seq = s, s.seq
	s.held++
}

// drop records that the session has a run no more.
func (s *Session) drop(r *Run) {
	s.held--
	if s.quarantined == r {
		s.quarantined = nil
	}
}

func (l *ledger) first(in state) *Run { return l.lists[in].first }

// count returns how many runs are in any of these states.
func (l *ledger) count(in ...state) (count int) {
	for _, s := range in {
		count += l.lists[s].count
	}
	return count
}

// of yields the runs that lie in the lists of a session.
func (l *ledger) of(session *Session) iter.Seq[*Run] {
	return func(yield func(*Run) bool) {
		for s := range l.lists {
			for r := range l.in(state(s)) {
				if r.owner == session && !yield(r) {
					return
				}
			}
		}
	}
}

// in yields the runs in one state. The run that was yielded last may be moved.
func (l *ledger) in(s state) iter.Seq[*Run] {
	return func(yield func(*Run) bool) {
		for r := l.lists[s].first; r != nil; {
			next := r.next
			if !yield(r) {
				return
			}
			r = next
		}
	}
}

// find returns the session's run of a job with these bytes from this queue, or nil. Usually there is none,
// which costs one hash of a few bytes.
func (l *ledger) find(session *Session, queue, bytes string) *Run {
	if l.alike[sumOf(bytes)%uint64(len(l.alike))] == 0 {
		return nil
	}
	for r := range l.of(session) {
		if r.Bytes == bytes && r.Queue == queue && !r.quarantined {
			return r
		}
	}
	return nil
}

// sumOf returns a hash of the end of a payload, where jid and times are: equal payloads have equal sums,
// others hardly ever.
func sumOf(bytes string) uint64 { return maphash.String(seed, bytes[max(len(bytes)-tail, 0):]) }

// tail is how many bytes sumOf reads: a jid and two times with their names.
const tail = 96

var seed = maphash.MakeSeed()

func (l *runList) add(r *Run) {
	if r.prev = l.last; r.prev != nil {
		r.prev.next = r
	} else {
		l.first = r
	}
	l.last = r
	l.count++
}

func (l *runList) remove(r *Run) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		l.last = r.prev
	}
	r.next, r.prev = nil, nil
	l.count--
}

// finish decides the outcome of a run, which is settled in one of the next pipelines.
func (l *ledger) finish(r *Run, outcome job.Outcome) {
	r.outcome = outcome
	l.move(r, finished)
}

// count returns how many runs are in any of these states.
func (l *Loop) count(in ...state) (count int) {
	for _, k := range l.spaces {
		count += k.ledger.count(in...)
	}
	return count
}

// Concurrency returns the maximum number of jobs that run at once, in all capsules.
func (l *Loop) Concurrency() (count int) {
	for _, c := range l.cfg.Capsules {
		count += c.Concurrency
	}
	return count
}
