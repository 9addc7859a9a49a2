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

// An Entry is one waiting job. All of its text is untrusted.
type Entry struct {
	// ID is its jid, or "unreadable-" and the first digits of the SHA-256 of its bytes.
	ID string `json:"id"`
	// In is where it waits: "retries", "scheduled", "dead", "queue" or "quarantined".
	In string `json:"in"`
	// Problem is the reason why no worker could run it; empty for a readable job. With a Problem, Payload has
	// the first bytes of the entry.
	Problem string `json:"problem,omitempty"`
	Payload string `json:"payload,omitempty"`
	// Class is the display name: the class that an adapter's job wraps, if there is one.
	Class string `json:"class"`
	// Queue is the queue in which it waits, or that its payload names.
	Queue string `json:"queue"`
	// At is when it runs, or when a dead job died, by Redis' clock; zero in a queue.
	At   time.Time       `json:"at,omitzero"`
	Args json.RawMessage `json:"args,omitempty"`
	// RetryCount is how many retries have failed; nil for a job that has not failed yet.
	RetryCount *int `json:"retry_count,omitempty"`
	// Interrupted counts the crashes of processes that were running it.
	Interrupted  int       `json:"interrupted_count,omitempty"`
	ErrorClass   string    `json:"error_class,omitempty"`
	ErrorMessage string    `json:"error_message,omitempty"`
	CreatedAt    time.Time `json:"created_at,omitzero"`
	EnqueuedAt   time.Time `json:"enqueued_at,omitzero"`
	FailedAt     time.Time `json:"failed_at,omitzero"`
	// Bytes is the length of its payload.
	Bytes int `json:"bytes"`

	raw    lua.Entry
	parsed *job.Job // nil when it cannot be read
}

// mostShownBytes is how much of an unreadable payload is shown: enough to recognise the program that wrote
// it.
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
	if e.ID == "" { // Ruby does not push such a job, and without an ID it could not be selected
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

func shown(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), mostShownBytes)], "\uFFFD")
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

func unreadableID(text string) string {
	sum := sha256.Sum256([]byte(text))
	return unreadable + hex.EncodeToString(sum[:6])
}

// Entries yields the jobs of a home after the first skip of them: the next job to run first, or the job that
// died last. It reads a page at a time, as the caller continues. Jobs come and go meanwhile, so it may yield
// a job twice or miss one. It yields an error once, and then ends.
func (i *Inspector) Entries(ctx context.Context, home Home, skip int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		// The first page is small: most callers show one screen.
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
