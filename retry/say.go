package retry

import (
	"fmt"
	"time"
)

// An Ask is what a handler wants to become of its job.
type Ask int

const (
	// AskDiscard is to drop the job.
	AskDiscard Ask = iota + 1
	// AskKill is not to try again, and to keep it among the dead.
	AskKill
	// AskRetryIn is to try again after a delay of the handler's choice.
	AskRetryIn
	// AskSnooze says that this was no failure: run it again later.
	AskSnooze
	// AskRequeue reports that this process cannot run the job now.
	AskRequeue
)

// An AskError is an error by which a handler decides what happens to its job. It is made by Discard, Kill,
// In, Snooze and Requeue, and found through any number of wrappers.
type AskError struct {
	Ask Ask
	// After is the delay of AskRetryIn and AskSnooze.
	After time.Duration
	// Cause is why; it may be nil.
	Cause error
}

// Discard says: drop this job; it is not run again and not kept. The run counts as failed when there is a
// cause. The error is never nil, whatever cause is.
func Discard(cause error) error { return &AskError{Ask: AskDiscard, Cause: cause} }

// Kill says: this job cannot succeed; do not try again, keep it among the dead, with cause as its error. A
// job with "dead": false is not kept.
func Kill(cause error) error { return &AskError{Ask: AskKill, Cause: cause} }

// In says: this run has failed, try again in exactly d (at once, if d is negative). It is a failed run like
// any other and uses up a retry; without one left the job dies.
func In(d time.Duration, cause error) error {
	return &AskError{Ask: AskRetryIn, After: max(d, 0), Cause: cause}
}

// Snooze says: not now, run this again in d (at once, if d is negative). It is no failure, counts as nothing
// and uses up no retry, so that a job may snooze for ever.
func Snooze(d time.Duration) error { return &AskError{Ask: AskSnooze, After: max(d, 0)} }

// Requeue returns an error that reports that this process cannot run the job now, for example because it
// lacks memory. The job returns unchanged to the head of its queue, nothing is counted, and the process takes
// nothing from that queue for a moment, so that other processes can.
func Requeue(cause error) error { return &AskError{Ask: AskRequeue, Cause: cause} }

// Error is the cause's text, because that is what people look for; without a cause it says what was asked.
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
