package inspect

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/job/seal"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// An Entry is one waiting job. All of its text is untrusted.
type Entry struct {
	// ID is its jid. For a job without a jid, and for one whose jid is longer than a client of Belay pushes
	// (255 bytes), it is "unreadable-" and the first digits of the SHA-256 of its bytes.
	ID string `json:"id"`
	// In is where it is: "retries", "scheduled", "dead", "queue", "quarantined", "waiting" or "completed".
	In string `json:"in"`
	// Problem is the reason why no worker could run it; empty for a readable job. With a Problem, Payload has
	// the first bytes of the entry.
	Problem string `json:"problem,omitempty"`
	Payload string `json:"payload,omitempty"`
	// Class is the display name: the class that an adapter's job wraps, if there is one.
	Class string `json:"class"`
	// Queue is the queue in which it waits, or that its payload names; of a name that is longer than that of a
	// queue can be, the beginning.
	Queue string `json:"queue"`
	// Gate is the gate of a limit at which it waits; empty for a job in any other place.
	Gate string `json:"gate,omitempty"`
	// At is when it runs, or when a dead job died or a completed one ended, by Redis' clock; zero in a queue.
	At time.Time `json:"at,omitzero"`
	// Args are its arguments as they may be shown. An encrypted one is the text "[encrypted, key ID]", or
	// "[encrypted]" if the ID of its key is not known. See also Inspector.WithMask.
	Args json.RawMessage `json:"args,omitempty"`
	// Attempt is how many runs have failed, which is the number of the last of them: runs are counted as in
	// belay.RunInfo. MaxAttempts is the highest Attempt that there will be: its retries and one; 0 if its
	// retries are limited by time. For a job that does not set its retries, MaxAttempts is that of the worker
	// whose run failed last (ServerConfig.Retries, --max-retries); until a run has failed, and for runs in
	// Ruby, it has the default of 25 of them.
	Attempt     int `json:"attempt,omitempty"`
	MaxAttempts int `json:"max_attempts,omitempty"`
	// RetryCount is retry_count in the payload, Sidekiq's number: how many retries have failed, which is one
	// less than Attempt. nil for a job that has not failed yet.
	RetryCount *int `json:"retry_count,omitempty"`
	// Interrupted counts the crashes of processes that were running it.
	Interrupted  int    `json:"interrupted_count,omitempty"`
	ErrorClass   string `json:"error_class,omitempty"`
	ErrorMessage string `json:"error_message,omitempty"`
	// Errors are the errors of its last failed runs, the oldest first, if its class keeps them (KeepErrors).
	Errors     []PastError `json:"errors,omitempty"`
	CreatedAt  time.Time   `json:"created_at,omitzero"`
	EnqueuedAt time.Time   `json:"enqueued_at,omitzero"`
	FailedAt   time.Time   `json:"failed_at,omitzero"`  // of the first failure
	RetriedAt  time.Time   `json:"retried_at,omitzero"` // of the last, if it failed again
	// Bytes is the length of its payload.
	Bytes int `json:"bytes"`
	// Tracked is the state of a completed job: how it ended, and its result. It is nil for any other.
	Tracked *Tracked `json:"tracked,omitempty"`
	// Details are nil until Describe sets them.
	Details *Details `json:"details,omitempty"`

	home   Home
	raw    lua.Entry
	parsed *job.Job // nil when it cannot be read
	index  int      // in a list, counted from the oldest
	gone   bool     // of a completed job nothing is kept any more
	hidden bool     // by a mask
	next   []Entry  // its next jobs
	level  int      // of a next job: how many jobs come before it
}

// A PastError is the error of one failed run: its Attempt, the time At, by Redis' clock, at which the run
// ended, its Class and the beginning of its Message.
type PastError = job.PastError

// Ref names the entry and its place, for Get and Selection.Refs: the time it waits for or its place in the
// queue, a tilde, and its Key. It is stable in a set, unless the job is rescheduled; in a queue it is good for
// a while.
func (e Entry) Ref() string {
	return cmp.Or(e.raw.Score, strconv.Itoa(e.index)) + "~" + e.Key()
}

// Key tells the entries of a home apart, which an ID does not: a job may have been pushed twice, or run again
// by an operator while it waited. It is a digest of the entry's bytes, a colon, and its ID. Entries with one
// Key are copies, and it does not matter on which of them an act is done.
func (e Entry) Key() string { return digest(e.raw.Bytes) + ":" + e.ID }

// Home returns where the entry was read.
func (e Entry) Home() Home { return e.home }

// maxShownBytes is how much of an unreadable payload is shown: enough to recognise the program that wrote
// it.
const maxShownBytes = 1024

func newEntry(home Home, raw lua.Entry) Entry {
	e := Entry{home: home, raw: raw}
	e.parse()
	return e
}

// split returns the queue in which the entry waits, empty in a set, and the bytes of its job. In a waiting list
// the queue and a line feed stand before the bytes.
func (e *Entry) split() (queue, bytes string) {
	if e.home.place != PlaceWaiting {
		return e.home.queue, e.raw.Bytes
	}
	waiter := lua.ParseWaiter(e.raw.Bytes)
	if waiter.Bytes == "" { // no script writes such an entry
		return "", e.raw.Bytes
	}
	return waiter.Queue, waiter.Bytes
}

