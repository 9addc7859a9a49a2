package job

import (
	"encoding/json"
	"time"
)

// FieldErrors is an array of PastError, the oldest first, in jobs whose class keeps its errors.
const FieldErrors = "belay_errors"

// MaxPastErrors is the maximum number of errors that a job keeps, and MaxErrorBytes the maximum size of all of
// them in the payload: each retry carries them through Redis, and readers of lists read them with the job.
const (
	MaxPastErrors = 50
	MaxErrorBytes = 16 << 10
)

// A PastError is the error of one failed run of a job.
type PastError struct {
	// Attempt is the number of the run: see Job.FailedRuns.
	Attempt int `json:"attempt"`
	// At is when the run ended, by Redis' clock.
	At time.Time `json:"at"`
	// Class and Message are as in error_class and error_message; the message is cut.
	Class   string `json:"class"`
	Message string `json:"message"`
}

// PastErrors returns the errors that the job keeps, the oldest first; nil if it keeps none or they cannot be
// read.
func (j *Job) PastErrors() (errs []PastError) {
	text, ok := j.RareField(FieldErrors)
	if !ok || json.Unmarshal([]byte(text), &errs) != nil {
		return nil
	}
	return errs
}

// SetPastErrors returns the edit that writes the errors into a payload: the latest most of them, and fewer if
// they would take more than MaxErrorBytes. No errors remove the field.
func SetPastErrors(errs []PastError, most int) Edit {
	errs = errs[max(len(errs)-most, 0):]
	for ; len(errs) > 0; errs = errs[1:] {
		text, err := Marshal(errs) // not json.Marshal, which escapes <, > and &
		if err == nil && len(text) <= MaxErrorBytes {
			return Edit{Name: FieldErrors, JSON: text}
		}
	}
	return Remove(FieldErrors)
}
