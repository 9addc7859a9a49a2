package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

const (
	// DefaultQueue is the queue of a job that sets none.
	DefaultQueue = job.DefaultQueue
	// AllLines is the Backtrace that keeps an error's whole stack.
	AllLines = -1
	// maxJID bounds the ids that callers set, because every log line has them.
	maxJID = 255
)

// A RawJob is a job to push. Only Class must be set.
type RawJob struct {
	// Class is the name by which workers find the handler.
	Class string
	// Args are its arguments, which job.MarshalArgs writes.
	Args []any
	// ArgsJSON holds the arguments as a JSON array. Values are kept; their spelling becomes Ruby's (see
	// job.Marshal). Only one of Args and ArgsJSON may be set.
	ArgsJSON string
	// Queue is the queue that the job goes to. Default: DefaultQueue.
	Queue string
	// JID is the job's id; it must be unique. Default: 24 random hexadecimal digits.
	JID string

	// In delays the job, by Redis' clock; At schedules it for an instant. At most one may be set. Zero, or an
	// instant in the past, means now. Probable mistakes are refused: more than a hundred years ahead, an At
	// before 1970, an In below minus a hundred years.
	In time.Duration
	At time.Time

	// PushOnce gives the push an idempotency key, by which Redis stores it once however often it is sent. The
	// client sends it again if no reply comes, as Config.RepeatFor says, and Client.Repeat sends it again
	// later. It costs a script instead of an LPUSH, and an expiring key for each concurrent push of a client.
	// It has no effect on runs: the job may still run twice.
	PushOnce bool

	// needs is the protocol that workers must understand to run the job; 0 if every worker can run it.
	needs int

	// Retry sets how often a failed job runs again. Default: that of the server.
	Retry job.RetryRule
	// RetryFor ends retries this long after the first failure, in whole seconds. Default: no such limit.
	RetryFor time.Duration
	// RetryQueue is the queue that retries go to. Default: the queue that the job was taken from.
	RetryQueue string
	// Backtrace is how many lines of an error's stack are kept with a failed job; AllLines keeps all.
	// Default: none.
	Backtrace int
	// NoDead drops the job when it has no retries left, instead of moving it to the dead set.
	NoDead bool
	// Unique refuses the job while an equal job holds their common lock: see package dedup. The receipt of a
	// refused job has StatusDuplicate. Default: not unique.
	Unique *dedup.Rule
	// Idempotent declares that a second run of the job has no further effect. A client with
	// Config.DeduplicateIdempotent makes such a job unique, unless Unique or NotUnique is set. Default: not
	// declared.
	Idempotent bool
	// NotUnique exempts the job from Config.DeduplicateIdempotent. Default: false.
	NotUnique bool
	// WAL has the positions in the write-ahead logs of databases that the job's replicas must have reached:
	// those of the primaries after the writes that preceded the push. If the job is refused as a duplicate,
	// the job that holds the lock gets them. Default: none.
	WAL dedup.WAL
	// Timeout ends the context of each run of the job after this long, in whole milliseconds, instead of its
	// class' or the worker's timeout. Default: theirs.
	Timeout time.Duration
	// ExpiresIn is how long after its push, or after the time for which it is scheduled, the job may start;
	// after that it is dropped. Default: no limit.
	ExpiresIn time.Duration
	// Deadline is the time after its push, or after its scheduled time, within which the job must be done.
	// After that it does not start, and the context of its run ends. Default: none.
	Deadline time.Duration
	// Track keeps the state, the progress and the result of the job, for Wait and Tracked, from its start until
	// this long after its end, in whole milliseconds. Default: nothing is kept.
	Track time.Duration
	// Meta holds fields for the handler, such as a request id or a tenant, which it reads with Info. Default:
	// none.
	Meta map[string]string
	// Tags are shown by dashboards and in logs.
	Tags []string
	// Extra holds further fields of the payload; job.CheckExtra says which are allowed. Workers keep fields
	// that they do not know.
	Extra []job.Edit

	// wrong are the errors of Fail.
	wrong []error
	// pushed are the callbacks of OnPushed.
	pushed []func(Receipt, error)
}

