package fetch

import (
	"time"

	"github.com/belayq/belay/link"
)

// A queueState is the loop's state of one queue.
type queueState struct {
	name   string
	intake *intake

	paused, broken bool
	backOffUntil   time.Time // until when the queue is left to other processes, after one of its jobs was refused here
	quarantined    bool      // it has quarantined jobs and is not paused, by the last reading
	leaving        bool      // no more jobs are taken from it; see follow

	wait  *wait // the idle wait that is open
	takes int   // takes in flight that read it
}

// backOff is how long a queue is left to other processes after one of its jobs was refused here. Without a
// pause, taking and refusing the job would repeat as fast as a round trip allows.
const backOff = time.Second

// An intake is the state of one share in one keyspace.
type intake struct {
	space   *Keyspace
	share   *Share
	order   *QueueOrder // of the queues to take from
	queues  []*queueState
	empty   bool      // the last take found all queues empty, and nothing since then suggests otherwise
	denied  bool      // the last take lacked a permission to move jobs of a queue
	loneAt  time.Time // when a wait last brought a job; zero if a take has brought one since
	pacedAt time.Time // when the next take is due while idle waits are not possible
	waits   int       // open idle waits
	quota   int       // the maximum number of them

	busy     int // runs that occupy a processor
	reserved int // jobs that takes in flight may bring
	turns
}

func newIntake(k *Keyspace, s *Share) *intake {
	return &intake{space: k, share: s, order: s.Order, turns: turns{looks: link.Backoff{First: firstLook, Max: pacedTake}}}
}

// backedOff returns the number of queues that are backed off.
func (in *intake) backedOff() (count int) {
	if in.space.backedOff == 0 {
		return 0
	}
	for _, q := range in.queues {
		if !q.backOffUntil.IsZero() {
			count++
		}
	}
	return count
}

// backOff leaves a queue to other processes for a while.
func (q *queueState) backOff(now time.Time) {
	if q.leaving {
		return // no jobs are taken from it anyway
	}
	if q.backOffUntil.IsZero() {
		q.intake.space.backedOff++
	}
	q.backOffUntil = now.Add(backOff)
}

// endBackOffs ends the back-offs that are over, and returns when the next one ends.
func (k *Keyspace) endBackOffs(now time.Time) (next time.Time) {
	if k.backedOff == 0 {
		return next
	}
	for _, q := range k.queues {
		switch {
		case q.backOffUntil.IsZero():
		case !now.Before(q.backOffUntil):
			q.backOffUntil = time.Time{}
			k.backedOff--
			q.intake.empty = false
		default:
			next = earlier(next, q.backOffUntil)
		}
	}
	return next
}

// readQueuesAgain makes all intakes read their queues again.
func (k *Keyspace) readQueuesAgain() {
	for _, in := range k.intakes {
		in.empty = false
	}
}

// nameQueues records the names of all queues whose lists are ours, for names.
func (k *Keyspace) nameQueues() {
	var names []string
	for _, in := range k.intakes {
		for _, q := range in.queues {
			names = append(names, q.name)
		}
	}
	k.named.Store(&names)
}

// names returns the names of all queues, those that are leaving included. Any goroutine may call it.
func (k *Keyspace) names() []string { return *k.named.Load() }

// namesTaken returns the names of the queues that are not leaving.
func (k *Keyspace) namesTaken() (names []string) {
	for _, in := range k.intakes {
		names = append(names, in.order.Names()...)
	}
	return names
}

// intakeOf returns the intake of a queue; the first one if this process does not take from the queue any more.
func (k *Keyspace) intakeOf(queue string) *intake {
	if q := k.queues[queue]; q != nil {
		return q.intake
	}
	return k.intakes[0]
}

func (k *Keyspace) openWaits() (count int) {
	for _, in := range k.intakes {
		count += in.waits
	}
	return count
}

// earlier returns the earlier of two instants; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
