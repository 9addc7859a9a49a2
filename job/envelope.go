package job

import "time"

// Class returns the name of the class, never empty.
func (j *Job) Class() string { return unquote(j.text(fieldClass)) }

// DisplayClass returns the name to show people: display_class, else wrapped (what an adapter carries), else class.
func (j *Job) DisplayClass() string {
	if name := str(j.text(fieldDisplayClass)); name != "" {
		return name
	}
	if name := str(j.text(fieldWrapped)); name != "" {
		return name
	}
	return j.Class()
}

// JID returns the job's id, which stays the same for its whole life.
func (j *Job) JID() string { return unquote(j.text(fieldJID)) }

// Queue returns the queue the payload names, "" when it names none. The queue a job was taken from is the truth;
// this is only what its producer wrote.
func (j *Job) Queue() string { return str(j.text(fieldQueue)) }

// ArgsJSON returns the args array, byte for byte.
func (j *Job) ArgsJSON() string { return j.text(fieldArgs) }

// Args returns the raw JSON of each argument, in order.
func (j *Job) Args() []string {
	text := j.text(fieldArgs)
	args := []string{}
	at := skipSpace(text, 1)
	for text[at] != ']' {
		// The faults cannot be any: Parse has been here.
		end, _ := skipValue(text, at, 2)
		args = append(args, text[at:end])
		at = skipSpace(text, end)
		if text[at] == ',' {
			at = skipSpace(text, at+1)
		}
	}
	return args
}

// Compressed reports whether the args are one Base64 text of their compressed JSON, as GitLab's size limiter
// writes them. It tests for a literal true.
func (j *Job) Compressed() bool { return j.text(fieldCompressed) == "true" }

// A RetryKind says which of Sidekiq's three meanings "retry" has.
type RetryKind int

const (
	// RetryDefault lets the worker's default limit decide. It is what true says, and what is understood when retry is
	// missing, null or something odd: "3" and 3.0 are not integers, and Ruby takes them for a plain yes.
	RetryDefault RetryKind = iota
	// RetryNever is false: a failed job is neither run again nor kept.
	RetryNever
	// RetryLimit is an integer: so many retries. 0 is not RetryNever: the job is kept among the dead.
	RetryLimit
)

// A RetryRule is what a payload says about its retries. Limit counts only for RetryLimit; n retries are n+1 runs.
type RetryRule struct {
	Kind  RetryKind
	Limit int
}

// RetryRule reads "retry".
func (j *Job) RetryRule() RetryRule {
	text := j.text(fieldRetry)
	if text == "false" {
		return RetryRule{Kind: RetryNever}
	}
	if n, ok := integer(text); ok {
		return RetryRule{Kind: RetryLimit, Limit: n}
	}
	return RetryRule{Kind: RetryDefault}
}

// RetryCount returns the number of retries that have failed, and whether the payload has one at all: without one the
// job has not failed yet. It is 0 after the first failure, and -1 after an operator's retry of such a job. One that no int
// holds is the nearest that does.
func (j *Job) RetryCount() (n int, ok bool) { return integer(j.text(fieldRetryCount)) }

// RetryFor returns how long after its first failure the job may be retried, and whether it says so.
func (j *Job) RetryFor() (time.Duration, bool) { return seconds(j.text(fieldRetryFor)) }

// RetryQueue returns the queue that retries go to, "" for the one the job was taken from.
func (j *Job) RetryQueue() string { return str(j.text(fieldRetryQueue)) }

// KeepDead says whether the job is kept when it dies. Only a literal false says no.
func (j *Job) KeepDead() bool { return j.text(fieldDead) != "false" }

// Backtrace returns how many lines of an error's stack the job wants kept, or that it wants all. 0 and false is none.
func (j *Job) Backtrace() (lines int, all bool) {
	text := j.text(fieldBacktrace)
	if text == "true" {
		return 0, true
	}
	lines, _ = integer(text)
	return max(lines, 0), false
}

// CreatedAt returns when the job was first pushed, by its producer's clock. It is not ok when absent or unreadable.
func (j *Job) CreatedAt() (at time.Time, ok bool) { return instant(j.text(fieldCreatedAt)) }

// EnqueuedAt returns when the job last came into a queue. It is not ok when absent or unreadable.
func (j *Job) EnqueuedAt() (at time.Time, ok bool) { return instant(j.text(fieldEnqueuedAt)) }

// FailedAt returns when the job first failed. It is not ok when absent or unreadable.
func (j *Job) FailedAt() (at time.Time, ok bool) { return instant(j.text(fieldFailedAt)) }

// InterruptedCount returns in how many crashes the job was in hand; 0 when the field is absent or unreadable.
func (j *Job) InterruptedCount() int {
	n, _ := integer(j.text(fieldInterruptedCount))
	return max(n, 0)
}

// QuarantinedSince returns since when a suspect has been waiting to run alone: since it became one, or since it came into a
// queue again if that was later. It is not ok for a job that never became one, or does not say so readably.
func (j *Job) QuarantinedSince() (at time.Time, ok bool) {
	at, ok = instant(j.text(fieldInterruptedAt))
	if enqueued, _ := j.EnqueuedAt(); ok && enqueued.After(at) {
		at = enqueued
	}
	return at, ok
}