// Fail makes Check and the push of the job return an error. It is for options with an invalid value, which
// would otherwise leave their field empty without an error.
func (j *RawJob) Fail(why error) { j.wrong = append(slices.Clip(j.wrong), why) }

// OnPushed registers a callback for the outcome of this push, for middleware that has begun something for the
// job, such as the span of a trace. It is called once, in the goroutine of the push and before the push
// returns, with the job's receipt; err is nil unless the receipt has StatusUnknown or StatusNotPushed. Repeat
// does not call it again.
func (j *RawJob) OnPushed(callback func(r Receipt, err error)) {
	j.pushed = append(slices.Clip(j.pushed), callback)
}

// withDefaults returns the job as middleware gets it.
func (j RawJob) withDefaults() RawJob {
	if j.Queue == "" {
		j.Queue = DefaultQueue
	}
	if j.JID == "" {
		j.JID = job.NewJID()
	}
	// Clipped, so that middleware that appends does not write into the caller's array, which other jobs may
	// share.
	j.Args, j.Tags, j.Extra = slices.Clip(j.Args), slices.Clip(j.Tags), slices.Clip(j.Extra)
	return j
}

// Check returns, joined, the errors for which any client would refuse to push the job, or nil. It does not
// check what depends on the client: middleware and PayloadLimit.
func (j RawJob) Check() error {
	j = j.withDefaults()
	draft, _, err := j.draft(time.Time{})
	if err != nil {
		return err
	}
	return j.checkPayload(draft.Encode())
}

// draft checks the job and makes all of its payload but the timestamps, and its lock. ExpiresIn and Deadline
// count from begin. It names everything that is wrong, at once.
func (j *RawJob) draft(begin time.Time) (job.Draft, dedup.Lock, error) {
	args, badArgs := j.args()
	retry, badRetry := retryJSON(j.Retry)
	extra, badExtra := j.extra(begin)
	_, badWAL := j.wal()
	draft := job.Draft{Class: j.Class, Queue: j.Queue, JID: j.JID, ArgsJSON: args, Retry: retry, Extra: extra}
	if err := errors.Join(errors.Join(j.wrong...), job.CheckClass(j.Class), job.CheckQueue(j.Queue), checkJID(j.JID), badArgs, badRetry, badExtra, badWAL, j.checkTime()); err != nil {
		return draft, dedup.Lock{}, err
	}
	if j.Unique == nil {
		return draft, dedup.Lock{}, nil
	}
	lock, err := j.Unique.Lock(draft)
	if err == nil {
		draft.Extra = append(draft.Extra, lock.Edit())
	}
	return draft, lock, err
}

// wal returns WAL, or the equivalent field in Extra, which jobs from the lines of a file have.
func (j *RawJob) wal() (dedup.WAL, error) {
	at := slices.IndexFunc(j.Extra, func(field job.Edit) bool { return field.Name == dedup.FieldWAL })
	if at < 0 {
		return j.WAL, j.WAL.Check()
	}
	var texts map[string]string
	if compact := strings.Join(strings.Fields(j.Extra[at].JSON), ""); compact == "[]" { // as dedup.ReadWAL reads it: Ruby's none
		return nil, nil
	}
	if err := json.Unmarshal([]byte(j.Extra[at].JSON), &texts); err != nil {
		return nil, fmt.Errorf("the field %q must be an object with a position for each connection, such as {\"main\":\"16/B374D848\"}", dedup.FieldWAL)
	}
	return dedup.ParseWAL(texts)
}

// farthest is how far ahead a job may be scheduled. A longer delay is probably a mistaken unit.
const farthest = 100 * 365 * 24 * time.Hour

