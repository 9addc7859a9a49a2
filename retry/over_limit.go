package retry

import (
	"errors"
	"strconv"
	"time"

	"github.com/belayq/belay/job"
)

// ErrOverLimit is the error of code that asked for a slot of a limit and got none in time. A job whose run
// ends with it is snoozed, at most maxOverLimit times, unless its class or server has a rule for this error.
var ErrOverLimit = errors.New("belay: over the limit: no slot was free in time")

const (
	// maxOverLimit is how often a job is snoozed for ErrOverLimit, as in Sidekiq Enterprise. The next time is a
	// failure, so that a limit that never has room shows in the retry set.
	maxOverLimit = 20
	// overLimitStep is how much longer each of these snoozes is than the one before, as there.
	overLimitStep = 5 * time.Minute
)

// overLimit returns the verdict about a run that ended with ErrOverLimit; ok is false for any other, and for a
// job that has been snoozed for it too often.
func (f *failure) overLimit() (v Verdict, ok bool) {
	if !Is(f.run.Err, ErrOverLimit) || Panicked(f.run.Err) != nil {
		return v, false
	}
	text, _ := f.run.Job.Field(job.FieldOverLimit)
	count, _ := strconv.Atoi(text) // another program may have written anything
	if count = max(count, 0) + 1; count > maxOverLimit {
		return v, false
	}
	after := time.Duration(count)*overLimitStep + time.Second
	if f.run.Rand != nil {
		after += time.Duration(f.run.Rand(int(overLimitStep/time.Second))) * time.Second
	}
	payload := f.run.Job.Patch(job.SetInt(job.FieldOverLimit, count))
	return Verdict{Outcome: job.Snoozed(payload, after), Reason: "snoozed: over its limit", Ruled: true}, true
}
