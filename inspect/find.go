package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A Place is where a job can be found.
type Place string

// The places. Their names are a contract.
const (
	PlaceQueue       Place = "queue"
	PlaceQuarantined Place = "quarantined" // it waits to run alone
	PlaceRunning     Place = "running"     // a process holds it
	PlaceScheduled   Place = "scheduled"
	PlaceRetry       Place = "retry"
	PlaceDead        Place = "dead"
	PlaceNotFound    Place = "not_found"
)

// A Found describes where a job is. Unknown fields are empty.
type Found struct {
	JID   string `json:"jid"`
	Place Place  `json:"state"`
	// Queue is the queue in which the job waits, from which it was taken, or that its payload names.
	Queue string `json:"queue,omitempty"`
	Class string `json:"class,omitempty"`
	// Since is when the job arrived there, according to the job or its process. At is when a scheduled job or
	// a retry is due.
	Since time.Time `json:"since,omitzero"`
	At    time.Time `json:"at,omitzero"`
	// Process is the identity of the process that holds it, and State whether that process is alive. A living
	// process recovers the jobs of a lapsed one.
	Process string `json:"process,omitempty"`
	State   State  `json:"process_state,omitempty"`
	// Looked is the number of entries that were read.
	Looked int `json:"looked"`
	// Unseen lists the places that were not searched to their end; empty if the search was complete.
	Unseen string `json:"unseen,omitempty"`
	// Entry is the whole job; nil if it was not found or runs in a process of Sidekiq.
	Entry *Entry `json:"job,omitempty"`
}

// Find returns the place of the job with this jid or Entry.ID. It reads all places a page at a time, in the
// order in which jobs pass through them, and reads them twice before it reports PlaceNotFound: a job that
// moves against that order (a retry that comes due, a requeue) can leave a place just before Find reads it.
// It may read every job in Redis. After each page it calls progress, unless nil, with the number of entries
// read and the current place.
//
// When ctx reaches its deadline, Find returns PlaceNotFound with Unseen set, and no error.
func (i *Inspector) Find(ctx context.Context, jid string, progress func(looked int, place string)) (Found, error) {
	f := &finder{i: i, jid: jid, progress: progress}
	for range 2 {
		f.unseen = nil
		for _, look := range []func(context.Context) error{f.scheduled, f.queues, f.running, f.failed} {
			err := look(ctx)
			switch {
			case f.found != nil:
				f.found.JID, f.found.Looked = jid, f.looked
				return *f.found, nil
			case errors.Is(ctx.Err(), context.DeadlineExceeded):
				f.unseen = append(f.unseen, "it took too long: stopped in "+f.place)
				return f.missing(), nil
			case err != nil:
				return Found{}, fmt.Errorf("look for %s in %s: %w", jid, f.place, err)
			}
		}
	}
	return f.missing(), nil
}

type finder struct {
	i        *Inspector
	jid      string
	progress func(int, string)
	place    string // the current place
	looked   int
	unseen   []string
	found    *Found
}

func (f *finder) missing() Found {
	return Found{JID: f.jid, Place: PlaceNotFound, Looked: f.looked, Unseen: strings.Join(f.unseen, "; ")}
}

func (f *finder) scheduled(ctx context.Context) error {
	return f.set(ctx, Scheduled(), func(e Entry) *Found { return &Found{Place: PlaceScheduled, Since: e.CreatedAt, At: e.At} })
}

func (f *finder) failed(ctx context.Context) error {
	err := f.set(ctx, Retries(), func(e Entry) *Found { return &Found{Place: PlaceRetry, Since: lastFailed(e), At: e.At} })
	if err != nil || f.found != nil {
		return err
	}
	return f.set(ctx, Dead(), func(e Entry) *Found { return &Found{Place: PlaceDead, Since: e.At} })
}

