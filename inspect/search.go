package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
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
	// Reported is true if that process reports that it runs the job. It is false for a moment after the job
	// was taken, and for an orphaned entry, whose reply from Redis was lost. The process finds and runs such
	// an entry when it reconciles its lists.
	Reported bool `json:"reported,omitempty"`
	// Tracked is the state of a tracked job that has begun; nil for any other. Only a search by jid reads it.
	Tracked *lua.Tracked `json:"tracked,omitempty"`
	// Looked is the number of entries that Find read.
	Looked int `json:"looked"`
	// Unseen lists the places that Find could not search to their end; empty if the search was complete.
	Unseen string `json:"unseen,omitempty"`
	// Entry is the whole job; nil if it was not found or runs in a process of Sidekiq.
	Entry *Entry `json:"job,omitempty"`
}

// A Query chooses jobs wherever they are: those that match the Filter and, if it is set, the JID. The zero
// Query lists all jobs.
type Query struct {
	// JID is a jid or an Entry.ID.
	JID string
	Filter
	// Places limits the search to some places.
	Places []Place
	// Limit is the maximum number of jobs to find, 100 by default and at most 1,000. A process may hold more
	// and is not divided.
	Limit int
	// Time is the maximum duration of the search, one second by default. At least one page is read.
	Time time.Duration
	// Cursor continues a search with the same query: Results.Next.
	Cursor string
}

// Results are some of the jobs that match a Query.
type Results struct {
	Found []Found `json:"found"`
	// Looked is the number of entries that were read.
	Looked int `json:"looked"`
	// Next is the Cursor of the next search; empty at the end.
	Next string `json:"next,omitempty"`
	// Unseen describes places that could not be searched.
	Unseen []string `json:"unseen,omitempty"`
}

const (
	defaultFound = 100
	maxFound     = 1000
	searchTime   = time.Second
)

// Search returns jobs that match a query, in the order in which jobs pass through the places: scheduled,
// queues and quarantined jobs, running, retries, dead. In each place the next job to run comes first, and of
// dead jobs the one that died last. A completed job is found first, and by its jid only. Search reads
// pages of at most 256 entries until a bound of the query is reached; Results.Next continues there. Jobs move
// meanwhile, so a search may find a job twice or miss it. On a near Redis it reads about 150,000 entries of
// ordinary size in a second.
func (i *Inspector) Search(ctx context.Context, query Query) (Results, error) {
	limit := min(cmp.Or(max(query.Limit, 0), defaultFound), maxFound)
	ends := time.Now().Add(cmp.Or(query.Time, searchTime))
	results := Results{Found: []Found{}}
	s := &search{i: i, query: query}
	if query.JID != "" {
		s.jids = []string{query.JID}
	}
	if err := readCursor(query.Cursor, &s.at); err != nil {
		return results, err
	}
	s.visit = func(found Found) bool {
		found.Tracked = s.known
		results.Found = append(results.Found, found)
		return len(results.Found) >= limit
	}
	s.pageEnd = func() bool { return !time.Now().Before(ends) }
	stopped, err := s.run(ctx)
	results.Looked, results.Unseen = s.looked, s.unseen
	if err != nil {
		return results, fmt.Errorf("search in %s: %w", s.place, err)
	}
	if stopped {
		results.Next = cursorOf(s.at)
	}
	return results, nil
}

// Jobs yields all jobs that match a query, by one Search after another. It yields an error once, and then
// ends.
func (i *Inspector) Jobs(ctx context.Context, query Query) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		for {
			results, err := i.Search(ctx, query)
			for _, found := range results.Found {
				if !yield(found, nil) {
					return
				}
			}
			if err = cmp.Or(err, ctx.Err()); err != nil {
				yield(Found{}, err)
				return
			}
			if query.Cursor = results.Next; query.Cursor == "" {
				return
			}
		}
	}
}

// A search goes through the places. Both callbacks end it by returning true.
type search struct {
	i       *Inspector
	query   Query
	at      searchPosition
	visit   func(Found) bool
	pageEnd func() bool
	place   string // the current place, for people
	known   *lua.Tracked
	looked  int
	unseen  []string
	// jids, if set, are those that visit wants.
	jids []string
}

// A searchPosition is what the cursor of a search holds.
type searchPosition struct {
	Stage int `json:"stage"`
	// Name is the queue or the identity to continue with, and Quarantined whether in the queue's quarantine.
	Name        string   `json:"name,omitempty"`
	Quarantined bool     `json:"quarantined,omitempty"`
	Way         position `json:"way,omitzero"`
}

