package lua

import (
	"fmt"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

var killLargeScript = load("kill_large")

// A Large is an entry that is too large for any reply: what a reply says of it instead.
type Large struct {
	// At is where it was met: the index in its list, the rank in its sorted set, or of a take the queue's position.
	At int
	// Bytes is its length; Head and Tail are how it begins and how it ends.
	Bytes      int
	Head, Tail string
}

// A TooLarge says of a Large where it lies and what it becomes.
type TooLarge struct {
	Large
	// Key is the list or the sorted set that it lies in; Sorted says which.
	Key    string
	Sorted bool
	// Queue is the one that it was taken from; empty for none.
	Queue string
	// Reason and Around are JSON members, without braces: what the job says it died of, and, if its text is no object, the other
	// members of a job that keeps the text in belay_raw.
	Reason, Around string
	// Lock is freed if it is still the entry's own; nil for none. It has no Again.
	Lock *Lock
	// Today is a day of the counters.
	Today time.Time
	// JID and Class are for the log, as far as the entry's ends tell them; both are empty otherwise.
	JID, Class string
}

// NewTooLarge says of an entry in key, of this queue ("" for none), that it is above limit. now is Redis' time.
func NewTooLarge(large Large, key, queue string, limit int, now time.Time, unit job.TimeUnit) TooLarge {
	return TooLarge{
		Large: large, Key: key, Queue: queue, Reason: job.TooLargeReason(large.Bytes, limit, now, unit), Around: job.AroundUnreadable(queue), Today: now,
	}
}

// KillLarge moves an entry that is too large to the dead set, with its reason, and counts a failed run. The answer is false if the entry
// has left meanwhile; nothing was written then.
func (k Keys) KillLarge(b TooLarge) Ask[bool] {
	keys := []string{b.Key, k.Dead(), k.Processed(), k.Failed(), k.ProcessedOn(b.Today), k.FailedOn(b.Today), k.Unique(), k.Queues()}
	kind := "list"
	if b.Sorted {
		kind = "zset"
	}
	args := []string{
		kind, strconv.Itoa(b.At), strconv.Itoa(b.Bytes), b.Head, b.Tail, b.Reason, b.Around, daySeconds, strconv.Itoa(MostBytes),
	}
	if b.Lock != nil {
		keys = append(keys, k.Lock(b.Lock.Digest))
		keys, args = k.lockArgs(keys, args, b.Lock)
	}
	return Ask[bool]{Call: driver.Call{Script: killLargeScript, Keys: keys, Args: args}, read: func(value any) (bool, error) {
		word, err := wordOf(value)
		if err == nil && word != "dead" && word != "gone" {
			err = fmt.Errorf("unexpected reply %q", word)
		}
		return word == "dead", err
	}}
}

// Log writes that the entry was moved to the dead set because it is larger than limit. After an error it may
// have been moved: the next read does not find an entry that has gone, so this line is the only one about it.
func (b TooLarge) Log(log zerolog.Logger, limit int, err error) {
	event := log.Error().Err(err).Int("bytes", b.Bytes).Int("limit", limit)
	if b.Queue != "" {
		event.Str("queue", b.Queue)
	}
	if b.JID != "" {
		event.Str("jid", b.JID).Str("class", b.Class)
	}
	if err != nil {
		event.Msg("moving a job to the dead set: the payload is too large; the answer did not come")
		return
	}
	event.Msg("moved to the dead set: the payload is too large")
}

// ends is how many bytes of either end a Large has; large.lua has the same.
const ends = 1024

// LargeOf is what a script would say of an entry.
func LargeOf(entry string) Large {
	return Large{Bytes: len(entry), Head: entry[:min(len(entry), ends)], Tail: entry[max(len(entry)-ends, 0):]}
}

// largeOf reads an array of what scripts say of entries that are too large.
func largeOf(value any) ([]Large, error) {
	parts, ok := value.([]any)
	if !ok {
		return nil, errShape(value)
	}
	var all []Large
	for _, part := range parts {
		fields, ok := part.([]any)
		if !ok || len(fields) != 4 {
			return nil, errShape(part)
		}
		at, isAt := fields[0].(int64)
		bytes, isBytes := fields[1].(int64)
		head, isHead := fields[2].(string)
		tail, isTail := fields[3].(string)
		if !isAt || !isBytes || !isHead || !isTail {
			return nil, errShape(part)
		}
		all = append(all, Large{At: int(at), Bytes: int(bytes), Head: head, Tail: tail})
	}
	return all, nil
}