// parse fills in what the bytes of the entry say.
func (e *Entry) parse() {
	queue, bytes := e.split()
	e.In, e.Queue, e.Gate, e.Bytes = e.home.in(), queue, e.home.gate, len(bytes)
	if score, err := strconv.ParseFloat(e.raw.Score, 64); err == nil {
		e.At = instant(score)
	}
	parsed, err := job.Parse(bytes)
	if err != nil {
		e.Problem, e.Payload = err.Error(), shown(bytes)
		e.ID = unreadableID(bytes)
		return
	}
	e.parsed = parsed
	e.ID, e.Class, e.Args, e.Interrupted = parsed.JID(), parsed.DisplayClass(), json.RawMessage(seal.Shown(parsed)), parsed.InterruptedCount()
	// Ruby pushes neither. Without an ID the job could not be selected, and each row of a list has it, also in
	// links.
	if e.ID == "" || len(e.ID) > maxName {
		e.ID = unreadableID(bytes)
	}
	if queue == "" {
		e.Queue = bounded(parsed.QueueOrDefault())
	}
	if n, ok := parsed.RetryCount(); ok {
		e.RetryCount = &n
	}
	e.Attempt, e.MaxAttempts = parsed.FailedRuns(), retry.MaxAttempts(parsed)
	e.ErrorClass, _ = parsed.Text("error_class")
	e.ErrorMessage, _ = parsed.Text("error_message")
	if e.Tracked != nil { // the payload may have the error of an earlier run
		e.ErrorClass, e.ErrorMessage = e.Tracked.ErrorClass, e.Tracked.ErrorMessage
	}
	e.Errors = parsed.PastErrors()
	for n := range e.Errors {
		e.Errors[n].At = writable(e.Errors[n].At)
	}
	if kept, ok := parsed.Kept(); ok {
		e.Problem, e.Payload = cmp.Or(e.ErrorMessage, "unreadable"), shown(kept)
	}
	e.CreatedAt, e.EnqueuedAt, e.FailedAt = utc(parsed.CreatedAt()), utc(parsed.EnqueuedAt()), utc(parsed.FailedAt())
	e.RetriedAt = utc(parsed.RetriedAt())
}

// Outcome describes in a few words how a completed job ended, such as "done in 1.2s"; took writes the duration
// of its last run. It is empty for any other job.
func (e Entry) Outcome(took func(time.Duration) string) string {
	t := e.Tracked
	switch {
	case t == nil:
		return ""
	case t.BeganAt.IsZero() || t.EndedAt.Before(t.BeganAt):
		return string(t.State)
	}
	return string(t.State) + " in " + took(t.EndedAt.Sub(t.BeganAt))
}

// FailedRuns returns how many runs have failed, and of how many that there may be, such as "2 of 26"; only the
// first number if time limits the retries, and nothing for a job that has not failed.
func (e Entry) FailedRuns() string {
	switch {
	case e.Attempt == 0:
		return ""
	case e.MaxAttempts == 0:
		return strconv.Itoa(e.Attempt)
	}
	return fmt.Sprintf("%d of %d", e.Attempt, e.MaxAttempts)
}

// Found returns where the entry was read, as Search does.
func (e Entry) Found() Found {
	found := Found{JID: e.ID, Place: e.home.place, Queue: e.Queue, Class: e.Class, Entry: &e}
	switch e.home.place {
	case PlaceScheduled:
		found.Since, found.At = e.CreatedAt, e.At
	case PlaceRetry:
		found.Since, found.At = cmp.Or(e.RetriedAt, e.FailedAt), e.At
	case PlaceDead:
		found.Since = e.At
	case PlaceCompleted:
		found.Since, found.Tracked = e.At, e.Tracked
		found.Entry.Tracked = nil
	case PlaceQueue:
		found.Since = cmp.Or(e.EnqueuedAt, e.CreatedAt)
	case PlaceWaiting:
		found.Since, found.Gate, found.Line = cmp.Or(e.EnqueuedAt, e.CreatedAt), e.Gate, e.index+1
	case PlaceQuarantined:
		if e.parsed != nil {
			found.Since = utc(e.parsed.QuarantinedSince())
		}
	}
	return found
}

// tags returns the job's tags.
func (e Entry) tags() (tags []string) {
	if e.parsed != nil {
		text, _ := e.parsed.RareField("tags")
		_ = json.Unmarshal([]byte(text), &tags) // another program may have another field of that name
	}
	return tags
}

// maxName is how many bytes of a name from Redis are listed: those of a queue, a class or a jid that can be
// pushed.
const maxName = 255

// bounded shortens the name in a payload to what is listed.
func bounded(name string) string {
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "") + "…"
}

func shown(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxShownBytes)], "\uFFFD")
}

// utc returns an instant for JSON; the zero time if there is none.
func utc(at time.Time, ok bool) time.Time {
	if !ok {
		return time.Time{}
	}
	return writable(at)
}

// unreadable begins the IDs of entries that have no jid.
const unreadable = "unreadable-"

func unreadableID(text string) string { return unreadable + digest(text) }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// kept returns the text that a job of job.UnreadableClass keeps, if this is such a job.
func (e Entry) kept() (text string, ok bool) {
	if e.parsed == nil {
		return "", false
	}
	return e.parsed.Kept()
}

// Backtrace returns the stack of the last error, if the job keeps it and it can be read.
func (e Entry) Backtrace() []string {
	if e.parsed == nil {
		return nil
	}
	packed, _ := e.parsed.Text("error_backtrace")
	lines, err := job.DecodeBacktrace(packed)
	if packed == "" || err != nil {
		return nil
	}
	return lines
}
