package lua

import (
	"strconv"
	"strings"
	"time"
)

// A Lock is the lock of a unique job for its digest. The job owns the lock as long as the lock's value names
// the job.
type Lock struct {
	// Digest is equal for all duplicates; it is the last part of the lock's key.
	Digest string
	// Owner names the job: see OwnerOf.
	Owner string
	// Hold is when the lock expires, counted from the step that takes or renews it: the job's delay plus its
	// TTL.
	Hold time.Duration
	// Next, if set, is the job to store when this one has ended, if a duplicate was refused after its first
	// start. The lock passes to it.
	Next *Next
	// Kept says that the lock stays until it expires, whatever becomes of the job, and that a push of the job
	// itself is a duplicate like any other. Only a push takes such a lock. No other script gets it.
	Kept bool
}

// A lockFate is what becomes of a job's lock, if it is the job's own, as scripts name it.
type lockFate string

const (
	lockFree lockFate = "free" // the job has ended: the lock passes to its Next, or is freed
	lockHold lockFate = "hold" // the job continues: the lock is prolonged
	lockTake lockFate = "take" // the job is run again: the lock is taken if it is free
	lockNeed lockFate = "need" // as lockTake, but the job stays where it is if another one has the lock
)

func (l *Lock) part(fate lockFate) part {
	if l.Next != nil {
		return part{name: string(fate), width: 7}
	}
	return part{name: string(fate), width: 3}
}

func (l *Lock) keys(k Keys) []string { return []string{k.Unique(), k.Queues()} }

func (l *Lock) key(k Keys) string { return k.Lock(l.Digest) }

func (l *Lock) appendTo(k Keys, keys, args []string) ([]string, []string) {
	args = append(args, l.Digest, l.Owner, millis(l.Hold))
	if l.Next == nil {
		return keys, args
	}
	keys = append(keys, k.Queue(l.Next.Queue))
	return keys, append(args, l.Next.Owner, l.Next.Bytes, strconv.Itoa(len(keys)), l.Next.Queue)
}

// OwnerOf returns how a lock's value names a job: its jid and, for people, its class, each on a line. After
// it the value has the time when the job took the lock, in ms by Redis' clock, and the WAL positions that
// refused duplicates left, each on a line. A line break in a class or jid becomes a space.
func OwnerOf(jid, class string) string {
	return oneLine(jid) + "\n" + oneLine(class) + "\n"
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

// Names returns the jid and the class of the lock's owner.
func (l Lock) Names() (jid, class string) {
	jid, class, _ = strings.Cut(strings.TrimSuffix(l.Owner, "\n"), "\n")
	return jid, class
}

// A Holder is the content of a lock's value.
type Holder struct {
	JID, Class string
	// Started: a run of the job has begun, and does not serve duplicates refused from now on.
	Started bool
	// Dirty: such a duplicate was refused, and the job must run once more for it.
	Dirty bool
	// Kept: the lock stays until it expires, though the job may have ended.
	Kept bool
	// Since is when the job took the lock, by Redis' clock.
	Since time.Time
	// Left has the WAL positions that refused duplicates left with it, in lines (see NewJob.WAL).
	Left string
}

// HolderOf parses a lock's value; ok is false if it is not one.
func HolderOf(value string) (h Holder, ok bool) {
	parts := strings.SplitN(value, "\n", 4)
	if len(parts) < 3 || parts[0] == "" {
		return h, false
	}
	h.JID, h.Class = parts[0][1:], parts[1]
	h.Dirty = value[0] == 'd'
	h.Started = h.Dirty || value[0] == 's'
	h.Kept = value[0] == 'k'
	ms, err := strconv.ParseInt(parts[2], 10, 64)
	h.Since = time.UnixMilli(ms).UTC()
	if len(parts) == 4 {
		h.Left = parts[3]
	}
	return h, err == nil
}