func lastFailed(e Entry) time.Time {
	if e.parsed == nil {
		return time.Time{}
	}
	text, _ := e.parsed.Field("retried_at")
	seconds, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return e.FailedAt
	case unitOf(e.parsed) == job.Millis:
		seconds /= 1000
	}
	return instant(seconds)
}

func (f *finder) set(ctx context.Context, home Home, where func(Entry) *Found) error {
	f.place = home.String()
	return f.i.walk(ctx, home.key(f.i.keys), func(page []lua.Entry) bool { return f.page(home, page, where) })
}

// walk reads a sorted set a page at a time until end reports true. An entry whose score rises meanwhile is
// read again.
func (i *Inspector) walk(ctx context.Context, key string, end func(page []lua.Entry) bool) error {
	walk := lua.Walk{From: "-inf", To: "+inf"}
	for {
		page, err := i.keys.Walk(key, walk).Do(ctx, i.driver)
		if err != nil || len(page) == 0 || end(page) {
			return err
		}
		for _, entry := range page {
			walk.Passed(entry, true)
		}
	}
}

// list searches a list from its youngest entry: entries are added only there, so an entry may be read twice
// but none is skipped.
func (f *finder) list(ctx context.Context, key string, home Home, where func(Entry) *Found) error {
	for skip := 0; ; {
		page, err := f.i.keys.Page(key, lua.OrderYoungest, skip, lua.MostItems).Do(ctx, f.i.driver)
		if err != nil || len(page.Entries) == 0 || f.page(home, page.Entries, where) {
			return err
		}
		skip += len(page.Entries)
	}
}

func (f *finder) page(home Home, page []lua.Entry, where func(Entry) *Found) bool {
	for _, raw := range page {
		f.looked++
		if !f.mayBe(raw.Bytes) {
			continue
		}
		if entry := newEntry(home, raw); entry.ID == f.jid || entry.parsed != nil && entry.parsed.JID() == f.jid {
			f.found = where(entry)
			f.found.Queue, f.found.Class, f.found.Entry = entry.Queue, entry.Class, &entry
			return true
		}
	}
	if f.progress != nil {
		f.progress(f.looked, f.place)
	}
	return false
}

