package batch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// MaxNext is how many next jobs one job may have: the script that ends a run stores them all, and it ends many
// runs in one call. A batch has more.
const MaxNext = 16

// MaxSequence is how many jobs may follow one another in one payload. Each is written inside of the one before,
// and Ruby reads no JSON that is nested deeper than a hundred levels.
const MaxSequence = 32

// HasNext reports whether the end of a run may store next jobs.
func HasNext(bytes string, outcome job.Outcome) bool {
	return outcome.Exit() == job.ExitDone && strings.Contains(bytes, `"`+job.FieldThen+`"`)
}

// Next returns the jobs that the end of a run stores: those of a job that is done, with the time now at which
// they enter their queues, written in unit u, and from which their expiry and deadline count. It is nil for any
// other end, and for most jobs. bytes is the payload with which the run began.
//
// The error says which next jobs are left out, because no worker could run them: only a program that does not
// push through Belay writes such ones.
func Next(bytes string, outcome job.Outcome, now time.Time, u job.TimeUnit) (*lua.NextJobs, error) {
	if !HasNext(bytes, outcome) {
		return nil, nil
	}
	parsed, err := job.Parse(bytes)
	if err != nil {
		return nil, err
	}
	var jobs lua.NextJobs
	var errs []error
	for at, text := range parsed.Then() {
		if at == MaxNext {
			errs = append(errs, fmt.Errorf("there are more than %d next jobs", MaxNext))
			break
		}
		next, err := job.Parse(text)
		if err == nil {
			err = job.CheckQueue(next.QueueOrDefault())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("next job %d: %w", at+1, err))
			continue
		}
		edits := append(next.IntoQueue(now, u), next.LimitsFrom(now)...)
		jobs = append(jobs, lua.Next{Bytes: next.Patch(edits...), Queue: next.QueueOrDefault()})
	}
	if len(jobs) == 0 {
		return nil, errors.Join(errs...)
	}
	return &jobs, errors.Join(errs...)
}