// run continues from s.at until a callback ends the search.
func (s *search) run(ctx context.Context) (stopped bool, err error) {
	stages := []func(context.Context) (bool, error){
		s.tracked,
		func(ctx context.Context) (bool, error) { return s.home(ctx, Scheduled()) },
		s.queues,
		s.running,
		func(ctx context.Context) (bool, error) { return s.home(ctx, Retries()) },
		func(ctx context.Context) (bool, error) { return s.home(ctx, Dead()) },
	}
	for s.at.Stage < len(stages) {
		if stopped, err = stages[max(s.at.Stage, 0)](ctx); stopped || err != nil {
			return stopped, err
		}
		s.at = searchPosition{Stage: s.at.Stage + 1}
	}
	return false, nil
}

func (s *search) wants(place Place) bool {
	return len(s.query.Places) == 0 || slices.Contains(s.query.Places, place)
}

func (s *search) home(ctx context.Context, home Home) (bool, error) {
	if !s.wants(home.Place()) {
		return false, nil
	}
	return s.walk(ctx, home, home.key(s.i.keys))
}

// walk searches one home from s.at.Way.
func (s *search) walk(ctx context.Context, home Home, key string) (bool, error) {
	s.place = home.String()
	var pages pager
	var err error
	if home == Dead() {
		pages, err = s.i.deathPager(ctx, s.at.Way, s.jids)
	} else {
		pages, err = s.i.pager(ctx, home, key, s.at.Way, s.jids)
	}
	if err != nil || pages == nil {
		return false, err
	}
	for {
		page, err := pages.next(ctx)
		if err != nil || len(page) == 0 {
			s.at.Way = position{}
			return false, err
		}
		index := pages.position().Left
		for _, raw := range page {
			pages.passed(raw, true)
			s.looked += raw.LeftOut
			entry, ok := s.match(home, raw)
			index += raw.LeftOut
			entry.index = index
			index++
			if ok && s.visit(entry.Found()) {
				s.at.Way = pages.position()
				return true, nil
			}
		}
		if s.at.Way = pages.position(); s.pageEnd() {
			return true, nil
		}
	}
}

func (s *search) match(home Home, raw lua.Entry) (Entry, bool) {
	s.looked++
	if !s.query.may(raw.Bytes) {
		return Entry{}, false
	}
	entry := newEntry(home, raw)
	return entry, s.query.finds(entry)
}

// queues searches the queues and their quarantined jobs. Most queues are empty, and lengths are cheap.
func (s *search) queues(ctx context.Context) (bool, error) {
	if !s.wants(PlaceQueue) && !s.wants(PlaceQuarantined) {
		return false, nil
	}
	s.place = "queues"
	names := []string{s.query.Queue}
	if s.query.Queue == "" {
		var err error
		if names, err = s.i.QueueNames(ctx); err != nil {
			return false, err
		}
	}
	start, _ := slices.BinarySearch(names, s.at.Name)
	for chunk := range slices.Chunk(names[start:], lua.MaxQueues) {
		homes, unseen, err := s.i.queueHomes(ctx, chunk)
		if err != nil {
			return false, err
		}
		s.unseen = append(s.unseen, unseen...)
		for _, home := range homes {
			place := home.Place()
			if home.queue == s.at.Name && s.at.Quarantined && place == PlaceQueue || !s.wants(place) {
				continue
			}
			if home.queue != s.at.Name || s.at.Quarantined != (place == PlaceQuarantined) {
				s.at.Name, s.at.Quarantined, s.at.Way = home.queue, place == PlaceQuarantined, position{}
			}
			if stopped, err := s.home(ctx, home); stopped || err != nil {
				return stopped, err
			}
		}
	}
	return false, nil
}

// queueHomes returns the homes of these queues, at most lua.MaxQueues, that have jobs. unseen names the
// keys that are not lists.
func (i *Inspector) queueHomes(ctx context.Context, names []string) (homes []Home, unseen []string, err error) {
	var all []Home
	var keys []string
	for _, name := range names {
		all = append(all, Waiting(name), Quarantined(name))
		keys = append(keys, i.keys.Queue(name), i.keys.Quarantine(name))
	}
	lengths, err := lua.Lengths(keys).Do(ctx, i.driver)
	if err != nil {
		return nil, nil, err
	}
	for n, home := range all {
		switch {
		case lengths[n] < 0:
			unseen = append(unseen, home.String()+" is not a list")
		case lengths[n] > 0:
			homes = append(homes, home)
		}
	}
	return homes, unseen, nil
}

// QueueNames returns the names of all queues, sorted.
func (i *Inspector) QueueNames(ctx context.Context) ([]string, error) {
	return i.members(ctx, i.keys.Queues())
}

