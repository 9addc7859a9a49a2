package inspect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
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
	FailedAt     time.Time `json:"failed_at,omitzero"`  // of the first failure
	RetriedAt    time.Time `json:"retried_at,omitzero"` // of the last, if it failed again
	// Bytes is the length of its payload.
	Bytes int `json:"bytes"`

	home   Home
	raw    lua.Entry
	parsed *job.Job // nil when it cannot be read
	index  int      // in a list, counted from the oldest
}

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
	e := Entry{In: home.in(), Queue: home.queue, Bytes: len(raw.Bytes), home: home, raw: raw}
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
		e.Queue = parsed.QueueOrDefault()
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
	e.RetriedAt = utc(parsed.RetriedAt())
	return e
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
	case PlaceQueue:
		found.Since = cmp.Or(e.EnqueuedAt, e.CreatedAt)
	case PlaceQuarantined:
		if e.parsed != nil {
			found.Since = utc(e.parsed.QuarantinedSince())
		}
	}
	return found
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

// Entries yields the jobs of a home after the first skip of them: the next job to run first, or the job that
// died last. It reads a page at a time, as the caller continues. Jobs come and go meanwhile, so it may yield
// a job twice or miss one. It yields an error once, and then ends.
func (i *Inspector) Entries(ctx context.Context, home Home, skip int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		// The first page is small: most callers show one screen.
		for most := 32; ; most = lua.MaxItems {
			page, err := i.page(ctx, home.key(i.keys), home.order(), skip, most)
			if err = cmp.Or(err, ctx.Err()); err != nil {
				yield(Entry{}, fmt.Errorf("read %s: %w", home, err))
				return
			}
			for n, raw := range page.Entries {
				entry := newEntry(home, raw)
				entry.index = skip + n
				if !yield(entry, nil) {
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

// Get returns the entry of a home with this Ref; ok is false if it has left. It reads the entries with that
// time, or some thousand entries around that place in a queue. In a Ref that is written by hand, a colon and
// the ID suffice after the place; of several entries with that ID, Get returns the first that it reads.
func (i *Inspector) Get(ctx context.Context, home Home, ref string) (entry Entry, ok bool, err error) {
	place, id, _ := strings.Cut(ref, ":")
	place, sum, exact := strings.Cut(place, "~")
	at, err := strconv.ParseFloat(place, 64)
	if err != nil {
		return entry, false, nil //nolint:nilerr // a ref that Belay did not write names no entry
	}
	search := i.near
	if home.sorted() {
		search = i.atScore
	}
	err = search(ctx, home.key(i.keys), at, func(index int, raw lua.Entry) bool {
		entry = newEntry(home, raw)
		entry.index = index
		ok = entry.ID == id && (!exact || digest(raw.Bytes) == sum)
		return ok
	})
	if err != nil {
		return entry, false, fmt.Errorf("read %s: %w", home, err)
	}
	if !ok {
		return Entry{}, false, nil
	}
	return entry, true, nil
}

// atScore calls is for the members with a score until it reports true.
func (i *Inspector) atScore(ctx context.Context, key string, score float64, is func(int, lua.Entry) bool) error {
	text := strconv.FormatFloat(score, 'g', 17, 64)
	return i.walk(ctx, key, lua.Cursor{From: text, To: text}, func(page []lua.Entry) bool {
		return slices.ContainsFunc(page, func(raw lua.Entry) bool { return is(0, raw) })
	})
}

// nearPages is how many pages near reads in each direction: workers took the entries before an entry since it
// was listed, or requeued others.
const nearPages = 4

// near calls is for the entries of a list around an index until it reports true.
func (i *Inspector) near(ctx context.Context, key string, index float64, is func(int, lua.Entry) bool) error {
	middle := int(min(max(index, 0), 1<<40))
	for n := range 2 * nearPages {
		skip := middle - lua.MaxItems/2
		if n%2 == 1 { // below, above, further below...
			skip += (n + 1) / 2 * lua.MaxItems
		} else {
			skip -= n / 2 * lua.MaxItems
		}
		most := lua.MaxItems + min(skip, 0)
		if found, err := i.within(ctx, key, max(skip, 0), most, is); found || err != nil {
			return err
		}
	}
	return nil
}

// within calls is for most entries of a list from an index on, until it reports true.
func (i *Inspector) within(ctx context.Context, key string, index, most int, is func(int, lua.Entry) bool) (bool, error) {
	for end := index + most; index < end; { // a page of large entries is shorter
		page, err := i.page(ctx, key, lua.OrderOldest, index, end-index)
		if err != nil || len(page.Entries) == 0 {
			return false, err
		}
		for _, raw := range page.Entries {
			if is(index, raw) {
				return true, nil
			}
			index++
		}
	}
	return false, nil
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
