package job

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// A Job is one parsed payload. It never changes: an edit makes new bytes (see Patch). Its methods are safe
// for concurrent use.
type Job struct {
	raw    string
	fields [fieldCount]span
	rare   bool // it has fields that are none of these
}

// A field is an envelope field that Belay reads. The scanner finds its span.
type field uint8

const (
	fieldClass field = iota
	fieldArgs
	fieldJID
	fieldQueue
	fieldRetry
	fieldRetryCount
	fieldRetryFor
	fieldRetryQueue
	fieldDead
	fieldBacktrace
	fieldCreatedAt
	fieldEnqueuedAt
	fieldFailedAt
	fieldInterruptedCount
	fieldInterruptedAt
	fieldDisplayClass
	fieldWrapped
	fieldCompressed
	fieldExpiry
	fieldExpiresIn
	fieldDeadline
	fieldTrack
	fieldLockDigest
	fieldUniqueDigest
	fieldUniqueFor
	fieldIdempotencyKey
	fieldBID
	fieldCount
)

// fieldOf returns the field of a name, or fieldCount if Belay does not read that field. It is a switch because
// it is asked for each member of each payload: a map costs a worker's process 4 % of its CPU.
func fieldOf(name string) field {
	switch name {
	case "class":
		return fieldClass
	case "args":
		return fieldArgs
	case "jid":
		return fieldJID
	case "queue":
		return fieldQueue
	case "retry":
		return fieldRetry
	case "retry_count":
		return fieldRetryCount
	case "retry_for":
		return fieldRetryFor
	case "retry_queue":
		return fieldRetryQueue
	case "dead":
		return fieldDead
	case "backtrace":
		return fieldBacktrace
	case "created_at":
		return fieldCreatedAt
	case "enqueued_at":
		return fieldEnqueuedAt
	case "failed_at":
		return fieldFailedAt
	case "interrupted_count":
		return fieldInterruptedCount
	case "interrupted_at":
		return fieldInterruptedAt
	case "display_class":
		return fieldDisplayClass
	case "wrapped":
		return fieldWrapped
	case "compressed":
		return fieldCompressed
	case FieldExpiry:
		return fieldExpiry
	case FieldExpiresIn:
		return fieldExpiresIn
	case FieldDeadline:
		return fieldDeadline
	case FieldTrack:
		return fieldTrack
	case "lock_digest":
		return fieldLockDigest
	case "unique_digest":
		return fieldUniqueDigest
	case "unique_for":
		return fieldUniqueFor
	case "idempotency_key":
		return fieldIdempotencyKey
	case "bid":
		return fieldBID
	}
	return fieldCount
}

// An UnreadableError says why a payload cannot be run. Such a payload goes to the dead set: it is never
// retried, because its bytes do not change, and never dropped, because an operator may be able to read it.
type UnreadableError struct {
	// Reason is a short phrase. It quotes nothing of the payload, which may be secret or huge.
	Reason string
}

func (e *UnreadableError) Error() string { return "unreadable job: " + e.Reason }

// Parse scans a payload in one pass and validates all of it. It decodes nothing yet.
//
// Its error is always an *UnreadableError: raw is not one JSON object in valid UTF-8, nests deeper than
// MaxDepth, or an envelope field that every run needs is missing or has a wrong type (class, jid and args;
// retry_count if present). Parse is as tolerant as Sidekiq: it accepts unknown fields, nulls and names with
// escapes, and the last of duplicate names counts.
func Parse(raw string) (*Job, error) {
	j, err := scan(raw)
	if err != nil {
		return nil, err
	}
	if err := j.CheckToRun(); err != nil {
		return nil, err
	}
	return j, nil
}

// CheckToRun returns an error if the job lacks what every run needs, which Parse returns too.
func (j *Job) CheckToRun() error {
	if reason := j.unworkable(); reason != "" {
		return &UnreadableError{reason}
	}
	return nil
}

// ParseToRun is Parse for a payload that will be run: a job of UnreadableClass is still unreadable.
func ParseToRun(raw string) (*Job, error) {
	j, err := Parse(raw)
	if err == nil && j.Class() == UnreadableClass {
		return nil, &UnreadableError{"it holds the text of a job that could not be read"}
	}
	return j, err
}

