package dedup

import (
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// runFields are the fields that record the runs of a job. Its producer did not set them, and its successor
// does not inherit them. RUN_FIELDS in contrib/ruby/belay.rb has the same ones.
var runFields = [...]string{
	"retry_count", "failed_at", "retried_at", "error_class", "error_message", "error_backtrace", job.FieldErrors, "discarded_at",
	"interrupted_count", "interrupted_at", job.FieldOverLimit, job.FieldWorkerRetries,
	job.FieldExpiry, job.FieldDeadline, // counted from another push; expires_in begins anew
	job.FieldBatch, // the extra run is no member: the batch may be over
	job.FieldThen,  // the next jobs follow the job that was pushed with them, once
	"at",           // must not be in a stored job: Ruby would schedule it again
}

// Rerun returns the extra run of a job with Lock.Rerun (see Lock.Reruns), as its next job: the same job without
// a record of earlier runs. Its arguments and all other fields are those of the job, byte for byte, including
// its lock, so that a duplicate refused while it runs leads to another run.
//
// jid is the new jid. queue is the queue from which the job was taken; "" keeps the payload's queue. now is
// Redis' time, for created_at and enqueued_at in unit u.
//
// The result depends on nothing else, so that a settle that is sent again has the same bytes.
func Rerun(j *job.Job, jid, queue string, now time.Time, u job.TimeUnit) *lua.Next {
	edits := []job.Edit{job.SetString("jid", jid), job.SetStamp("created_at", now, u), job.SetStamp("enqueued_at", now, u)}
	if queue != "" && queue != j.Queue() {
		edits = append(edits, job.SetString("queue", queue))
	}
	for _, name := range runFields {
		edits = append(edits, job.Remove(name))
	}
	return &lua.Next{Owner: lua.OwnerOf(jid, j.Class()), Bytes: j.Patch(edits...), Queue: queue}
}
