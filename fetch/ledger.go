package fetch

import (
	"hash/maphash"
	"iter"

	"github.com/belayq/belay/job"
)

// A Share is the share of the processors that the queues of one capsule have, and how many of them are busy.
type Share struct {
	Order *QueueOrder
	// Concurrency is how many jobs of these queues run at once.
	Concurrency int

	intakes  []*intake // one for each keyspace
	busy     int       // runs that occupy a processor
	reserved int       // jobs that takes in flight may bring
}

// idle returns the number of idle processors of the share, less the jobs that takes in flight may bring.
func (s *Share) idle() int { return s.Concurrency - s.busy - s.reserved }

// occupy adds runs that occupy a processor.
func (in *intake) occupy(runs int) {
	in.busy += runs
	in.share.busy += runs
}

// reserve adds jobs that takes in flight may bring.
func (in *intake) reserve(jobs int) {
	in.reserved += jobs
	in.share.reserved += jobs
}

// The ledger holds every run of this process, by state, in the order in which the runs reached that state.
// The loop derives its decisions from it: which processors are idle, what a settle contains, whether a stop
// is complete.
type ledger struct {
	lists [states]runList
	alike []int32 // number of runs by the remainder of their sum
}

// A runList is a linked list, so that a run moves between states without allocation or search.
type runList struct {
	first, last *Run
	count       int
}

// newLedger returns a ledger for this concurrency. The table of sums is so large that a new job seldom shares
// a slot with a current run.
func newLedger(concurrency int) ledger { return ledger{alike: make([]int32, 64*concurrency+64)} }

// move changes the state of a run and all counts. Nothing else changes a state.
func (l *ledger) move(r *Run, to state) {
	if r.state == gone {
		r.owner.held++
		l.alike[r.sum%uint64(len(l.alike))]++
	} else {
		l.lists[r.state].remove(r)
	}
	if was, is := r.state.busy(), to.busy(); was && !is {
		r.intake.occupy(-1)
	} else if is && !was {
		r.intake.occupy(1)
	}
	if r.state = to; to == gone {
		r.owner.drop(r)
		l.alike[r.sum%uint64(len(l.alike))]--
		return
	}
	l.lists[to].add(r)
}

// moveAll moves all runs in one state to another.
func (l *ledger) moveAll(from, to state) {
	for r := range l.in(from) {
		l.move(r, to)
	}
}

// transfer moves a run from an earlier session to s, which has taken its job again.
func (s *Session) transfer(r *Run) {
	r.owner.drop(r)
	s.seq++
	r.owner, r.seq = s, s.seq
	s.held++
}

// drop removes a run from the session.
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

// of yields the runs whose jobs are in the lists of a session.
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

// in yields the runs in one state. The caller may move the run that was yielded last.
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

// find returns the session's run with the bytes and the queue of r, or nil. Usually there is none, which costs
// one look into a table.
func (l *ledger) find(session *Session, r *Run) *Run {
	if l.alike[r.sum%uint64(len(l.alike))] == 0 {
		return nil
	}
	for other := range l.of(session) {
		if other.Bytes == r.Bytes && other.Queue == r.Queue && !other.quarantined {
			return other
		}
	}
	return nil
}

// sumOf returns a hash of the end of a payload, where jid and times are. Different payloads hardly ever have
// equal sums.
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

// finish records the outcome of a run. One of the next pipelines settles it.
func (k *Keyspace) finish(r *Run, outcome job.Outcome) {
	r.outcome = outcome
	if k.outage.away {
		k.ledger.move(r, unsent)
	} else {
		k.ledger.move(r, finished)
	}
}

// leave removes a run from the ledger after its job has left its list. A page that was requested before may
// still contain the job.
func (k *Keyspace) leave(r *Run) {
	if under := k.reconcile.readings[r.ownList()]; under != nil && r.owner == k.session {
		under.left[r.Bytes]++
	}
	r.owner.left++
	k.ledger.move(r, gone)
}

// count returns how many runs are in any of these states.
func (l *Loop) count(in ...state) (count int) {
	for _, k := range l.spaces {
		count += k.ledger.count(in...)
	}
	return count
}

// Concurrency returns the maximum number of jobs that run at once.
func (l *Loop) Concurrency() (count int) {
	for _, s := range l.shares {
		count += s.Concurrency
	}
	return count
}