// mayBe reports whether a payload is worth parsing: most contain neither the jid nor an escape that could
// hide it.
func (f *finder) mayBe(payload string) bool {
	return strings.Contains(payload, f.jid) || strings.Contains(payload, `\`) || strings.HasPrefix(f.jid, unreadable)
}

// queues searches the queues and their quarantined jobs. Most queues are empty, and lengths are cheap.
func (f *finder) queues(ctx context.Context) error {
	f.place = "queues"
	names, all, err := f.i.queueNames(ctx)
	if err != nil {
		return err
	}
	if all > len(names) {
		f.unseen = append(f.unseen, fmt.Sprintf("only %d of %d queues were searched", len(names), all))
	}
	for some := range slices.Chunk(names, lua.MostQueues) {
		var homes []Home
		var keys []string
		for _, name := range some {
			homes = append(homes, Waiting(name), Quarantined(name))
		}
		for _, home := range homes {
			keys = append(keys, home.key(f.i.keys))
		}
		lengths, err := lua.Lengths(keys).Do(ctx, f.i.driver)
		if err != nil {
			return err
		}
		for n, home := range homes {
			if lengths[n] < 0 {
				f.unseen = append(f.unseen, home.String()+" is not a list")
			}
			if lengths[n] <= 0 {
				continue
			}
			f.place = home.String()
			if err := f.list(ctx, keys[n], home, waitingIn(home)); err != nil || f.found != nil {
				return err
			}
		}
	}
	return nil
}

func waitingIn(home Home) func(Entry) *Found {
	return func(e Entry) *Found {
		if home.kind == homeQueue {
			since := e.EnqueuedAt
			if since.IsZero() {
				since = e.CreatedAt
			}
			return &Found{Place: PlaceQueue, Since: since}
		}
		found := &Found{Place: PlaceQuarantined}
		if e.parsed != nil {
			found.Since = utc(e.parsed.QuarantinedSince())
		}
		return found
	}
}

// queueNames returns the names of at most 1,000 queues, and how many queues there are.
func (i *Inspector) queueNames(ctx context.Context) (names []string, all int, err error) {
	replies := i.do(ctx, []driver.Call{
		driver.Command("SCARD", i.keys.Queues()), driver.Command("SRANDMEMBER", i.keys.Queues(), strconv.Itoa(mostShown)),
	})
	if names, err = lua.Texts(replies[1]); err != nil {
		return nil, 0, fmt.Errorf("read the queues: %w", err)
	}
	count, _ := replies[0].Value.(int64)
	return sorted(names), max(int(count), len(names)), nil
}

// QueueNames returns the names of at most 1,000 queues, sorted.
func (i *Inspector) QueueNames(ctx context.Context) ([]string, error) {
	names, _, err := i.queueNames(ctx)
	return names, err
}

// running searches the jobs that processes hold: for Belay in their lists, which are exact, and for Sidekiq
// in what they reported.
func (f *finder) running(ctx context.Context) error {
	f.place = "processes"
	var names []string
	err := f.i.walk(ctx, f.i.keys.Alive(), func(page []lua.Entry) bool {
		for _, entry := range page {
			names = append(names, entry.Bytes)
		}
		return false
	})
	if err != nil {
		return err
	}
	var r reading
	replies := f.i.do(ctx, []driver.Call{
		driver.Command("SCARD", f.i.keys.Processes()), driver.Command("SRANDMEMBER", f.i.keys.Processes(), strconv.Itoa(mostShown)),
		lua.AskTime,
	})
	reported, now := r.texts("processes", replies[1]), r.time(replies[2])
	if all := r.number("processes", replies[0]); r.err == nil && all > int64(len(reported)) {
		f.unseen = append(f.unseen, fmt.Sprintf("only %d of %d processes were searched", len(reported), all))
	}
	for page := range slices.Chunk(sorted(append(names, reported...)), processesAtOnce) {
		processes := f.i.processPage(ctx, &r, page, now)
		f.i.runs(ctx, &r, processes, now)
		lists, err := f.i.workingPage(ctx, page)
		if err != nil {
			return err
		}
		for _, p := range processes {
			if err := f.process(ctx, p, lists); err != nil || f.found != nil {
				return err
			}
		}
	}
	return r.err
}

// process searches the jobs that one process holds; lists has its working lists, among others.
func (f *finder) process(ctx context.Context, p Process, lists []WorkingList) error {
	if p.Belay {
		if err := f.lists(ctx, p.Identity, lists); err != nil {
			return err
		}
	}
	for _, run := range p.Running {
		switch {
		case run.JID != f.jid:
		case f.found != nil: // a Belay process reports when the run began
			f.found.Since = run.Since
		case !p.Belay:
			f.found = &Found{Place: PlaceRunning, Queue: run.Queue, Class: run.Class, Since: run.Since}
		}
	}
	if f.found != nil {
		f.found.Process, f.found.State = p.Identity, p.State
	} else if !p.Belay {
		f.looked += len(p.Running)
	}
	return nil
}

// lists searches the working lists of a process of Belay, and the list of its quarantined job.
func (f *finder) lists(ctx context.Context, identity string, lists []WorkingList) error {
	f.place = "the jobs of " + identity
	running := func(Entry) *Found { return &Found{Place: PlaceRunning} }
	for _, list := range lists {
		if list.Identity != identity || list.Size == 0 {
			continue
		}
		key := f.i.keys.Working(list.Queue, identity)
		if list.Size < 0 {
			f.unseen = append(f.unseen, key+" is not a list")
			continue
		}
		if err := f.list(ctx, key, Home{homeRunning, list.Queue}, running); err != nil || f.found != nil {
			return err
		}
	}
	return f.list(ctx, f.i.keys.QuarantineRun(identity), Home{kind: homeRunning}, running)
}
