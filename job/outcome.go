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
	// ExitWaits moves the job to the front of its gate's waiting list, and lets the gate start nothing for a
	// while: what the job calls has had too many requests. It is not a failure.
	ExitWaits Exit = "waits"
)

// effects is what an exit means for the job and for the counters. The zero value is the safe one: a job that
// goes on, with its bytes, its lock and its state.
type effects struct {
	exit Exit
	// ends: the job has ended, successfully or not, and does not run again by itself. Its lock is released.
	ends bool
	// carries: the exit stores new bytes of the job.
	carries bool
	// processed and failed: the run increments these counters. An Outcome may count as failed in addition.
	processed, failed bool
	// unfinished: the run may not have begun, or was cut short. Its duration says nothing about its class.
	unfinished bool
	// forgets: the state of the job in Redis (its cursor, for example) is deleted with it. A dead job keeps it
	// for an operator's retry.
	forgets bool
	// fault: the run did not do what was asked of it, and error handlers are called.
	fault bool
}

// The table of all exits. A job has one place at any time, and everything that follows from where a run sends
// it, is here; other packages ask. ExitDone is first because most runs end so.
var table = [...]effects{
	{exit: ExitDone, ends: true, processed: true, forgets: true},
	{exit: ExitRetry, carries: true, processed: true, failed: true, fault: true},
	{exit: ExitDead, ends: true, carries: true, processed: true, failed: true, fault: true},
	{exit: ExitDiscarded, ends: true, processed: true, forgets: true, fault: true},
	{exit: ExitSnoozed, carries: true},
	{exit: ExitRequeued, unfinished: true},
	{exit: ExitWaits},
	{exit: ExitCancelled, ends: true, processed: true, unfinished: true, forgets: true, fault: true},
	{exit: ExitExpired, ends: true, processed: true, unfinished: true, forgets: true, fault: true},
}

// Exits are all exits, in a fixed order.
var Exits = func() (exits [len(table)]Exit) {
	for i := range table {
		exits[i] = table[i].exit
	}
	return exits
}()

var noEffects effects

// effects returns the row of an exit; the zero row for an exit that does not exist. The caller does not change
// it.
func (e Exit) effects() *effects {
	for i := range table {
		if table[i].exit == e {
			return &table[i]
		}
	}
	return &noEffects
}

// Ends reports whether the job has ended: it does not run again by itself, and its unique lock is released.
//
// A job that is dropped before its run begins must leave by such an exit. Its start may have been recorded, and
// has then freed the lock: a job that waited on without it would let a duplicate in.
func (e Exit) Ends() bool { return e.effects().ends }

// Carries reports whether the exit stores new bytes of the job.
func (e Exit) Carries() bool { return e.effects().carries }

// Unfinished reports whether a run with this exit may not have begun, or may have been cut short, so that its
// duration says nothing about its class.
func (e Exit) Unfinished() bool { return e.effects().unfinished }

// KeepsState reports whether the state of the job in Redis, such as its cursor, stays after the run: the job
// goes on, or an operator may retry it from the dead set.
func (e Exit) KeepsState() bool { return !e.effects().forgets }

// Fault reports whether the run did not succeed. A run that asked to continue later is no fault.
func (e Exit) Fault() bool { return e.effects().fault }

// An Outcome is the end of one run: where the job goes, with which bytes, and what is counted. Only the
// functions below make outcomes, so invalid ones cannot exist. The zero Outcome is none.
type Outcome struct {
	exit    Exit
	payload string
	after   time.Duration
	failed  bool // counts as failed, although not every run with this exit does
}

// Done returns the outcome of a success. It counts as processed.
func Done() Outcome { return Outcome{exit: ExitDone} }

// Retried returns the outcome of a failure that is retried after a delay, with new bytes. It counts as
// processed and as failed, as in Sidekiq. A negative delay is 0.
func Retried(payload string, after time.Duration) Outcome {
	return Outcome{exit: ExitRetry, payload: payload, after: max(after, 0)}
}

// Died returns the outcome of a failure that is not retried; the job is kept, with new bytes. It counts as
// processed and as failed.
func Died(payload string) Outcome {
	return Outcome{exit: ExitDead, payload: payload}
}

// Unread returns the outcome of a payload that could not be read, with the result of KeepUnreadable. It
// counts like Died, so that the counters show it.
func Unread(payload string) Outcome { return Died(payload) }

// Discarded returns the outcome of a job that is not kept. It counts as processed, and as failed if the
// reason was an error.
func Discarded(failed bool) Outcome {
	return Outcome{exit: ExitDiscarded, failed: failed}
}

// Cancelled returns the outcome of a job that was cancelled, before its start or during its run. It counts as
// processed, as in Sidekiq.
func Cancelled() Outcome { return Outcome{exit: ExitCancelled} }

// Expired returns the outcome of a job that would have started too late or, if it failed, whose run did not
// finish in time. It counts as processed.
func Expired(failed bool) Outcome {
	return Outcome{exit: ExitExpired, failed: failed}
}

// Snoozed returns the outcome of a run whose handler asked to run again after a delay. It is not counted. A
// negative delay is 0.
func Snoozed(payload string, after time.Duration) Outcome {
	return Outcome{exit: ExitSnoozed, payload: payload, after: max(after, 0)}
}

// Requeued returns the outcome of a run that the worker itself ended: the job goes back unchanged, and is
// not counted.
func Requeued() Outcome { return Outcome{exit: ExitRequeued} }

// Waits returns the outcome of a run whose handler got too many requests: the job waits first at its gate,
// unchanged, and the gate starts nothing for this time. It is not counted. Only a job with a gate can wait. A
// negative time is 0.
func Waits(after time.Duration) Outcome { return Outcome{exit: ExitWaits, after: max(after, 0)} }

// Exit returns where the job goes.
func (o Outcome) Exit() Exit { return o.exit }

// Payload returns the job's new bytes; "" if the job has ended, or keeps its bytes (Requeued,
// Waits).
func (o Outcome) Payload() string { return o.payload }

// After returns how long the job waits in the retry set, in the schedule or, with its gate, in the waiting
// list; never negative, and 0 for other exits.
func (o Outcome) After() time.Duration { return o.after }

// Like reports whether both have one exit and count alike; their bytes and times may differ.
func (o Outcome) Like(other Outcome) bool { return o.exit == other.exit && o.failed == other.failed }

// Counts reports which of the two counters the run increments. A failed run is always processed too.
func (o Outcome) Counts() (processed, failed bool) {
	row := o.exit.effects()
	return row.processed, row.failed || o.failed
}
