package dedup

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/job"
)

// FieldName is the payload's field that holds a job's lock. Its value is an object:
//
//	digest     the result of Digest
//	until      "until_executing" or "until_executed"; "until_expired" only before the push (see ReadPrepared)
//	ttl_ms     the lock's TTL in milliseconds, an integer
//	again      true if the job runs once more for refused duplicates; omitted when false
//	scheduled  true if a push for later takes the lock too; omitted when false
//	mark       true if duplicates are stored and marked; omitted when false
//
// Workers that do not know the field, such as Ruby's, leave it as it is. A job that they run keeps its lock
// until the TTL has passed.
const FieldName = "belay_unique"

// DuplicateOf is the payload's field that marks a stored duplicate (see Rule.MarkDuplicates): the jid of the
// job that held the lock at the push. GitLab's jobs have it, too. It does not change how the job runs.
const DuplicateOf = "duplicate-of"

const (
	// minDigest and maxDigest bound the length of a digest, in digits. Later versions may use up to twice a
	// whole SHA-256. A digest becomes part of a key's name.
	minDigest = 2 * digestBytes
	maxDigest = 128
)

// fields is the JSON of a lock.
type fields struct {
	Digest    string `json:"digest"`
	Until     Until  `json:"until"`
	TTL       int64  `json:"ttl_ms"`
	Again     bool   `json:"again,omitempty"`
	Scheduled bool   `json:"scheduled,omitempty"`
	Mark      bool   `json:"mark,omitempty"`
}

// Edit returns the edit that writes the lock into a payload. The zero Lock removes it.
func (l Lock) Edit() job.Edit {
	if l.None() {
		return job.Remove(FieldName)
	}
	// The JSON of fields, written by hand because each unique push does it. No text of it needs an escape.
	var room [192]byte
	out := append(append(room[:0], `{"digest":"`...), l.Digest...)
	out = append(append(append(out, `","until":"`...), l.Until...), `","ttl_ms":`...)
	out = strconv.AppendInt(out, l.TTL.Milliseconds(), 10)
	for _, flag := range []struct {
		is   bool
		text string
	}{{l.Rerun, `,"again":true`}, {l.Scheduled, `,"scheduled":true`}, {l.Mark, `,"mark":true`}} {
		if flag.is {
			out = append(out, flag.text...)
		}
	}
	return job.Edit{Name: FieldName, JSON: string(append(out, '}'))}
}

// An UnreadableError is the reason why the lock in a payload could not be read. Such a job runs like one
// without a lock, and a lock that it holds expires after its TTL: text that Belay did not write must not be
// used as the name of a key.
type UnreadableError struct {
	// Reason is a short phrase. It quotes nothing from the payload.
	Reason string
}

func (e *UnreadableError) Error() string { return "unreadable " + FieldName + ": " + e.Reason }

// Has reports whether a payload may contain a lock, without parsing it: false is certain, but the name may also
// stand in an argument. It costs one search.
func Has(payload string) bool { return strings.Contains(payload, FieldName) }

// Read returns the lock in the payload of a stored job: the zero Lock if the job is not unique, and the zero
// Lock with an *UnreadableError if the field is not one that Edit writes, or the lock is Kept, which no stored
// job may change. It ignores unknown members and a null field. For a job without the field it costs one search
// (see job.Job.RareField).
func Read(j *job.Job) (Lock, error) {
	lock, err := ReadPrepared(j)
	if lock.Kept() {
		return Lock{}, &UnreadableError{"its until is one that no stored job has"}
	}
	return lock, err
}

// ReadPrepared is Read for a job that is not stored yet: it also returns a lock that is Kept. The push takes
// the lock, and removes it from the payload.
func ReadPrepared(j *job.Job) (Lock, error) {
	text, ok := j.RareField(FieldName)
	if !ok || text == "null" {
		return Lock{}, nil
	}
	var f fields
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return Lock{}, &UnreadableError{"not an object, or a member is of a wrong type"}
	}
	switch {
	case !isDigest(f.Digest):
		return Lock{}, &UnreadableError{"its digest is not one"}
	case !f.Until.known():
		return Lock{}, &UnreadableError{"its until is missing or unknown to this version"}
	case f.TTL < 1 || f.TTL > MaxTTL.Milliseconds():
		return Lock{}, &UnreadableError{"its ttl_ms is out of bounds"}
	case j.JID() == "":
		return Lock{}, &UnreadableError{"its job has no jid to hold it by"}
	}
	return Lock{
		Digest: f.Digest, JID: j.JID(), Until: f.Until, TTL: time.Duration(f.TTL) * time.Millisecond,
		Rerun: f.Again && f.Until == UntilExecuted, Scheduled: f.Scheduled, Mark: f.Mark,
	}, nil
}

func isDigest(text string) bool {
	return len(text) >= minDigest && len(text) <= maxDigest && strings.Trim(text, "0123456789abcdef") == ""
}
