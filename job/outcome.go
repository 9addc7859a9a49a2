package job

import "time"

// An Exit is a way for a run to end. A run that was in hand in a crash has none: a crash ends nothing.
type Exit string

const (
	// ExitDone ends the job: it succeeded.
	ExitDone Exit = "done"
	// ExitRetry puts it into the retry set, to run again.
	ExitRetry Exit = "retry"
	// ExitDead puts it into the dead set, to be looked at by people.
	ExitDead Exit = "dead"
	// ExitDiscarded ends the job without keeping it.
	ExitDiscarded Exit = "discarded"
	// ExitSnoozed puts it into the schedule: it asked to be run later, which is no failure.
	ExitSnoozed Exit = "snoozed"
	// ExitRequeued puts it back to the head of its queue, as if it had not been taken.
	ExitRequeued Exit = "requeued"
)

// An Outcome is how one run ends: where the job goes, with which bytes, and what is counted. It is made by one of the
// functions below, one for each legal end, so that no impossible one can be put together. The zero Outcome is none.
type Outcome struct {
	exit              Exit
	payload           string
	after             time.Duration
	processed, failed bool
}

// Done is a success. It counts as processed.
func Done() Outcome { return Outcome{exit: ExitDone, processed: true} }

// Retried is a failure to be tried again after a delay, with new bytes. It counts as processed and as failed, because
// that is how Sidekiq counts. A negative delay is none.
func Retried(payload string, after time.Duration) Outcome {
	return Outcome{exit: ExitRetry, payload: payload, after: max(after, 0), processed: true, failed: true}
}

// Died is a failure that will not be tried again; the job is kept, with new bytes. It counts as processed and as failed.
func Died(payload string) Outcome {
	return Outcome{exit: ExitDead, payload: payload, processed: true, failed: true}
}

// Unread ends a payload that could not be read, with the result of KeepUnreadable. It counts as Died does, so
// that it is visible in the counters.
func Unread(payload string) Outcome { return Died(payload) }

// Discarded is the end of a job that is not kept. It counts as processed, and as failed when an error brought it about.
func Discarded(failed bool) Outcome {
	return Outcome{exit: ExitDiscarded, processed: true, failed: failed}
}

// Snoozed is a run that asks to be done again after a delay. It counts as nothing. A negative delay is none.
func Snoozed(payload string, after time.Duration) Outcome {
	return Outcome{exit: ExitSnoozed, payload: payload, after: max(after, 0)}
}

// Requeued is a run that was cut short by ourselves: the job goes back as it came, and counts as nothing.
func Requeued() Outcome { return Outcome{exit: ExitRequeued} }

// Exit returns where the job goes.
func (o Outcome) Exit() Exit { return o.exit }

// Payload returns the bytes the job lives on with; "" when it does not live on, or lives on with those it had
// (Requeued).
func (o Outcome) Payload() string { return o.payload }

// After returns how long the job waits, from now, in its next home; never negative, and 0 where nothing waits.
func (o Outcome) After() time.Duration { return o.after }

// Counts says which of the two counters the run moves. A failed run is always a processed one too.
func (o Outcome) Counts() (processed, failed bool) { return o.processed, o.failed }
