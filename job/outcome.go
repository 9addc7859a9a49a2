package job

import "time"

// An Exit is a way for a run to end. A run that a crash interrupted has none.
type Exit string

const (
	// ExitDone ends the job: it succeeded.
	ExitDone Exit = "done"
	// ExitRetry moves the job to the retry set, to run again.
	ExitRetry Exit = "retry"
	// ExitDead moves the job to the dead set, for an operator.
	ExitDead Exit = "dead"
	// ExitDiscarded ends the job without keeping it.
	ExitDiscarded Exit = "discarded"
	// ExitCancelled ends a job that was cancelled, without keeping it.
	ExitCancelled Exit = "cancelled"
	// ExitExpired ends a job whose time to start or to finish was over, without keeping it.
	ExitExpired Exit = "expired"
	// ExitSnoozed moves the job to the schedule: its handler asked to run later, which is not a failure.
	ExitSnoozed Exit = "snoozed"
	// ExitRequeued returns the job to the head of its queue, as if it had not been taken.
	ExitRequeued Exit = "requeued"
)

// An Outcome is the end of one run: where the job goes, with which bytes, and what is counted. Only the
// functions below make outcomes, so invalid ones cannot exist. The zero Outcome is none.
type Outcome struct {
	exit              Exit
	payload           string
	after             time.Duration
	processed, failed bool
}

// Done returns the outcome of a success. It counts as processed.
func Done() Outcome { return Outcome{exit: ExitDone, processed: true} }

// Retried returns the outcome of a failure that is retried after a delay, with new bytes. It counts as
// processed and as failed, as in Sidekiq. A negative delay is 0.
func Retried(payload string, after time.Duration) Outcome {
	return Outcome{exit: ExitRetry, payload: payload, after: max(after, 0), processed: true, failed: true}
}

// Died returns the outcome of a failure that is not retried; the job is kept, with new bytes. It counts as
// processed and as failed.
func Died(payload string) Outcome {
	return Outcome{exit: ExitDead, payload: payload, processed: true, failed: true}
}

// Unread returns the outcome of a payload that could not be read, with the result of KeepUnreadable. It
// counts like Died, so that the counters show it.
func Unread(payload string) Outcome { return Died(payload) }

// Discarded returns the outcome of a job that is not kept. It counts as processed, and as failed if the
// reason was an error.
func Discarded(failed bool) Outcome {
	return Outcome{exit: ExitDiscarded, processed: true, failed: failed}
}

// Cancelled returns the outcome of a job that was cancelled, before its start or during its run. It counts as
// processed, as in Sidekiq.
func Cancelled() Outcome { return Outcome{exit: ExitCancelled, processed: true} }

// Expired returns the outcome of a job that would have started too late or, if it failed, whose run did not
// finish in time. It counts as processed.
func Expired(failed bool) Outcome {
	return Outcome{exit: ExitExpired, processed: true, failed: failed}
}

// Snoozed returns the outcome of a run whose handler asked to run again after a delay. It is not counted. A
// negative delay is 0.
func Snoozed(payload string, after time.Duration) Outcome {
	return Outcome{exit: ExitSnoozed, payload: payload, after: max(after, 0)}
}

// Requeued returns the outcome of a run that the worker itself ended: the job goes back unchanged, and is
// not counted.
func Requeued() Outcome { return Outcome{exit: ExitRequeued} }

// Exit returns where the job goes.
func (o Outcome) Exit() Exit { return o.exit }

// Payload returns the job's new bytes; "" if the job has ended, or keeps its bytes (Requeued).
func (o Outcome) Payload() string { return o.payload }

// After returns how long the job waits in the retry set or the schedule; never negative, and 0 for other
// exits.
func (o Outcome) After() time.Duration { return o.after }

// Counts reports which of the two counters the run increments. A failed run is always processed too.
func (o Outcome) Counts() (processed, failed bool) { return o.processed, o.failed }
