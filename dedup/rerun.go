package dedup

import (
	"time"

	"github.com/belayq/belay/job"
)

// ofOneLife are the fields that tell what has befallen a job. They are not its producer's, and not its
// successor's.
var ofOneLife = [...]string{
	"retry_count", "failed_at", "retried_at", "error_class", "error_message", "error_backtrace", "discarded_at",
	"interrupted_count", "interrupted_at",
	"at", // has no place in a stored job: Ruby would schedule it again
}

// Rerun returns the payload of the one more run that a job with Again has (see Lock.Reruns): a job like it
// that nothing has befallen yet. Its arguments and all other fields are byte for byte the job's, its lock
// among them, so that what is refused while it runs is served once more.
//
// jid is its own, queue the one it goes to, which is where the job was taken from; "" leaves the payload's
// word as it is. now is Redis' time, and stands as created_at and enqueued_at in unit u.
//
// The answer depends on nothing else, so that a settle that is sent again can be sent with the same bytes.
func Rerun(j *job.Job, jid, queue string, now time.Time, u job.TimeUnit) string {
	edits := []job.Edit{job.SetString("jid", jid), job.SetStamp("created_at", now, u), job.SetStamp("enqueued_at", now, u)}
	if queue != "" && queue != j.Queue() {
		edits = append(edits, job.SetString("queue", queue))
	}
	for _, name := range ofOneLife {
		edits = append(edits, job.Remove(name))
	}
	return j.Patch(edits...)
}
