package client

import (
	"errors"
	"fmt"
)

// Status is the known outcome of a push.
type Status string

const (
	// StatusQueued means that the job is in its queue.
	StatusQueued Status = "queued"
	// StatusScheduled means that the job is in the schedule, and goes to its queue when it is due.
	StatusScheduled Status = "scheduled"
	// StatusPrepared means that the job is complete, and that PushPrepared will store it.
	StatusPrepared Status = "prepared"
	// StatusRefused means that middleware refused the job; see Receipt.Reason. It is not an error.
	StatusRefused Status = "refused"
	// StatusDuplicate means that the job was not stored, because an equal job, or one with the same Key, holds
	// their common lock; see Receipt.Holder. It is not an error.
	StatusDuplicate Status = "duplicate"
	// StatusUnknown means that Redis may or may not have the job: the reply was lost. The error is
	// ErrUnknown.
	StatusUnknown Status = "unknown"
	// StatusNotPushed means that the job is certainly not in Redis. The error says why.
	StatusNotPushed Status = "not_pushed"
)

// stored reports whether Redis has the job.
func (s Status) stored() bool { return s == StatusQueued || s == StatusScheduled }

// A Receipt reports the outcome of one push. The receipt of a PushOnce job that is not known to be stored
// also holds what Client.Repeat needs, including the payload. JSON does not include that part, so only the
// client that returned the receipt can repeat the push.
type Receipt struct {
	// JID is the job's id. The client generates it unless the job has one. After StatusDuplicate no job has it,
	// unless the duplicate was marked: to wait for the job that holds the lock, use Holder.
	JID   string `json:"jid"`
	Queue string `json:"queue"`
	// Shard is the name of the shard that the job goes to; empty for a client without shards.
	Shard  string `json:"shard,omitempty"`
	Status Status `json:"status"`
	// Reason is the reason of a refusal, for people.
	Reason string `json:"reason,omitempty"`
	// Holder is the jid of the job that holds the lock, for a duplicate that was refused or marked
	// (dedup.Rule.MarkDuplicates). With a Key or dedup.UntilExpired that job may have ended. If a job is pushed
	// again under its own jid after its start, Holder is that jid.
	Holder string `json:"holder,omitempty"`
	// Replicas is how many replicas have the push, if it waited for any (RawJob.Replicas, Config.Replicas), and
	// ReplicasUnknown if Redis has not said how many. For a duplicate they have the job that holds the lock.
	Replicas int `json:"replicas,omitempty"`

	// unstored is set while the job is not known to be stored. Few receipts have it, and a bulk push makes
	// many, so it takes one word.
	unstored *unstored
}

// An unstored is what is known of a job that is not known to be stored.
type unstored struct {
	push    *oncePush // can send the job again; nil if nothing may
	at      int       // among the jobs of push
	planned Status    // once it is stored
	marks   bool      // if the job is a duplicate, it is stored and marked
}

// repeats returns the push that can send the job again, or nil.
func (r *Receipt) repeats() *oncePush {
	if r.unstored == nil {
		return nil
	}
	return r.unstored.push
}

// setHolder records which job holds the lock of a duplicate. A marked duplicate is stored all the same.
func (r *Receipt) setHolder(holder string, marked bool) {
	if r.Holder = holder; !marked {
		r.Status = StatusDuplicate
	}
}

var (
	// ErrUnknown means that Redis may or may not have the job, or may still receive it: the request may have
	// been sent, and the reply was lost. The client does not push again, because that could store the job
	// twice. For a PushOnce job, Client.Repeat pushes again safely.
	ErrUnknown = errors.New("belay: unknown outcome: Redis may or may not have the job")
	// ErrFull means that Redis has reached its maxmemory and refused the push. Nothing was stored.
	ErrFull = errors.New("belay: Redis is out of memory and takes no new jobs: let workers drain it, or raise its maxmemory")
	// ErrOldWorker means that a process on this keyspace is too old to run the job correctly. Nothing was
	// stored.
	ErrOldWorker = errors.New("a worker is too old for this job")
	// ErrNotRepeatable is the error of Repeat for a push that must not be sent again: the job was not pushed
	// as PushOnce, another client pushed it, or it was first sent longer ago than RepeatWindow. Nothing was
	// sent.
	ErrNotRepeatable = errors.New("belay: the push cannot be repeated")
)

// An InvalidError reports why a job cannot be pushed. Nothing was sent.
type InvalidError struct {
	// Class is the job's class, if it has one.
	Class string
	Err   error
}

func (e *InvalidError) Error() string {
	const maxClass = 255 // the limit of names; an error need not repeat the whole of a longer one
	return fmt.Sprintf("belay: cannot push a job of class %.*q: %v", maxClass, e.Class, e.Err)
}

func (e *InvalidError) Unwrap() error { return e.Err }
