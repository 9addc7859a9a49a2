package lua

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

var killLargeScript = load("kill_large")

// A Large describes an entry that is too large for any reply.
type Large struct {
	// At is where it was found: the index in its list, the rank in its sorted set, or for a take the queue's
	// position.
	At int
	// Bytes is its length; Head and Tail are its beginning and its end.
	Bytes      int
	Head, Tail string
}

// A TooLarge is a Large with its place and the job that it becomes.
type TooLarge struct {
	Large
	// Key is its list or sorted set; Sorted is true for a sorted set.
	Key    string
	Sorted bool
	// Queue is the queue from which it was taken; empty for none.
	Queue string
	// Limit is the maximum size of an entry in bytes.
	Limit int
	// Reason and Around are JSON members, without braces: the reason for the death and, if the text is not an
	// object, the other members of a job that keeps the text in belay_raw.
	Reason, Around string
	// Owned is what belongs to the entry, as far as its ends contain that. The lock has no Next.
	Owned
	// Today is a day of the counters.
	Today time.Time
	// JID and Class are for the log; both are empty if the entry's ends do not contain them.
	JID, Class string
}

// NewTooLarge describes an entry in key, of this queue ("" for none), that is above limit. now is Redis'
// time.
func NewTooLarge(large Large, key, queue string, limit int, now time.Time, unit job.TimeUnit) TooLarge {
	return TooLarge{
		Large: large, Key: key, Queue: queue, Limit: limit, Reason: job.TooLargeReason(large.Bytes, limit, now, unit), Around: job.AroundUnreadable(queue), Today: now,
		Owned: Owned{State: DeadUnread(large.Head, large.Tail, job.TooLargeClass, job.TooLargeMessage(large.Bytes, limit), now), Member: MemberUnread(large.Head, large.Tail, MemberDied)},
	}
}

// KillLarge moves an entry that is too large to the dead set, with its reason, and counts a failed run. It
// returns false, and writes nothing, if the entry has gone.
func (k Keys) KillLarge(b TooLarge) Ask[bool] {
	keys := []string{b.Key, k.Dead(), k.Processed(), k.Failed(), k.ProcessedOn(b.Today), k.FailedOn(b.Today)}
	kind := "list"
	if b.Sorted {
		kind = "zset"
	}
	args := []string{
		kind, strconv.Itoa(b.At), strconv.Itoa(b.Bytes), b.Head, b.Tail, b.Reason, b.Around, daySeconds, strconv.Itoa(MaxBytes),
	}
	args = append(args, k.deadLimits()...)
	keys, args = appendOwned(k, keys, args, b.kind(lockFree), []TooLarge{b}, func(b *TooLarge) *Owned { return &b.Owned },
		func(args []string, _ *TooLarge) []string { return args })
	return asking(killLargeScript, keys, args, func(r reader) (bool, error) {
		word := r.text()
		if word != "dead" && word != "gone" {
			return false, fmt.Errorf("unexpected reply %q", word)
		}
		return word == "dead", r.end()
	})
}

// EndLarge returns the calls of KillLarge and, for a tracked job, of the announcement to those that wait for
// it. read reads the reply to the first of them, logs what became of the entry, and reports whether it was
// moved.
func (k Keys) EndLarge(b TooLarge, log *slog.Logger) (calls []driver.Call, read func(driver.Reply) (dead bool, err error)) {
	ask := k.KillLarge(b)
	calls = []driver.Call{ask.Call}
	if b.State != nil {
		calls = append(calls, k.AnnounceEnded([]string{b.State.JID}))
	}
	return calls, func(reply driver.Reply) (bool, error) {
		dead, err := ask.Read(reply)
		if dead || err != nil {
			b.logEnd(log, err)
		}
		return dead, err
	}
}

// logEnd writes that the entry was moved to the dead set. After an error it may have been moved: the next read
// does not find an entry that has gone, so this line is the only one about it.
func (b TooLarge) logEnd(log *slog.Logger, err error) {
	fields := []any{"bytes", b.Bytes, "limit", b.Limit}
	if b.Queue != "" {
		fields = append(fields, "queue", b.Queue)
	}
	if b.JID != "" {
		fields = append(fields, "jid", b.JID, "class", b.Class)
	}
	if err != nil {
		log.Error("move to the dead set unconfirmed: payload too large", append(fields, "error", err)...)
		return
	}
	log.Error("moved to the dead set: payload too large", fields...)
}

// ends is how many bytes of each end a Large has; large.lua has the same number.
const ends = 1024

// LargeOf describes an entry as a script would.
func LargeOf(entry string) Large {
	return Large{Bytes: len(entry), Head: entry[:min(len(entry), ends)], Tail: entry[max(len(entry)-ends, 0):]}
}

// large reads an inner array of results of large.lua.
func (r *reader) large() (all []Large) {
	list := r.list()
	for list.more() {
		entry := list.list()
		all = append(all, Large{At: entry.number(), Bytes: entry.number(), Head: entry.text(), Tail: entry.text()})
		list.err = entry.end()
	}
	r.err = list.end()
	return all
}