// checkPayload checks the parts that draft cannot check: the JSON of further fields, because a payload that no
// worker could read must not be stored. The args were checked when they were written.
func (j *RawJob) checkPayload(payload string) error {
	if len(j.Extra) == 0 {
		return nil
	}
	_, err := job.Parse(payload)
	return err
}

// checkTime compares seconds since 1970, because time.Time overflows: Before, After and Sub treat
// time.Unix(math.MaxInt64, 0) as an instant in the past.
func (j *RawJob) checkTime() error {
	switch {
	case j.In != 0 && !j.At.IsZero():
		return errors.New("both In and At are set; set one")
	case j.In < -farthest:
		return fmt.Errorf("its delay is %v: did the calculation overflow?", j.In)
	case j.At.IsZero() && j.In <= farthest:
		return nil
	case j.In > farthest || j.At.Unix() > time.Now().Add(farthest).Unix():
		return errors.New("it is scheduled for more than a hundred years ahead; was a unit mistaken?")
	case j.At.Unix() < 0:
		return errors.New("it is scheduled for before 1970: was the time never set? Leave it out to run the job now")
	}
	return nil
}

func (j *RawJob) args() (string, error) {
	if j.ArgsJSON == "" {
		return job.MarshalArgs(j.Args)
	}
	if len(j.Args) > 0 {
		return "", errors.New("both Args and ArgsJSON are set; set one")
	}
	if job.AsWritten(j.ArgsJSON) {
		return j.ArgsJSON, nil
	}
	var elements []json.RawMessage
	if err := json.Unmarshal([]byte(j.ArgsJSON), &elements); err != nil || elements == nil {
		return "", errors.New("ArgsJSON is not a JSON array")
	}
	args := make([]any, len(elements))
	for i, element := range elements {
		args[i] = element
	}
	return job.MarshalArgs(args)
}

func retryJSON(rule job.RetryRule) (string, error) {
	switch {
	case rule.Kind == job.RetryDefault:
		return "true", nil
	case rule.Kind == job.RetryNever:
		return "false", nil
	case rule.Kind == job.RetryLimit && rule.Limit >= 0:
		return strconv.Itoa(rule.Limit), nil
	default:
		return "", fmt.Errorf("%d retries: it must be 0 or more", rule.Limit)
	}
}

// extra returns the fields that not every job has: first the job's options, then the caller's fields.
func (j *RawJob) extra(begin time.Time) ([]job.Edit, error) {
	fields, errs := j.options(begin)
	for _, field := range j.Extra {
		text, err := job.Marshal(json.RawMessage(field.JSON)) // on one line, or a form in a browser would change it
		if err != nil {
			text = field.JSON // CheckExtra returns a better error
		}
		fields = append(fields, job.Edit{Name: field.Name, JSON: text})
	}
	for i, field := range fields {
		errs = append(errs, j.checkExtra(field))
		if slices.ContainsFunc(fields[:i], func(earlier job.Edit) bool { return earlier.Name == field.Name }) {
			errs = append(errs, fmt.Errorf("the field %q is set twice", field.Name))
		}
	}
	return fields, errors.Join(errs...)
}

// checkExtra is job.CheckExtra for a client's jobs. It refuses the field of a lock, because a job that did not
// take that lock would release the lock of another job. Only the push may set the mark of a duplicate; in a job
// that is not unique the mark is an ordinary field.
func (j *RawJob) checkExtra(field job.Edit) error {
	if field.Name == dedup.DuplicateOf && j.Unique != nil {
		return fmt.Errorf("the field %q cannot be set like this in a job that is unique: the push sets it", field.Name)
	}
	if field.Name == dedup.FieldName {
		return fmt.Errorf("the field %q cannot be set like this; use Unique", field.Name)
	}
	return job.CheckExtra(field)
}

