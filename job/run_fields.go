package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"
)

// Fields about a run that few jobs have. Those that the scanner does not find itself are looked for in the
// payload's text before it is scanned a second time.
const (
	// FieldTimeout is the timeout of one job's runs, in milliseconds.
	FieldTimeout = "belay_timeout_ms"
	// FieldExpiresIn is Sidekiq Pro's option: the seconds within which a job must start, from its push or, if
	// it is scheduled, from its scheduled time. FieldExpiry is the end of that time, in seconds since 1970,
	// which the push computes.
	FieldExpiresIn = "expires_in"
	FieldExpiry    = "expiry"
	// FieldDeadline is when a job must be done, in milliseconds since 1970.
	FieldDeadline = "belay_deadline_ms"
	// FieldTrack is for how many milliseconds after its end the state and the result of a job are kept.
	FieldTrack = "belay_track_ms"
	// FieldUnmarked is the score of the newest mark of a cancelled job at the time when an operator last
	// retried this job. Marks up to that one do not cancel it.
	FieldUnmarked = "belay_unmarked_us"
	// FieldMeta is an object of strings that the program added to the job when it pushed it.
	FieldMeta = "meta"
	// FieldLocale and FieldAttributes are what Sidekiq's middleware adds: the language of I18n, a text, and the
	// values of CurrentAttributes, an object or, from Sidekiq 8 on, an array of pairs.
	FieldLocale     = "locale"
	FieldAttributes = "cattr"
	// FieldWorkerRetries is how many retries the worker of the last failed run gives jobs that set none. The
	// field is for readers of Redis, and it is there only if that is not Sidekiq's number.
	FieldWorkerRetries = "belay_worker_retries"
	// FieldOverLimit is how often the job was snoozed because of a limit; the field is Sidekiq Enterprise's.
	FieldOverLimit = "overrated"
	// FieldTick is an object, the Tick of a periodic job.
	FieldTick = "belay_tick"
	// FieldBatch is the field of a member of a batch: the id of the batch, a slash, and the queue of its
	// callbacks. It is not Sidekiq's bid: Sidekiq Pro would write to a batch of its own. FieldBatchEnded is
	// that of a callback: the batch whose callback it is.
	FieldBatch      = "belay_batch"
	FieldBatchEnded = "belay_batch_ended"
	// FieldThen is an array of the next jobs: whole payloads, without enqueued_at, that are enqueued when this
	// job is done. FieldAfter is the field of a next job: the jid of the job that it follows.
	FieldThen  = "belay_then"
	FieldAfter = "belay_after"
)

// MayOwn reports whether a payload may name something that belongs to its job, such as a lock or a batch: false
// is certain. It costs one search, and is false for nearly all jobs.
func MayOwn(payload string) bool { return strings.Contains(payload, "belay_") }

// A Tick is one time of a periodic job.
type Tick struct {
	// Name is that of the periodic job.
	Name string `json:"name"`
	// At is the nominal time of the tick, in the zone of its schedule. For a run that an operator asked for it
	// is the second of that request; programs of version 0.1 left it out then.
	At time.Time `json:"at,omitzero"`
	// Manual reports that an operator asked for the run: no tick of the schedule was due.
	Manual bool `json:"manual,omitempty"`
}

// Edit returns the edit that writes the tick into a payload.
func (t Tick) Edit() Edit {
	// It cannot fail: a name is valid UTF-8, and no schedule goes beyond the year 9999.
	text, _ := Marshal(t) // not json.Marshal, which escapes <, > and &
	return Edit{Name: FieldTick, JSON: text}
}

// Tick returns the tick of a periodic job that this job was enqueued for, and whether there is one.
func (j *Job) Tick() (t Tick, ok bool) {
	text, ok := j.RareField(FieldTick)
	if !ok || json.Unmarshal([]byte(text), &t) != nil || t.Name == "" {
		return Tick{}, false
	}
	return t, true
}

// Unmarked returns the value of FieldUnmarked; 0 if there is none.
func (j *Job) Unmarked() int64 {
	text, _ := j.RareField(FieldUnmarked)
	score, _ := integer(text)
	return int64(score)
}

// WorkerRetries returns the value of FieldWorkerRetries, and whether there is one.
func (j *Job) WorkerRetries() (retries int, ok bool) {
	text, _ := j.RareField(FieldWorkerRetries)
	retries, ok = integer(text)
	return max(retries, 0), ok
}

// Timeout returns the timeout that the job was pushed with, and whether there is one.
func (j *Job) Timeout() (d time.Duration, ok bool) {
	text, _ := j.RareField(FieldTimeout)
	return milliseconds(text)
}

