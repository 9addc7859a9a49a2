package dedup

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/belayq/belay/job"
)

// FieldName is the payload's field that holds a job's lock. Its value is an object:
//
//	digest     Digest's answer
//	until      "until_executing" or "until_executed"
//	ttl_ms     the lock's TTL in milliseconds, an integer
//	again      true if the job is run once more for those refused; left out when false
//	scheduled  true if a push for later takes the lock too; left out when false
//	mark       true if duplicates are stored and marked; left out when false
//
// Workers that do not know the field, Ruby's among them, leave it as it is. A job that they run keeps its
// lock until the TTL has passed.
const FieldName = "belay_unique"

// DuplicateOf is the payload's field that marks a duplicate which was stored all the same (see
// Rule.MarkDuplicates): the jid of the job that held their lock then. GitLab's jobs have it, too. Nothing
// runs differently for it.
const DuplicateOf = "duplicate-of"

const (
	// minDigest and maxDigest bound the digests that are read, in digits: ours, and up to twice a SHA-256
	// whole, for those of versions to come. A digest becomes a part of a key's name.
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

// Edit writes the lock into a payload. That of the zero Lock takes a lock away.
func (l Lock) Edit() job.Edit {
	if l.None() {
		return job.Remove(FieldName)
	}
	// It cannot fail: there is nothing in it but text, a number and booleans.
	text, _ := json.Marshal(fields{l.Digest, l.Until, l.TTL.Milliseconds(), l.Again, l.Scheduled, l.Mark})
	return job.Edit{Name: FieldName, JSON: string(text)}
}

// An UnreadableError says why the lock in a payload could not be read. Such a job is run like one without a
// lock, and what lock it may hold ends with its TTL: nothing that somebody else wrote is to name a key for
// us.
type UnreadableError struct {
	// Reason is a short phrase for people. It quotes nothing of the payload.
	Reason string
}

func (e *UnreadableError) Error() string { return "unreadable " + FieldName + ": " + e.Reason }

// Has says whether a payload may tell of a lock, without reading it: those that do not are nearly all, and
// pay one search.
//
// The search is for the name without its quotation marks: every payload is full of those, and each would be
// looked behind.
func Has(payload string) bool { return strings.Contains(payload, FieldName) }

// Read returns the lock that a job's payload says it has. It is the zero Lock for a job that is not unique,
// and with an error, always an *UnreadableError, for one whose field is not what Edit writes. Members that it
// does not know, and the field's null, are nothing to it.
//
// A job without the field costs a search for its name, so that those who use no locks do not pay for them. A
// field whose name is written with escapes, as no producer does, is not found.
func Read(j *job.Job) (Lock, error) {
	if !Has(j.Raw()) {
		return Lock{}, nil
	}
	text, _ := j.Field(FieldName)
	if text == "" || text == "null" { // a job that has the name elsewhere, in an argument
		return Lock{}, nil
	}
	var f fields
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return Lock{}, &UnreadableError{"not an object, or a member is of a wrong type"}
	}
	switch {
	case !isDigest(f.Digest):
		return Lock{}, &UnreadableError{"its digest is none"}
	case !f.Until.known():
		return Lock{}, &UnreadableError{"it does not say until when, or what this version does not know"}
	case f.TTL < 1 || f.TTL > MaxTTL.Milliseconds():
		return Lock{}, &UnreadableError{"its ttl_ms is out of bounds"}
	case j.JID() == "":
		return Lock{}, &UnreadableError{"its job has no jid to hold it by"}
	}
	return Lock{
		Digest: f.Digest, JID: j.JID(), Until: f.Until, TTL: time.Duration(f.TTL) * time.Millisecond,
		Again: f.Again && f.Until == UntilExecuted, Scheduled: f.Scheduled, Mark: f.Mark,
	}, nil
}

func isDigest(text string) bool {
	return len(text) >= minDigest && len(text) <= maxDigest && strings.Trim(text, "0123456789abcdef") == ""
}