// options returns the fields of the options that the job has set.
func (j *RawJob) options(begin time.Time) (fields []job.Edit, errs []error) {
	if j.RetryQueue != "" {
		fields = append(fields, job.SetString("retry_queue", j.RetryQueue))
		errs = append(errs, job.CheckQueue(j.RetryQueue))
	}
	if j.RetryFor != 0 {
		fields = append(fields, job.SetInt("retry_for", int(j.RetryFor/time.Second)))
		if j.RetryFor < 0 || j.RetryFor%time.Second != 0 {
			errs = append(errs, fmt.Errorf("retry for %v: it must be a whole number of seconds", j.RetryFor))
		}
	}
	switch {
	case j.Backtrace > 0:
		fields = append(fields, job.SetInt("backtrace", j.Backtrace))
	case j.Backtrace == AllLines:
		fields = append(fields, job.Edit{Name: "backtrace", JSON: "true"})
	case j.Backtrace < 0:
		errs = append(errs, fmt.Errorf("a backtrace of %d lines: it must be 0 or more, or -1 for all", j.Backtrace))
	}
	if j.NoDead {
		fields = append(fields, job.Edit{Name: "dead", JSON: "false"})
	}
	if len(j.WAL) > 0 {
		fields = append(fields, j.WAL.Edit(dedup.FieldWAL))
	}
	if j.Timeout != 0 {
		fields = append(fields, job.SetInt(job.FieldTimeout, int(j.Timeout/time.Millisecond)))
		if j.Timeout < time.Millisecond {
			errs = append(errs, fmt.Errorf("timeout %v: it must be at least 1ms; leave it out for none", j.Timeout))
		}
	}
	if j.ExpiresIn != 0 {
		seconds := strconv.FormatFloat(j.ExpiresIn.Seconds(), 'f', -1, 64)
		expiry := job.SetStamp(job.FieldExpiry, begin.Add(j.ExpiresIn), job.Seconds)
		fields = append(fields, job.Edit{Name: job.FieldExpiresIn, JSON: seconds}, expiry)
		errs = append(errs, checkLimit("expires in", j.ExpiresIn))
	}
	if j.Deadline != 0 {
		fields = append(fields, job.SetInt(job.FieldDeadline, int(begin.Add(j.Deadline).UnixMilli())))
		errs = append(errs, checkLimit("deadline", j.Deadline))
	}
	if j.Track != 0 {
		fields = append(fields, job.SetInt(job.FieldTrack, int(j.Track/time.Millisecond)))
		errs = append(errs, checkLimit("track", j.Track))
	}
	if len(j.Meta) > 0 {
		meta, err := job.MetaFields(j.Meta)
		if err != nil {
			return fields, append(errs, fmt.Errorf("meta: %w", err))
		}
		fields = append(fields, meta...)
	}
	if len(j.Tags) > 0 {
		text, err := job.Marshal(j.Tags)
		if err != nil {
			return fields, append(errs, fmt.Errorf("tags: %w", err))
		}
		fields = append(fields, job.Edit{Name: "tags", JSON: text})
	}
	return fields, errs
}

func checkLimit(name string, limit time.Duration) error {
	if limit < time.Millisecond || limit > farthest {
		return fmt.Errorf("%s %v: it must be at least 1ms, and at most a hundred years", name, limit)
	}
	return nil
}

// checkJID refuses ids that Ruby's tools cannot find again: the tools match ids by glob, and put them into
// URLs.
func checkJID(jid string) error {
	if len(jid) > maxJID {
		return fmt.Errorf("the jid is %d bytes long; at most %d are allowed", len(jid), maxJID)
	}
	for _, r := range jid {
		if r <= ' ' || r > '~' || r == '*' || r == '?' || r == '[' || r == ']' || r == '\\' || r == '/' || r == '"' {
			return fmt.Errorf("the jid %q holds %q; use letters, digits, dashes and dots", jid, r)
		}
	}
	return nil
}