// Track returns for how long the state and the result of the job are kept after its end, and whether they are.
func (j *Job) Track() (d time.Duration, ok bool) { return milliseconds(j.text(fieldTrack)) }

// milliseconds reads a duration above 0.
func milliseconds(text string) (d time.Duration, ok bool) {
	ms, ok := integer(text)
	if ok = ok && ms > 0 && int64(ms) < int64(1<<62/time.Millisecond); !ok {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// Then returns the payloads of the job's next jobs, byte for byte; none if the field is no array.
func (j *Job) Then() []string {
	text, _ := j.RareField(FieldThen)
	if text == "" || text[0] != '[' {
		return nil
	}
	return elements(text)
}

// After returns the jid of the job whose next job this one is, "" for most jobs.
func (j *Job) After() string {
	text, _ := j.RareField(FieldAfter)
	return str(text)
}

// Meta returns the fields that the option Meta added at the push, and those that Sidekiq's middleware added
// in Ruby: the text of FieldLocale and the JSON of FieldAttributes, under these names. It returns nil if
// there are none.
func (j *Job) Meta() (meta map[string]string) {
	if text, ok := j.RareField(FieldMeta); ok && json.Unmarshal([]byte(text), &meta) != nil {
		meta = nil // another program's field of that name
	}
	locale, _ := j.RareField(FieldLocale)
	attributes, _ := j.RareField(FieldAttributes)
	for name, text := range map[string]string{FieldLocale: str(locale), FieldAttributes: attributes} {
		if isAbsent(text) {
			continue
		}
		if meta == nil {
			meta = make(map[string]string)
		}
		meta[name] = text
	}
	return meta
}

// MetaFields returns the fields that hold meta in a payload. Those that Sidekiq's middleware reads are its own.
func MetaFields(meta map[string]string) (fields []Edit, err error) {
	rest := maps.Clone(meta)
	if locale, ok := meta[FieldLocale]; ok {
		fields = append(fields, SetString(FieldLocale, locale))
		delete(rest, FieldLocale)
	}
	if attributes, ok := meta[FieldAttributes]; ok {
		// Sidekiq's pages fail on any other value.
		text, err := Marshal(json.RawMessage(attributes))
		if err != nil || text == "" || text[0] != '{' && text[0] != '[' {
			return nil, fmt.Errorf("%s must be a JSON object or array", FieldAttributes)
		}
		fields = append(fields, Edit{Name: FieldAttributes, JSON: text})
		delete(rest, FieldAttributes)
	}
	if len(rest) == 0 {
		return fields, nil
	}
	text, err := Marshal(rest)
	return append(fields, Edit{Name: FieldMeta, JSON: text}), err
}

// Deadline returns when the job must be done, by Redis' clock, and whether there is such a time.
func (j *Job) Deadline() (at time.Time, ok bool) {
	ms, ok := integer(j.text(fieldDeadline))
	if ok = ok && ms > 0 && int64(ms) < latestSecond; !ok {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(ms)), true
}

// LimitsFrom returns the edits that make the expiry and the deadline of a template count from begin. In the
// template they count from 1970.
func (j *Job) LimitsFrom(begin time.Time) (edits []Edit) {
	if at, ok := instant(j.text(fieldExpiry)); ok {
		edits = append(edits, SetStamp(FieldExpiry, begin.Add(at.Sub(time.Unix(0, 0))), Seconds))
	}
	if at, ok := j.Deadline(); ok {
		edits = append(edits, SetInt(FieldDeadline, int(begin.Add(at.Sub(time.Unix(0, 0))).UnixMilli())))
	}
	return edits
}

// StartBy returns when the job must have started, by Redis' clock, and whether there is such a time: the
// earlier of its expiry and its deadline.
//
// A producer without Sidekiq Pro's middleware stores expires_in without expiry. Then the time begins when the
// job last entered a queue before its first failure. If the payload does not contain that time, it begins at
// the first failure.
func (j *Job) StartBy() (at time.Time, ok bool) {
	if at, ok = instant(j.text(fieldExpiry)); !ok {
		at, ok = j.relativeExpiry()
	}
	if deadline, limited := j.Deadline(); limited && (!ok || deadline.Before(at)) {
		return deadline, true
	}
	return at, ok
}

func (j *Job) relativeExpiry() (at time.Time, ok bool) {
	within, ok := seconds(j.text(fieldExpiresIn))
	if !ok || within <= 0 {
		return time.Time{}, false
	}
	for _, begin := range []field{fieldFailedAt, fieldEnqueuedAt, fieldCreatedAt} {
		if at, ok = instant(j.text(begin)); ok {
			return at.Add(within), true
		}
	}
	return time.Time{}, false
}
