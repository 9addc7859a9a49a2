package inspect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/lua"
)

// A Query chooses jobs wherever they are: those that match the Filter and, if there are IDs, have one of them.
// The zero Query lists all jobs.
type Query struct {
	// IDs are Entry.ID, or the jids of runs. Several entries may have one of them.
	IDs []string
	Filter
	// Places limits the search to some places.
	Places []Place
	// Gate limits the search of PlaceWaiting to the jobs that wait at this gate.
	Gate string
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
// waiting at gates, queues and quarantined jobs, running, retries, dead. In each place the next job to run
// comes first, and of dead jobs the one that died last. Completed jobs come first, and only those with an ID of
// the query, unless its Places name them: then the one that ended last is the first. Search reads pages of at
// most 256 entries until a bound of the query is reached; Results.Next continues there. Jobs move meanwhile, so
// a search may find a job twice or miss it. On a near Redis it reads about 150,000 entries of ordinary size in
// a second.
func (i *Inspector) Search(ctx context.Context, query Query) (Results, error) {
	limit := min(cmp.Or(max(query.Limit, 0), defaultFound), maxFound)
	ends := time.Now().Add(cmp.Or(query.Time, searchTime))
	results := Results{Found: []Found{}}
	s := i.search(query)
	if err := readCursor(query.Cursor, &s.at); err != nil {
		return results, err
	}
	s.visit = func(found Found) bool {
		results.Found = append(results.Found, found)
		return len(results.Found) >= limit
	}
	s.pageEnd = func() bool { return !time.Now().Before(ends) }
	stopped, err := s.run(ctx)
	results.Looked, results.Unseen = s.looked, s.unseen
	if err != nil {
		return results, s.wrap(err)
	}
	if stopped {
		results.Next = cursorOf(s.at)
	}
	return results, nil
}

// Jobs yields all jobs that match a query, in the order of Search; Limit and Time do not bound it. It reads a
// page at a time, as the caller continues. It yields an error once, and then ends.
func (i *Inspector) Jobs(ctx context.Context, query Query) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		s := i.search(query)
		ended := false // a process is not divided
		s.visit = func(found Found) bool {
			ended = ended || !yield(found, nil)
			return ended
		}
		err := readCursor(query.Cursor, &s.at)
		if err == nil {
			_, err = s.run(ctx)
			err = s.wrap(cmp.Or(err, ctx.Err()))
		}
		if err != nil && !ended {
			yield(Found{}, err)
		}
	}
}

// A search goes through the places. Both callbacks end it by returning true.
type search struct {
	i       *Inspector
	query   Query
	ids     map[string]bool // of the query
	at      searchPosition
	visit   func(Found) bool
	pageEnd func() bool
	place   string // the current place, for people
	// tracked has what is known about the query's tracked jobs.
	tracked map[string]*lua.TrackedJob
	looked  int
	unseen  []string
}

// search returns a search of a query. It ends at the first error, and its caller sets what else ends it.
func (i *Inspector) search(query Query) *search {
	s := &search{
		i: i, query: query, ids: make(map[string]bool), pageEnd: func() bool { return false }, tracked: make(map[string]*lua.TrackedJob),
	}
	for _, id := range query.IDs {
		s.ids[id] = true
	}
	return s
}

func (s *search) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("search in %s: %w", s.place, err)
}

