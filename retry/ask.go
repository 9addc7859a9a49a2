package retry

import (
	"fmt"
	"time"
)

// An Ask is the outcome that a handler asks for.
type Ask int

const (
	// AskDiscard drops the job.
	AskDiscard Ask = iota + 1
	// AskKill moves the job to the dead set without further retries.
	AskKill
	// AskRetryIn retries the job after a delay that the handler chooses.
	AskRetryIn
	// AskSnooze runs the job again later, without counting a failure.
	AskSnooze
	// AskRequeue reports that this process cannot run the job now.
	AskRequeue
	// AskRateLimited stops the job's gate for a while, and lets the job wait there.
	AskRateLimited
)

// An AskError is an error that a handler returns to decide what happens to its job. Discard, Kill, In, Snooze,
// Requeue and RateLimited make it. Decide finds it inside any number of wrappers.
type AskError struct {
	Ask Ask
	// After is the delay of AskRetryIn and AskSnooze, and how long AskRateLimited stops the gate.
	After time.Duration
	// Cause is the reason; it may be nil.
	Cause error
}

// Discard returns an error that a handler returns to drop its job: the job does not run again and is not kept.
// The run counts as failed if cause is not nil. The error is never nil.
func Discard(cause error) error { return &AskError{Ask: AskDiscard, Cause: cause} }

// Kill returns an error that a handler returns to move its job to the dead set, with cause as its error and
// without further retries. A job with "dead": false is not kept.
func Kill(cause error) error { return &AskError{Ask: AskKill, Cause: cause} }

// In returns an error that a handler returns to fail its run and to choose the delay: the job runs again after
// exactly d, or at once if d is negative. That uses up a retry; a job without one left dies.
func In(d time.Duration, cause error) error {
	return &AskError{Ask: AskRetryIn, After: max(d, 0), Cause: cause}
}

// Snooze returns an error that a handler returns to run its job again after d, or at once if d is negative. The
// run is not counted as failed and uses up no retry, so a job may snooze for ever.
func Snooze(d time.Duration) error { return &AskError{Ask: AskSnooze, After: max(d, 0)} }

// Requeue returns an error that reports that this process cannot run the job now, for example because it
// lacks memory. The job returns unchanged to the head of its queue, nothing is counted, and the process takes
// nothing from that queue for a moment, so that other processes can.
func Requeue(cause error) error { return &AskError{Ask: AskRequeue, Cause: cause} }

// RateLimited returns an error that reports that another program has refused too many requests. The job waits
// first in the line of its gate, which starts no job for d. The run is not counted as failed and uses up no
// retry. For a job without a gate it is Snooze(d).
func RateLimited(d time.Duration) error { return &AskError{Ask: AskRateLimited, After: max(d, 0)} }

// Error returns the text of the cause. Without a cause it names what was asked.
func (e *AskError) Error() string {
	switch {
	case e == nil:
		return "nothing asked"
	case e.Cause != nil:
		return e.Cause.Error()
	}
	switch e.Ask {
	case AskDiscard:
		return "discarded by its handler"
	case AskKill:
		return "killed by its handler"
	case AskRetryIn:
		return fmt.Sprintf("retry in %v", e.After)
	case AskSnooze:
		return fmt.Sprintf("snoozed for %v", e.After)
	case AskRequeue:
		return "requeued by its handler"
	case AskRateLimited:
		return fmt.Sprintf("rate limited for %v", e.After)
	}
	return "nothing asked"
}

// Unwrap returns the cause.
func (e *AskError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Cause
}