// members reads a set of names a page at a time, and sorts them. A name that is there all the while is read.
func (i *Inspector) members(ctx context.Context, key string) (names []string, err error) {
	for cursor := "0"; ; {
		reply := i.driver.Do(ctx, driver.Command("SSCAN", key, cursor, "COUNT", strconv.Itoa(lua.MaxItems)))[0]
		parts, _ := reply.Value.([]any)
		if reply.Err != nil || len(parts) != 2 {
			return nil, fmt.Errorf("read the names in %s: %w", key, cmp.Or(reply.Err, errUnexpected))
		}
		page, err := lua.Texts(driver.Reply{Value: parts[1]})
		if err != nil {
			return nil, fmt.Errorf("read the names in %s: %w", key, err)
		}
		names = append(names, page...)
		if cursor, _ = parts[0].(string); cursor == "0" || cursor == "" {
			return sorted(names), nil
		}
	}
}

var errUnexpected = errors.New("unexpected reply")

// running searches the jobs that processes hold: for Belay in their lists, which are exact, and for Sidekiq
// in what they reported.
func (s *search) running(ctx context.Context) (bool, error) {
	if !s.wants(PlaceRunning) {
		return false, nil
	}
	s.place = "processes"
	var names []string
	err := s.i.walk(ctx, s.i.keys.Alive(), lua.Cursor{From: "-inf", To: "+inf"}, func(page []lua.Entry) bool {
		for _, entry := range page {
			names = append(names, entry.Bytes)
		}
		return false
	})
	if err != nil {
		return false, err
	}
	reported, err := s.i.members(ctx, s.i.keys.Processes())
	if err != nil {
		return false, err
	}
	var r reading
	now := r.time(s.i.do(ctx, []driver.Call{lua.AskTime})[0])
	names = sorted(append(names, reported...))
	start, _ := slices.BinarySearch(names, s.at.Name)
	for page := range slices.Chunk(names[start:], processesAtOnce) {
		processes := s.i.processPage(ctx, &r, page, now)
		s.i.runs(ctx, &r, processes, now)
		lists, err := s.i.workingPage(ctx, page)
		if err != nil {
			return false, err
		}
		for _, p := range processes {
			full, err := s.process(ctx, p, lists)
			if err != nil {
				return false, err
			}
			// The next process is the first behind this one.
			if s.at.Name = p.Identity + "\x00"; full || s.pageEnd() {
				return true, nil
			}
		}
	}
	return false, r.err
}

// process searches all jobs that one process holds; lists has its working lists, among others.
func (s *search) process(ctx context.Context, p Process, lists []WorkingList) (full bool, err error) {
	var held []Found
	if p.Belay {
		if held, err = s.held(ctx, p.Identity, lists); err != nil {
			return false, err
		}
	}
	for _, run := range p.Running {
		at := slices.IndexFunc(held, func(f Found) bool { return f.JID == run.JID })
		switch {
		case at >= 0: // a Belay process reports when the run began
			held[at].Since, held[at].Reported = run.Since, true
		case !p.Belay:
			s.looked++
			if s.matchesRun(run) {
				held = append(held, Found{JID: run.JID, Place: PlaceRunning, Queue: run.Queue, Class: run.Class, Since: run.Since, Reported: true})
			}
		}
	}
	for _, found := range held {
		found.Process, found.State = p.Identity, p.State
		full = s.visit(found) || full
	}
	return full, nil
}

// matchesRun compares what Sidekiq reports of a run. Its args are not known here, so it matches no Text.
func (s *search) matchesRun(run Run) bool {
	q := s.query
	return (q.JID == "" || q.JID == run.JID) && (q.Class == "" || q.Class == run.Class) && (q.Queue == "" || q.Queue == run.Queue) && q.Text == ""
}

// held returns the matching jobs in the working lists of a process of Belay, and in the list of its quarantined
// job.
func (s *search) held(ctx context.Context, identity string, lists []WorkingList) (held []Found, err error) {
	read := func(home Home, key string) error {
		inner := &search{
			i: s.i, query: s.query,
			visit:   func(found Found) bool { held = append(held, found); return false },
			pageEnd: func() bool { return false },
		}
		_, err := inner.walk(ctx, home, key)
		s.looked += inner.looked
		return err
	}
	s.place = "the jobs of " + identity
	for _, list := range lists {
		key := s.i.keys.Working(list.Queue, identity)
		switch {
		case list.Identity != identity || list.Size == 0:
		case list.Size < 0:
			s.unseen = append(s.unseen, key+" is not a list")
		default:
			if err := read(Home{PlaceRunning, list.Queue}, key); err != nil {
				return nil, err
			}
		}
	}
	return held, read(Home{place: PlaceRunning}, s.i.keys.QuarantineRun(identity))
}

// walk reads a sorted set a page at a time until end reports true. An entry whose score rises meanwhile is
// read again.
func (i *Inspector) walk(ctx context.Context, key string, walk lua.Cursor, end func(page []lua.Entry) bool) error {
	for {
		page, err := i.pageAfter(ctx, key, walk, nil)
		if err != nil || len(page) == 0 || end(page) {
			return err
		}
		for _, entry := range page {
			walk.Passed(entry, true)
		}
	}
}
