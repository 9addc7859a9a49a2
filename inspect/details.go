package inspect

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// Details are what else the payload of a job says. Lists leave them out, because most of them cost a search in
// the payload.
type Details struct {
	Tags []string `json:"tags,omitempty"`
	// Meta are the fields that the program added at the push, and those of Sidekiq's middleware in Ruby; none
	// for a job with hidden arguments.
	Meta map[string]string `json:"meta,omitempty"`
	// Retry is how often a failed job is retried: a number, "default" (that of its worker), or "never".
	Retry string `json:"retry"`
	// Timeout limits each run; 0 if the job was pushed without one.
	Timeout Seconds `json:"timeout_seconds,omitzero"`
	// StartBy is when the job must have started, and Deadline when it must be done; otherwise it is dropped.
	StartBy  time.Time `json:"start_by,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Lock is the digest of its unique lock, which it may no longer hold; empty for a job that is not unique.
	Lock string `json:"lock,omitempty"`
	// Periodic is the name of the periodic job that it was enqueued for.
	Periodic string `json:"periodic,omitempty"`
	// Batch is the id of the batch of which it is a member, and CallbackOf that of the batch which called it.
	// Neither may exist any more. An end job of a nested batch has both.
	Batch      string `json:"batch,omitempty"`
	CallbackOf string `json:"callback_of,omitempty"`
	// Next are its next jobs, with those that follow them. After is the jid of the job that this one follows.
	Next  []NextJob `json:"next,omitempty"`
	After string    `json:"after,omitempty"`
	// Payload is the whole job, with its arguments as they may be shown.
	Payload json.RawMessage `json:"payload"`
}

const (
	retryDefault = "default"
	retryNever   = "never"
)

// Describe sets Details; it does nothing for an unreadable entry.
func (e *Entry) Describe() {
	j := e.parsed
	if j == nil {
		return
	}
	details := Details{Tags: e.tags(), Meta: j.Meta(), Retry: retryDefault, Next: e.nextJobs(), After: j.After(), Payload: e.payload()}
	if e.hidden {
		details.Meta = nil
	}
	switch rule := j.RetryRule(); rule.Kind {
	case job.RetryLimit:
		details.Retry = strconv.Itoa(rule.Limit)
	case job.RetryNever:
		details.Retry = retryNever
	case job.RetryDefault:
	}
	details.Timeout.Duration, _ = j.Timeout()
	details.StartBy, details.Deadline = utc(j.StartBy()), utc(j.Deadline())
	if lock, err := dedup.Read(j); err == nil {
		details.Lock = lock.Digest
	}
	if tick, ok := j.Tick(); ok {
		details.Periodic = tick.Name
	}
	member, _ := lua.BatchIn(j, job.FieldBatch)
	callback, _ := lua.BatchIn(j, job.FieldBatchEnded)
	details.Batch, details.CallbackOf = member.ID, callback.ID
	e.Details = &details
}
