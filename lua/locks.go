package lua

import (
	"strconv"
	"strings"
	"time"
)

// A Lock is a unique job's lock of its digest. The job owns it as long as the lock's value names its owner.
type Lock struct {
	// Digest is equal for all duplicates; it is the last part of the lock's key.
	Digest string
	// Owner is the job, see OwnerOf.
	Owner string
	// Hold is when the lock expires, counted from the step that takes or renews it: its TTL, and the delay
	// before it.
	Hold time.Duration
	// Again, if set, is the job to store when this one has ended, if a duplicate was refused after its first
	// start.
	Again *Again
}

// An Again is the extra run of a job: a job of its own.
type Again struct {
	Owner, Bytes string
	// Queue is where it goes, at the back.
	Queue string
}

// OwnerOf is how a lock's value names a job: its jid, and for people its class, each on a line. Behind it the
// value has since when the lock is the job's, in ms by Redis' clock, and what refused duplicates left, each
// on a line. A line's end in a foreign name becomes a space.
func OwnerOf(jid, class string) string {
	return oneLine.Replace(jid) + "\n" + oneLine.Replace(class) + "\n"
}

var oneLine = strings.NewReplacer("\n", " ")

// Names are the jid and the class of the lock's owner.
func (l Lock) Names() (jid, class string) {
	jid, class, _ = strings.Cut(strings.TrimSuffix(l.Owner, "\n"), "\n")
	return jid, class
}

// A Holder is what a lock's value says.
type Holder struct {
	JID, Class string
	// Started: a run of the job has begun, and does not serve duplicates refused from now on.
	Started bool
	// Dirty: such a duplicate was refused, and the job must run once more for it.
	Dirty bool
	// Since is when the job took the lock, by Redis' clock.
	Since time.Time
	// Left has the WAL positions that refused duplicates left with it, in lines (see UniqueJob.WAL).
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
	ms, err := strconv.ParseInt(parts[2], 10, 64)
	h.Since = time.UnixMilli(ms).UTC()
	if len(parts) == 4 {
		h.Left = parts[3]
	}
	return h, err == nil
}

// lockKeys adds the keys of locks, one beside the other, and the position of the first one; 0 when the first
// has none, for then they all have none.
func (k Keys) lockKeys(keys []string, count int, lock func(i int) *Lock) ([]string, string) {
	if lock(0) == nil {
		return keys, "0"
	}
	first := strconv.Itoa(len(keys) + 1)
	for i := range count {
		keys = append(keys, k.Lock(lock(i).Digest))
	}
	return keys, first
}

// lockArgs are what stands for a lock in a script's arguments. The key of a queue that they point to is added.
func (k Keys) lockArgs(keys, args []string, lock *Lock) ([]string, []string) {
	if lock == nil {
		return keys, args
	}
	args = append(args, lock.Digest, lock.Owner, millis(lock.Hold))
	if lock.Again == nil {
		return keys, args
	}
	keys = append(keys, k.Queue(lock.Again.Queue))
	return keys, append(args, lock.Again.Owner, lock.Again.Bytes, strconv.Itoa(len(keys)), lock.Again.Queue)
}

// locking is what locks have in common that stand in one group.
func (l *Lock) locking() (locked, again bool) { return l != nil, l != nil && l.Again != nil }