// ParseToMove is Parse for a job that is only moved to its queue. It accepts what Sidekiq's client accepts,
// such as a job without a jid: the queue may have no worker of Belay, and others may run it.
func ParseToMove(raw string) (*Job, error) {
	j, err := scan(raw)
	if err != nil {
		return nil, err
	}
	if reason := j.unmovable(); reason != "" {
		return nil, &UnreadableError{reason}
	}
	return j, CheckQueue(j.QueueOrDefault())
}

// scan finds the envelope fields, and validates the JSON.
func scan(raw string) (*Job, error) {
	if len(raw) > math.MaxInt32 {
		return nil, &UnreadableError{"longer than Redis can hold"}
	}
	j := &Job{raw: raw}
	m := members{raw: raw}
	for m.next() {
		name := raw[m.name.start+1 : m.name.end-1]
		f := fieldOf(name)
		if f == fieldCount && hasEscape(name) {
			f = fieldOf(unquote(m.text(m.name)))
		}
		if f != fieldCount {
			j.fields[f] = m.value
		} else {
			j.rare = true
		}
	}
	if m.why != sound {
		return nil, &UnreadableError{m.reason()}
	}
	return j, nil
}

func (m *members) reason() string {
	switch m.why {
	case notObject:
		return "not a JSON object"
	case badUTF8:
		return fmt.Sprintf("invalid UTF-8 at byte %d", m.at)
	case tooDeep:
		return fmt.Sprintf("nested deeper than %d at byte %d", MaxDepth, m.at)
	}
	if m.at == len(m.raw) {
		return fmt.Sprintf("the JSON is cut off at byte %d", m.at)
	}
	return fmt.Sprintf("invalid JSON at byte %d", m.at)
}

// unworkable describes the first envelope field that every run needs and that is missing or has a wrong
// type.
func (j *Job) unworkable() string {
	return cmp.Or(j.classProblem(), j.jidProblem(), j.argsProblem(), j.countProblem())
}

// unmovable describes the first field that Sidekiq's client requires and that is missing or has a wrong type.
func (j *Job) unmovable() string { return cmp.Or(j.classProblem(), j.argsProblem()) }

func (j *Job) classProblem() string {
	switch class := j.text(fieldClass); {
	case class == "":
		return "class is missing"
	case !isString(class) || class == `""`:
		return "class is not a name"
	}
	return ""
}

func (j *Job) jidProblem() string {
	switch jid := j.text(fieldJID); {
	case jid == "":
		return "jid is missing"
	case !isString(jid):
		return "jid is not a string"
	}
	return ""
}

func (j *Job) argsProblem() string {
	switch args := j.text(fieldArgs); {
	case args == "":
		return "args is missing"
	case args[0] != '[':
		return "args is not an array"
	}
	return ""
}

func (j *Job) countProblem() string {
	if count := j.text(fieldRetryCount); !isAbsent(count) && !isInteger(count) {
		return "retry_count is not an integer"
	}
	return ""
}

// text is a field's raw JSON, "" when it is absent.
func (j *Job) text(f field) string {
	s := j.fields[f]
	return j.raw[s.start:s.end]
}

// Raw returns the payload as it was given to Parse.
func (j *Job) Raw() string { return j.raw }

// Field returns the raw JSON of any top-level field, the last of that name, and whether there is one. It
// scans the payload again, so it is not for the hot path.
func (j *Job) Field(name string) (rawJSON string, ok bool) {
	rawJSON, _ = lastMember(j.raw, name)
	return rawJSON, rawJSON != ""
}

// RareField is Field for a field that few jobs have. It costs nothing if all fields are those that the scanner
// finds, and else, without the name in the payload, one search. It does not find a field whose name contains
// escapes; no producer writes one.
func (j *Job) RareField(name string) (rawJSON string, ok bool) {
	// The name is searched without its quotation marks: a search for one would stop at each of the payload.
	if !j.rare && fieldOf(name) == fieldCount || !strings.Contains(j.raw, name) {
		return "", false
	}
	return j.Field(name)
}

// Text returns a top-level string field, decoded, and whether there is one.
func (j *Job) Text(name string) (text string, ok bool) {
	raw, _ := j.Field(name)
	if !isString(raw) {
		return "", false
	}
	return unquote(raw), true
}
