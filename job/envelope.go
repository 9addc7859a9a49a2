package job

import (
	"cmp"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// DefaultQueue is the queue of a job that names none, in Ruby too.
const DefaultQueue = "default"

// Class returns the name of the class, never empty.
func (j *Job) Class() string { return unquote(j.text(fieldClass)) }

// activeJobs are the classes under which Rails stores all of its jobs: those of the adapters of Rails up to 7.2
// and of Sidekiq from 7.3.3 on.
var activeJobs = [...]string{ActiveJob, "Sidekiq::ActiveJob::Wrapper"}

// ActiveJob is the class under which an ActiveJob is stored. All versions of Ruby's adapters know it.
const ActiveJob = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"

// IsActiveJob reports whether the job is stored as an ActiveJob of Rails: its class wraps another one.
func (j *Job) IsActiveJob() bool { return slices.Contains(activeJobs[:], j.Class()) }

// DisplayClass returns the name for display: display_class, else wrapped (the class inside an adapter's
// job), else class.
func (j *Job) DisplayClass() string {
	return cmp.Or(str(j.text(fieldDisplayClass)), str(j.text(fieldWrapped)), j.Class())
}

// Wrapped returns the class inside an adapter's job, such as an ActiveJob's own class; empty if there is none.
func (j *Job) Wrapped() string { return str(j.text(fieldWrapped)) }

// JID returns the job's id, which never changes; empty if ParseToMove has accepted a job without one.
func (j *Job) JID() string { return str(j.text(fieldJID)) }

// Queue returns the queue that the payload names, "" if it names none. It may differ from the queue that the
// job was taken from, which is the one that counts.
func (j *Job) Queue() string { return str(j.text(fieldQueue)) }

// QueueOrDefault returns the queue that the payload names, DefaultQueue if it names none.
func (j *Job) QueueOrDefault() string { return cmp.Or(j.Queue(), DefaultQueue) }

// queueMember matches a member named queue, behind another one. Text inside a string cannot match, because its
// quotes are escaped.
var queueMember = regexp.MustCompile(`,\s*"queue"\s*:`)

// QueueInEnds returns the queue of a payload of which only the beginning and the end are known; ok is false if
// neither contains it. Other producers than Belay write it before the args or behind them.
//
// A member in the tail is of the payload's own object if all text behind it reads as the rest of one object.
func QueueInEnds(head, tail string) (queue string, ok bool) {
	texts := []string{head}
	for _, found := range queueMember.FindAllStringIndex(tail, -1) {
		texts = append(texts, "{"+tail[found[0]+1:])
	}
	for i, text := range texts {
		value, why := lastMember(text, "queue")
		// The head is cut off, so it is never a whole object.
		if name := str(value); name != "" && (i == 0 || why == sound) && CheckQueue(name) == nil {
			queue, ok = name, true
		}
	}
	return queue, ok
}

// OwnHead returns what stands before the args and the next jobs at the beginning of a payload, as Belay writes
// it: a field in it is one of the job itself, not the text of an argument, and not a field of a next job.
func OwnHead(head string) string {
	before, _, _ := strings.Cut(head, `"args":`)
	before, _, _ = strings.Cut(before, `"`+FieldThen+`":`)
	return before
}

// ArgsJSON returns the args array, byte for byte.
func (j *Job) ArgsJSON() string { return j.text(fieldArgs) }

// Args returns the raw JSON of each argument, in order.
func (j *Job) Args() []string { return elements(j.text(fieldArgs)) } // Parse has checked it

// SplitArgs returns the raw JSON of each element of an array, in order. The error does not quote them.
func SplitArgs(argsJSON string) ([]string, error) {
	start := skipSpace(argsJSON, 0)
	end, why := skipValue(argsJSON, start, 1)
	if why != sound || argsJSON[start] != '[' || skipSpace(argsJSON, end) != len(argsJSON) {
		return nil, errors.New("the arguments are not a JSON array")
	}
	return elements(argsJSON[start:end]), nil
}

// elements returns the elements of an array that has no fault.
func elements(text string) []string {
	args := []string{}
	at := skipSpace(text, 1)
	for text[at] != ']' {
		end, _ := skipValue(text, at, 2)
		args = append(args, text[at:end])
		at = skipSpace(text, end)
		if text[at] == ',' {
			at = skipSpace(text, at+1)
		}
	}
	return args
}

// A RetryKind is one of the three meanings of Sidekiq's "retry".
type RetryKind int

const (
	// RetryDefault means the worker's default limit: true, and also a retry that is missing, null or of
	// another type. "3" and 3.0 are not integers, and Ruby reads them as true.
	RetryDefault RetryKind = iota
	// RetryNever is false: a failed job is neither retried nor kept.
	RetryNever
	// RetryLimit is an integer, the number of retries. 0 is not RetryNever: the job is kept in the dead
	// set.
	RetryLimit
)

// A RetryRule is a payload's "retry". Limit counts only for RetryLimit; n retries are n+1 runs.
type RetryRule struct {
	Kind  RetryKind
	Limit int
}

// RetryRule returns the payload's "retry".
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

// RetryCount returns the number of failed retries, and whether the payload has one; without one, the job
// has not failed yet. It is 0 after the first failure, and -1 after an operator's retry of such a job. A
// number beyond an int becomes the nearest int.
func (j *Job) RetryCount() (n int, ok bool) { return integer(j.text(fieldRetryCount)) }

// FailedRuns returns how many runs of the job have failed, which is the number of the last one of them. For an
// operator's retry one is taken back, so that the job has one run more.
func (j *Job) FailedRuns() int {
	count, failed := j.RetryCount()
	if !failed {
		return 0
	}
	return max(min(count, math.MaxInt-1)+1, 0)
}

// RetryFor returns how long after its first failure the job may be retried, and whether the payload has
// that limit.
func (j *Job) RetryFor() (time.Duration, bool) { return seconds(j.text(fieldRetryFor)) }

// RetryQueue returns the queue for retries, "" for the queue that the job was taken from.
func (j *Job) RetryQueue() string { return str(j.text(fieldRetryQueue)) }

// KeepDead reports whether the job is kept when it dies: always, unless its "dead" is a literal false.
func (j *Job) KeepDead() bool { return j.text(fieldDead) != "false" }

// Backtrace returns how many lines of an error's stack to store in the job, or that all are stored. 0 and
// false is none.
func (j *Job) Backtrace() (lines int, all bool) {
	text := j.text(fieldBacktrace)
	if text == "true" {
		return 0, true
	}
	lines, _ = integer(text)
	return max(lines, 0), false
}

// CreatedAt returns when the job was first pushed, by its producer's clock; ok is false if the time is absent
// or unreadable.
func (j *Job) CreatedAt() (at time.Time, ok bool) { return instant(j.text(fieldCreatedAt)) }

// EnqueuedAt returns when the job last entered a queue; ok is false if the time is absent or unreadable.
func (j *Job) EnqueuedAt() (at time.Time, ok bool) { return instant(j.text(fieldEnqueuedAt)) }

// FailedAt returns when the job first failed; ok is false if the time is absent or unreadable.
func (j *Job) FailedAt() (at time.Time, ok bool) { return instant(j.text(fieldFailedAt)) }

// RetriedAt returns when the job last failed; ok is false if it has not failed again after its first failure,
// or if the time is unreadable.
func (j *Job) RetriedAt() (at time.Time, ok bool) {
	text, _ := j.Field("retried_at")
	return instant(text)
}

// InterruptedCount returns how many crashed processes were running the job; 0 if the field is absent or
// unreadable.
func (j *Job) InterruptedCount() int {
	n, _ := integer(j.text(fieldInterruptedCount))
	return max(n, 0)
}

// InterruptedAgain returns InterruptedCount after one more crash. The payload of another program may have a
// count that cannot grow.
func (j *Job) InterruptedAgain() int { return min(j.InterruptedCount(), math.MaxInt32) + 1 }

// QuarantinedSince returns when a quarantined job began to wait: when it was quarantined, or when it
// entered a queue again, if that was later; ok is false if the job was never quarantined, or if the time is
// unreadable.
func (j *Job) QuarantinedSince() (at time.Time, ok bool) {
	at, ok = instant(j.text(fieldInterruptedAt))
	if enqueued, _ := j.EnqueuedAt(); ok && enqueued.After(at) {
		at = enqueued
	}
	return at, ok
}

// ForeignLock names the Ruby gem that has locked the job, by the field that it leaves in the payload; empty for
// none. Belay does not release these locks.
func (j *Job) ForeignLock() string {
	for _, lock := range []struct {
		field field
		gem   string
	}{
		{fieldLockDigest, "sidekiq-unique-jobs"}, {fieldUniqueDigest, "sidekiq-unique-jobs"},
		{fieldUniqueFor, "Sidekiq Enterprise"}, {fieldIdempotencyKey, "GitLab"},
	} {
		if text := j.text(lock.field); !isAbsent(text) && text != "false" {
			return lock.gem
		}
	}
	return ""
}

// ForeignBatch returns the id of the batch of Sidekiq Pro of which the job is a member; empty for none. Belay
// does not count the job there.
func (j *Job) ForeignBatch() string {
	if text := j.text(fieldBID); isString(text) {
		return unquote(text)
	}
	return ""
}
