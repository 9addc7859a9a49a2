package client

import (
	"errors"
	"fmt"

	"github.com/belayq/belay/driver"
)

// Status is what is known of a pushed job.
type Status string

const (
	// StatusQueued says that the job is in its queue.
	StatusQueued Status = "queued"
	// StatusScheduled says that the job is in the schedule, and goes to its queue when its time has come.
	StatusScheduled Status = "scheduled"
	// StatusRefused says that middleware did not want the job pushed; see Receipt.Reason. That is no error.
	StatusRefused Status = "refused"
	// StatusDuplicate says that the job was not stored, because another that counts as the same holds the
	// lock that both need; see Receipt.Holder. That is no error.
	StatusDuplicate Status = "duplicate"
	// StatusUnknown says that Redis may or may not have the job: its answer was lost. The error is ErrUnknown.
	StatusUnknown Status = "unknown"
	// StatusNotPushed says that the job is certainly not in Redis. The error says why.
	StatusNotPushed Status = "not_pushed"
)

// stored says that Redis has the job.
func (s Status) stored() bool { return s == StatusQueued || s == StatusScheduled }

// A Receipt says what became of one pushed job. That of a PushOnce job that is not known to be stored holds
// what is needed to repeat the push, payload and all, for as long as it is kept. This is not in its JSON: it
// is for the client that gave it, and cannot be written down for another process.
type Receipt struct {
	// JID is the job's id, drawn by the client unless the job brought one.
	JID    string `json:"jid"`
	Queue  string `json:"queue"`
	Status Status `json:"status"`
	// Reason is why the job was refused, for people.
	Reason string `json:"reason,omitempty"`
	// Holder is, of a duplicate, the jid of the job that it is a duplicate of, also when the job was stored
	// and marked all the same (dedup.Rule.MarkDuplicates). It is the JID itself of a job that was pushed
	// again, under its own jid, after its start.
	Holder string `json:"holder,omitempty"`

	// push is how to send it again, and then what its Status is when it is stored: both are set while it is
	// not.
	push  *oncePush
	then  Status
	at    int  // among the jobs of push
	marks bool // as a duplicate it is stored, and marked
}

// meet says whose duplicate the job is. One that is marked is stored nevertheless.
func (r *Receipt) meet(holder string, marked bool) {
	if r.Holder = holder; !marked {
		r.Status = StatusDuplicate
	}
}

var (
	// ErrUnknown says that Redis may or may not have the job, or may still get it: the push may have left,
	// and its answer was lost. The client does not push again, because that could double the job;
	// Client.Repeat does it without harm when the job is PushOnce.
	ErrUnknown = errors.New("belay: unknown outcome: Redis may or may not have the job")
	// ErrFull says that Redis has reached its maxmemory and refused the push. Nothing was stored.
	ErrFull = errors.New("belay: Redis is out of memory and takes no new jobs: let workers drain it, or raise its maxmemory")
	// ErrOldWorker says that a process on this keyspace does not understand what the job needs. Nothing was
	// stored.
	ErrOldWorker = errors.New("a worker is too old for this job")
	// ErrNotRepeatable is Repeat's error for what it must not send again; nothing was sent. The job was not
	// pushed as PushOnce, or it was first sent longer ago than RepeatWindow, or by another client.
	ErrNotRepeatable = errors.New("belay: the push cannot be repeated")
)

// An InvalidError says why a job cannot be pushed by anyone. Nothing of it was sent.
type InvalidError struct {
	// Class is the job's, as far as it has one.
	Class string
	Err   error
}

func (e *InvalidError) Error() string {
	const longest = 255 // what a name may have; what is longer is the mistake itself, and nothing to repeat whole
	return fmt.Sprintf("belay: cannot push a job of class %.*q: %v", longest, e.Class, e.Err)
}

func (e *InvalidError) Unwrap() error { return e.Err }

// pushError says what a failed push means for its jobs.
func pushError(err error) (Status, error) {
	var refused *driver.ServerError
	switch {
	case !driver.Certain(err):
		return StatusUnknown, fmt.Errorf("%w: %w", ErrUnknown, err)
	case errors.As(err, &refused) && refused.Code == "OOM":
		return StatusNotPushed, fmt.Errorf("%w: %w", ErrFull, err)
	default:
		return StatusNotPushed, fmt.Errorf("belay: not pushed: %w", err)
	}
}
