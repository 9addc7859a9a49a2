package inspect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// An Entry is one job that waits somewhere. Everything in it is somebody else's text.
type Entry struct {
	// ID is what operators call it: its jid, or "unreadable-" and the first digits of the SHA-256 of its bytes.
	ID string `json:"id"`
	// In is where it waits: "retries", "scheduled", "dead", "queue" or "quarantined".
	In string `json:"in"`
	// Problem says why nothing could run it; empty for a sound job. Payload has its first bytes then.
	Problem string `json:"problem,omitempty"`
	Payload string `json:"payload,omitempty"`
	// Class is the name to show people: the class that an adapter's job wraps, where there is one.
	Class string `json:"class"`
	// Queue is the one that it waits in, or that its payload names.
	Queue string `json:"queue"`
	// At is when it runs (or of the dead, when it died), by Redis' clock; zero in a queue.
	At   time.Time       `json:"at,omitzero"`
	Args json.RawMessage `json:"args,omitempty"`
	// RetryCount is how many retries have failed; nil for a job that has not failed yet.
	RetryCount *int `json:"retry_count,omitempty"`
	// Interrupted is in how many crashes it was in hand.
	Interrupted  int       `json:"interrupted_count,omitempty"`
	ErrorClass   string    `json:"error_class,omitempty"`
	ErrorMessage string    `json:"error_message,omitempty"`
	CreatedAt    time.Time `json:"created_at,omitzero"`
	EnqueuedAt   time.Time `json:"enqueued_at,omitzero"`
	FailedAt     time.Time `json:"failed_at,omitzero"`
	// Bytes is how long its payload is.
	Bytes int `json:"bytes"`

	raw    lua.Entry
	parsed *job.Job // nil when it cannot be read
}

// mostShownBytes is how much of a payload is shown that cannot be read: enough to tell who wrote it.
const mostShownBytes = 1024

func newEntry(home Home, raw lua.Entry) Entry {
	e := Entry{In: string(home.kind), Queue: home.queue, Bytes: len(raw.Bytes), raw: raw}
	if score, err := strconv.ParseFloat(raw.Score, 64); err == nil {
		e.At = instant(score)
	}
	parsed, err := job.Parse(raw.Bytes)
	if err != nil {
		e.Problem, e.Payload = err.Error(), shown(raw.Bytes)
		e.ID = unreadableID(raw.Bytes)
		return e
	}
	e.parsed = parsed
	e.ID, e.Class, e.Args, e.Interrupted = parsed.JID(), parsed.DisplayClass(), json.RawMessage(parsed.ArgsJSON()), parsed.InterruptedCount()
	if e.ID == "" { // Ruby would not push it, and nobody could name it
		e.ID = unreadableID(raw.Bytes)
	}
	if home.queue == "" {
		e.Queue = parsed.Queue()
	}
	if n, ok := parsed.RetryCount(); ok {
		e.RetryCount = &n
	}
	e.ErrorClass, _ = parsed.Text("error_class")
	e.ErrorMessage, _ = parsed.Text("error_message")
	if kept, ok := parsed.Kept(); ok {
		e.Problem, e.Payload = cmp.Or(e.ErrorMessage, "unreadable"), shown(kept)
	}
	e.CreatedAt, e.EnqueuedAt, e.FailedAt = utc(parsed.CreatedAt()), utc(parsed.EnqueuedAt()), utc(parsed.FailedAt())
	return e
}

// shown returns the first bytes of an unreadable text.
func shown(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), mostShownBytes)], "\uFFFD")
}

// utc is an instant as JSON has it everywhere; the zero time where there is none.
func utc(at time.Time, ok bool) time.Time {
	if !ok {
		return time.Time{}
	}
	return sayable(at)
}

// unreadable begins the IDs of entries that have no jid.
const unreadable = "unreadable-"

// unreadableID names a text that names itself nothing.
func unreadableID(text string) string {
	sum := sha256.Sum256([]byte(text))
	return unreadable + hex.EncodeToString(sum[:6])
}

// Entries yields the jobs of a home, what runs next first and of the dead those that died last, passing over the first skip
// of them. It reads a page at a time while it is asked for more; jobs come and go meanwhile, so one may be seen twice, or not.
// An error is yielded once, and is the end.
func (i *Inspector) Entries(ctx context.Context, home Home, skip int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		// A small page first: most people look at a screen full.
		for most := 32; ; most = lua.MostItems {
			page, err := i.keys.Page(home.key(i.keys), home.order(), skip, most).Do(ctx, i.driver)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Entry{}, fmt.Errorf("read %s: %w", home, err))
				return
			}
			for _, raw := range page.Entries {
				if !yield(newEntry(home, raw), nil) {
					return
				}
			}
			if len(page.Entries) == 0 {
				return
			}
			skip += len(page.Entries)
		}
	}
}

// kept returns the text that a job of job.UnreadableClass keeps, if this is such a job.
func (e Entry) kept() (text string, ok bool) {
	if e.parsed == nil {
		return "", false
	}
	return e.parsed.Kept()
}

// Backtrace are the lines of the last error's stack, if the job keeps them and they can be read.
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