// may reports whether a payload is worth parsing, as Filter.may does. Several IDs are left to Redis: see read.
func (s *search) may(payload string) bool {
	if ids := s.query.IDs; len(ids) == 1 && !strings.HasPrefix(ids[0], unreadable) && !strings.Contains(payload, `\`) && !strings.Contains(payload, ids[0]) {
		return false
	}
	return s.query.Filter.may(payload)
}

// finds reports whether the query wants a job.
func (s *search) finds(e Entry) bool { return (len(s.ids) == 0 || s.ids[e.ID]) && s.query.matches(e) }

// A searchPosition is what the cursor of a search holds.
type searchPosition struct {
	Stage int `json:"stage"`
	// Name is the gate, the queue or the identity to continue with, and Quarantined whether in the queue's
	// quarantine.
	Name        string   `json:"name,omitempty"`
	Quarantined bool     `json:"quarantined,omitempty"`
	Way         position `json:"way,omitzero"`
}

// run continues from s.at until a callback ends the search.
func (s *search) run(ctx context.Context) (stopped bool, err error) {
	stages := []func(context.Context) (bool, error){
		s.completed,
		func(ctx context.Context) (bool, error) { return s.home(ctx, Scheduled()) },
		func(ctx context.Context) (bool, error) { return s.lists(ctx, queueLists, s.query.Queue) },
		s.running,
		func(ctx context.Context) (bool, error) { return s.home(ctx, Retries()) },
		func(ctx context.Context) (bool, error) { return s.home(ctx, Dead()) },
		// The last number, because cursors of older versions have the others.
		func(ctx context.Context) (bool, error) { return s.lists(ctx, gateLists, s.query.Gate) },
	}
	if err := s.readTracked(ctx); err != nil {
		return false, err
	}
	order := []int{0, 1, 6, 2, 3, 4, 5} // an admitted job goes from its gate to its queue
	begin := slices.Index(order, s.at.Stage)
	if begin < 0 {
		return false, nil
	}
	for _, stage := range order[begin:] {
		if stage != s.at.Stage {
			s.at = searchPosition{Stage: stage}
		}
		if stopped, err = stages[stage](ctx); stopped || err != nil {
			return stopped, err
		}
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
	cfg := readConfig{jids: s.query.IDs, newest: true}
	if len(s.ids) == 0 && s.query.Filter.none() {
		cfg.first = firstListed
	}
	jobs, err := s.i.read(ctx, home, key, s.at.Way, cfg)
	if err != nil || jobs == nil {
		return false, err
	}
	for {
		page, err := jobs.next(ctx)
		if err != nil || len(page) == 0 {
			s.at.Way = position{}
			return false, err
		}
		for _, entry := range page {
			jobs.passed(entry, true)
			s.looked += 1 + entry.raw.LeftOut
			// The error of a completed job is not in its payload.
			if entry.gone || entry.Tracked == nil && !s.may(entry.raw.Bytes) {
				continue
			}
			if s.i.parse(&entry); s.finds(entry) && s.found(entry.Found()) {
				s.at.Way = jobs.position()
				return true, nil
			}
		}
		if s.at.Way = jobs.position(); s.pageEnd() {
			return true, nil
		}
	}
}

// found visits a job, with its state if it is tracked.
func (s *search) found(f Found) bool {
	if read := s.tracked[f.JID]; read != nil {
		tracked := read.Tracked // a second pass finds it again
		f.Tracked = &tracked
		s.i.result(f)
	}
	return s.visit(f)
}

// lists searches the lists of one name or, if that is empty, of all names.
func (s *search) lists(ctx context.Context, of lists, only string) (bool, error) {
	if !slices.ContainsFunc(of.homes(only), func(home Home) bool { return s.wants(home.Place()) }) {
		return false, nil
	}
	s.place = of.what
	for home, err := range s.i.withJobs(ctx, of, only, s.at.Name, &s.unseen) {
		if err != nil {
			return false, err
		}
		name, quarantined := cmp.Or(home.gate, home.queue), home.Place() == PlaceQuarantined
		if name == s.at.Name && s.at.Quarantined && !quarantined || !s.wants(home.Place()) {
			continue
		}
		if name != s.at.Name || s.at.Quarantined != quarantined {
			s.at.Name, s.at.Quarantined, s.at.Way = name, quarantined, position{}
		}
		if stopped, err := s.home(ctx, home); stopped || err != nil {
			return stopped, err
		}
	}
	return false, nil
}

// lists are the lists of jobs of one kind, which exist for each name of a queue or of a gate.
type lists struct {
	what  string // for people
	names func(*Inspector, context.Context) ([]string, error)
	homes func(name string) []Home
}

var (
	queueLists = lists{"queues", (*Inspector).QueueNames, func(name string) []Home { return []Home{Waiting(name), Quarantined(name)} }}
	gateLists  = lists{"gates", (*Inspector).waitingGates, func(name string) []Home { return []Home{Waiters(name)} }}
)

// withJobs yields the lists that have jobs: of one name or, if only is empty, of all names from one on. Most
// are empty, and lengths are cheap. It adds the keys that are not lists to unseen, and ends at an error.
func (i *Inspector) withJobs(ctx context.Context, of lists, only, from string, unseen *[]string) iter.Seq2[Home, error] {
	return func(yield func(Home, error) bool) {
		names, err := []string{only}, error(nil)
		if only == "" {
			names, err = of.names(i, ctx)
		}
		start, _ := slices.BinarySearch(names, from)
		for chunk := range slices.Chunk(names[start:], lua.MaxQueues) {
			var homes []Home
			var keys []string
			for _, name := range chunk {
				for _, home := range of.homes(name) {
					homes, keys = append(homes, home), append(keys, home.key(i.keys))
				}
			}
			var lengths []int
			if lengths, err = lua.Lengths(keys).Do(ctx, i.driver); err != nil {
				break
			}
			for n, home := range homes {
				if lengths[n] < 0 {
					*unseen = append(*unseen, home.String()+" is not a list")
				}
				if lengths[n] > 0 && !yield(home, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(Home{}, err)
		}
	}
}

// waitingGates returns the names of all gates with waiting jobs, sorted.
func (i *Inspector) waitingGates(ctx context.Context) ([]string, error) {
	names, err := i.ranked(ctx, i.keys.Waiting())
	if err != nil {
		return nil, fmt.Errorf("read the gates with waiting jobs: %w", err)
	}
	return sorted(names), nil
}

// QueueNames returns the names of all queues, sorted.
func (i *Inspector) QueueNames(ctx context.Context) ([]string, error) {
	return i.members(ctx, i.keys.Queues())
}

// members reads a set of names a page at a time, and sorts them. A name that is there all the while is read.
func (i *Inspector) members(ctx context.Context, key string) (names []string, err error) {
	for from := lua.FirstPage; ; {
		page, err := lua.NamePage(key, from).Do(ctx, i.driver)
		if err != nil {
			return nil, fmt.Errorf("read the names in %s: %w", key, err)
		}
		names = append(names, page.Names...)
		if from = page.Next; from == lua.LastPage {
			return sorted(names), nil
		}
	}
}
