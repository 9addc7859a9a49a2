package fetch

import (
	"sync/atomic"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A Run is one job that this process has taken and whose settle is not yet confirmed.
type Run struct {
	Bytes string
	Queue string
	// Session is the session under which the job was taken. Its Context is the run's.
	Session *Session

	space       *Keyspace
	owner       *Session // the session that has the job in its list: Session, or a later one that took it again
	intake      *intake
	quarantined bool  // the job is in the quarantine list
	seq         int64 // number of the run in its owner's session, from 1
	state       state
	outcome     job.Outcome
	mayOwn      bool                    // the payload may name something that belongs to the job (job.MayOwn)
	lock        *heldLock               // the lock that the payload names; nil for nearly all
	gate        *lua.Gate               // what decides whether the run may start; nil for nearly all
	starts      int                     // calls for its start that Redis has executed, or may have
	started     bool                    // Redis has recorded the start
	refused     bool                    // Redis has refused the start, and the job goes back
	reclaimed   bool                    // the job was an orphaned entry
	undoStart   bool                    // Redis must record that the run does not start after all
	first       bool                    // a crash has interrupted the job: at its gate it waits before others
	abandonment *abandonment            // the state of an abandoned run; nil for nearly all
	sum         uint64                  // of Bytes
	read        atomic.Pointer[job.Job] // the parsed job; nil until Job has read the payload
	saved       atomic.Pointer[Saved]   // nil for nearly all
	next, prev  *Run                    // in the list of its state
}

// Shard returns the number of the keyspace from which the job was taken, from 0 in the order of Loop.Open.
func (r *Run) Shard() int { return r.space.index }

// Gated reports whether the job may wait at a gate: a quarantined one may not.
func (r *Run) Gated() bool { return r.gate != nil && !r.quarantined }

// Job returns the job as job.ParseToRun does. It reads the payload at the first call; any goroutine may
// call it.
func (r *Run) Job() (*job.Job, error) {
	if read := r.read.Load(); read != nil {
		return read, nil
	}
	read, err := job.ParseToRun(r.Bytes)
	if err != nil {
		return nil, err
	}
	r.read.CompareAndSwap(nil, read)
	return r.read.Load(), nil
}

// JID returns the job's id; "" if the payload cannot be read: such a job never runs.
func (r *Run) JID() string {
	parsed, err := r.Job()
	if err != nil {
		return ""
	}
	return parsed.JID()
}

// An ownList is one of our lists: the working list of a queue, or the quarantine list, which belongs to no
// queue.
type ownList struct {
	queue       string
	quarantined bool
}

func (r *Run) ownList() ownList {
	if r.quarantined {
		return ownList{quarantined: true}
	}
	return ownList{queue: r.Queue}
}

// keyOf returns the key of a list of a session.
func (k *Keyspace) keyOf(session *Session, list ownList) string {
	if list.quarantined {
		return k.Keys.QuarantineRun(session.Identity)
	}
	return k.Keys.Working(list.queue, session.Identity)
}

// A state is the progress of a run. A run is in exactly one state. In the states from awaitingStart to
// finished it occupies a processor: see busy.
type state int

const (
	gone          state = iota // not in the ledger
	awaitingStart              // taken; Redis must first record its start, or that it does not start
	starting                   // the call that records the start is in flight
	ready                      // it waits for a processor
	running                    // a processor has it
	abandoned                  // its session has ended, and its handler has not returned
	returned                   // it returned unfinished during a stop; it is requeued with the others, in order
	finished                   // its outcome is known and sent with the next pipeline
	unsent                     // its outcome is known and sent when Redis answers again
	settling                   // its settle was sent for the first time
	unacked                    // its settle got no reply and is sent again
	isolated                   // its settle was refused in a batch; it is settled alone
	blocked                    // Redis refuses its settle for a permanent reason; retried each minute
	states
)

// busy reports whether a run in this state occupies a processor. A run that waits for its settle does not:
// a Redis that does not answer must not stop the work for the other keyspaces.
func (s state) busy() bool { return awaitingStart <= s && s <= finished }
