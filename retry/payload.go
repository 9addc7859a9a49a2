package retry

import (
	"cmp"
	"strings"
	"time"

	"github.com/belayq/belay/job"
)

// payload writes the failure into the job's bytes. It cuts the error's texts until the payload fits its limit:
// first the stack, then the errors of earlier runs, then the message. fits is false if the payload is too long
// even without them.
func (f *failure) payload() (text string, fits bool) {
	limit := cmp.Or(f.policy.PayloadLimit, job.DefaultPayloadLimit) + job.PayloadSlack
	message, lines, past := message(f.run.Err), backtrace(f.run.Job, f.run.Err), f.pastErrors()
	for {
		text = f.run.Job.Patch(append(f.edits(message, lines), f.keep(past)...)...)
		over := len(text) - limit
		switch {
		case over <= 0:
			return text, true
		case len(lines) > 0:
			lines = lines[:len(lines)/2]
		case len(past) > 0:
			past = past[(len(past)+1)/2:] // the oldest half
		case message != "":
			message = strings.ToValidUTF8(message[:max(len(message)-over, 0)], "") // never half a character
		default:
			return text, false
		}
	}
}

// edits are the fields of a failed job, in the order in which Ruby adds them.
func (f *failure) edits(message string, lines []string) []job.Edit {
	edits := append(f.envelope(), job.SetString("error_message", message), job.SetString("error_class", Class(f.run.Err)))
	if f.again {
		edits = append(edits, job.SetStamp("retried_at", f.run.Now, f.policy.Unit))
	}
	// A job that counts failures but does not say since when makes Ruby's arithmetic raise, and Ruby then
	// loses it.
	if !f.stamped {
		edits = append(edits, job.SetStamp("failed_at", f.run.Now, f.policy.Unit))
	}
	edits = append(edits, job.SetInt("retry_count", f.count), f.workerRetries())
	if len(lines) > 0 {
		return append(edits, job.SetString("error_backtrace", job.EncodeBacktrace(lines)))
	}
	// The backtrace of an earlier error would be taken for that of this one.
	return append(edits, job.Remove("error_backtrace"))
}

// workerRetries records the limit for operators, unless they know it. That of an earlier worker would be wrong.
func (f *failure) workerRetries() job.Edit {
	if limit := f.limit(); f.run.Job.RetryRule().Kind == job.RetryDefault && limit != DefaultMaxRetries {
		return job.SetInt(job.FieldWorkerRetries, limit)
	}
	return job.Remove(job.FieldWorkerRetries)
}

// maxPastMessage bounds the message of each error that a job keeps, in characters: enough for the sentence that
// tells errors apart. error_message has the last one in full.
const maxPastMessage = 300

// pastErrors returns the errors of the job's failed runs, with this one, if its class keeps them.
func (f *failure) pastErrors() []job.PastError {
	if f.run.KeepErrors <= 0 {
		return nil
	}
	class, text := Describe(f.run.Err)
	return append(f.run.Job.PastErrors(), job.PastError{
		Attempt: f.run.Job.FailedRuns() + 1, At: f.run.Now.UTC().Truncate(time.Millisecond),
		Class: class, Message: shorten(text, maxPastMessage),
	})
}

// keep returns the edit that keeps these errors; none for a class that keeps none.
func (f *failure) keep(past []job.PastError) []job.Edit {
	if f.run.KeepErrors <= 0 {
		return nil
	}
	return []job.Edit{job.SetPastErrors(past, f.run.KeepErrors)}
}

// envelope completes the fields that the next poller needs to promote the job: Belay's or a Ruby process'.
func (f *failure) envelope() []job.Edit {
	var edits []job.Edit
	queue := cmp.Or(f.run.Job.RetryQueue(), f.run.Queue)
	if queue != "" && queue != f.run.Job.Queue() {
		edits = append(edits, job.SetString("queue", queue))
	}
	// Ruby drops a failed job without "retry" if it does not know the class. So the default that was used is
	// written.
	if _, ok := f.run.Job.Field("retry"); !ok {
		edits = append(edits, job.Edit{Name: "retry", JSON: "true"})
	}
	return append(edits, f.run.Job.IntoSet()...)
}
