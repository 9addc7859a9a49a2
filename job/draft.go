package job

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// A Draft is a job that has no bytes yet: what a client fills in and encodes once.
type Draft struct {
	Class string
	Queue string
	// JID is drawn by Encode when it is empty.
	JID string
	// ArgsJSON is the array, as MarshalArgs writes it. "" is an empty one.
	ArgsJSON string
	// Retry is raw JSON: true, false or a number. "" is true. It is always written, because a Ruby worker that does
	// not know the class drops a job without it.
	Retry string
	// CreatedAt and EnqueuedAt are left out when zero. A job has no EnqueuedAt while it is scheduled.
	CreatedAt, EnqueuedAt time.Time
	// Unit is how both are written.
	Unit TimeUnit
	// Extra fields stand between queue and args, in this order. CheckExtra says which may; Encode does not ask it.
	Extra []Edit
}

// Encode writes the payload, its fields in the order in which Ruby Sidekiq writes them. It checks nothing: names by
// CheckClass and CheckQueue, args by MarshalArgs, extras by CheckExtra. There is never an "at" in it: when a job is due
// is the score of its entry, and Ruby loses a job that it finds with an odd "at".
func (d Draft) Encode() string {
	out := make([]byte, 0, d.size())
	out = append(append(out, `{"retry":`...), or(d.Retry, "true")...)
	out = appendQuoted(append(out, `,"queue":`...), d.Queue)
	for _, e := range d.Extra {
		if e.JSON == "" {
			continue
		}
		out = appendQuoted(append(out, ','), e.Name)
		out = append(append(out, ':'), e.JSON...)
	}
	out = append(append(out, `,"args":`...), or(d.ArgsJSON, "[]")...)
	out = appendQuoted(append(out, `,"class":`...), d.Class)
	jid := d.JID
	if jid == "" {
		jid = NewJID()
	}
	out = appendQuoted(append(out, `,"jid":`...), jid)
	created := ""
	if !d.CreatedAt.IsZero() {
		created = Stamp(d.CreatedAt, d.Unit)
		out = append(append(out, `,"created_at":`...), created...)
	}
	if !d.EnqueuedAt.IsZero() {
		enqueued := created // mostly the same instant, and it takes longer to write than all the rest
		if !d.EnqueuedAt.Equal(d.CreatedAt) {
			enqueued = Stamp(d.EnqueuedAt, d.Unit)
		}
		out = append(append(out, `,"enqueued_at":`...), enqueued...)
	}
	return string(append(out, '}'))
}

// size is about how long the payload will be; a little more costs less than growing once.
func (d Draft) size() int {
	const fixed = 192 // the names of the fields, a jid, two timestamps
	size := fixed + len(d.Class) + len(d.Queue) + len(d.ArgsJSON)
	for _, e := range d.Extra {
		size += len(e.Name) + len(e.JSON) + len(`,"":`)
	}
	return size
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// NewJID draws an id for a job: 12 random bytes as 24 lower-case hexadecimal digits, as Sidekiq's are.
func NewJID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // it never fails: without randomness the program ends
	return hex.EncodeToString(b[:])
}
