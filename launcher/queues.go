package launcher

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A queueSet has the queues that a process takes, which may change while it runs: AddQueue and RemoveQueue
// change them, and the patterns of the configuration stand for the queues that there are. followQueues makes
// the session's record and the loop follow, in the order that package fetch gives (follow.go). Its methods may
// be called from any goroutine.
type queueSet struct {
	mu       sync.Mutex
	capsules []queuesOf
	homes    map[string]int  // the capsule that a queue was given to, by its name
	removed  map[string]bool // queues that RemoveQueue removed, which patterns do not bring back
	of       []*shardQueues  // one for each shard

	// If more queues match than lua.MaxQueues, they take turns.
	untaken  int             // number of matching queues that have no place
	turns    int             // number of turns so far
	turned   map[string]int  // by matching queue, the turn in which it was last taken or let go
	yielding map[string]bool // queues that are let go, until no record names them
	turnedAt time.Time       // when queues last took turns, or all that match had a place
}

// shardQueues has what a queueSet knows of one shard. Its methods may be called from any goroutine.
type shardQueues struct {
	set   *queueSet       // whose mutex guards the fields below
	found map[string]bool // the queues in Redis that match a pattern
	// named is what the session's record names, or the next session's record would. It has a queue before the
	// record does, and until no record names it.
	named    []string
	unserved bool // the record may not name all of named yet

	changed trigger // the queues must be followed now
}

// queuesOf has the queues of one capsule.
type queuesOf struct {
	given []fetch.Queue     // those of the configuration, and those that AddQueue added
	order *fetch.QueueOrder // they, and the queues that the patterns stand for
}

func newQueueSet(capsules []Capsule, shares []fetch.Share, shards int) *queueSet {
	s := &queueSet{
		homes: make(map[string]int), removed: make(map[string]bool),
		turned: make(map[string]int), yielding: make(map[string]bool),
	}
	for range shards {
		s.of = append(s.of, &shardQueues{set: s, found: make(map[string]bool), changed: newTrigger()})
	}
	for i, share := range shares {
		s.capsules = append(s.capsules, queuesOf{given: slices.Clone(capsules[i].Queues), order: share.Order})
		for _, queue := range capsules[i].Queues {
			s.homes[queue.Name] = i
		}
	}
	return s
}

// orders returns the order of each capsule's queues.
func (s *queueSet) orders() []*fetch.QueueOrder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ordersLocked()
}

func (s *queueSet) ordersLocked() (orders []*fetch.QueueOrder) {
	for _, capsule := range s.capsules {
		orders = append(orders, capsule.order)
	}
	return orders
}

// begin returns the orders with which the loop begins. The first session names their queues.
func (s *queueSet) begin() []*fetch.QueueOrder {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.of {
		q.named = namesOf(s.ordersLocked())
	}
	return s.ordersLocked()
}

// forRecord returns the queues that the record of a new session must name.
func (q *shardQueues) forRecord() []string {
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	return slices.Clone(q.named)
}

// namedLocked returns the queues that the record of any shard may name.
func (s *queueSet) namedLocked() map[string]bool {
	named := make(map[string]bool)
	for _, q := range s.of {
		for _, name := range q.named {
			named[name] = true
		}
	}
	return named
}

// foundLocked returns the queues that match a pattern in any shard.
func (s *queueSet) foundLocked() map[string]bool {
	found := make(map[string]bool)
	for _, q := range s.of {
		maps.Copy(found, q.found)
	}
	return found
}

func namesOf(orders []*fetch.QueueOrder) (names []string) {
	for _, order := range orders {
		names = append(names, order.Names()...)
	}
	return names
}

// given returns the queues and the patterns as they were given.
func (s *queueSet) given() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.givenLocked()
}

func (s *queueSet) givenLocked() (names []string) {
	for _, capsule := range s.capsules {
		for _, queue := range capsule.given {
			names = append(names, queue.Name)
		}
	}
	return names
}

// patterns reports whether a capsule has a pattern.
func (s *queueSet) patterns() bool {
	return slices.ContainsFunc(s.orders(), (*fetch.QueueOrder).Patterns)
}

// matches reports whether a queue belongs to a pattern.
func (s *queueSet) matches(queue string) bool {
	return slices.ContainsFunc(s.orders(), func(order *fetch.QueueOrder) bool { return order.PatternOf(queue) != "" })
}

// homeLocked returns the capsule of a queue: the one that it was given to, else the first with a pattern that
// matches it, else the first. It never changes, because the loop counts runs by capsule.
func (s *queueSet) homeLocked(queue string) *queuesOf {
	if i, given := s.homes[queue]; given {
		return &s.capsules[i]
	}
	for i := range s.capsules {
		if s.capsules[i].order.PatternOf(queue) != "" {
			return &s.capsules[i]
		}
	}
	return &s.capsules[0]
}

// has reports whether the capsule was given this queue.
func (c *queuesOf) has(queue string) bool {
	return slices.ContainsFunc(c.given, func(given fetch.Queue) bool { return given.Name == queue })
}

// add adds a queue, or changes its weight.
func (s *queueSet) add(name string, weight int) error {
	if job.IsPattern(name) {
		return errors.New("it is a pattern: give patterns in the configuration")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	capsule := s.homeLocked(name)
	given := slices.Clone(capsule.given)
	if at := slices.IndexFunc(given, func(given fetch.Queue) bool { return given.Name == name }); at >= 0 {
		given[at].Weight = weight
	} else {
		given = append(given, fetch.Queue{Name: name, Weight: weight})
	}
	if len(s.givenLocked())-len(capsule.given)+len(given) > lua.MaxQueues {
		return fmt.Errorf("one process serves at most %d queues", lua.MaxQueues)
	}
	order, err := newOrder(given)
	if err != nil {
		return err
	}
	capsule.given, capsule.order = given, order
	delete(s.removed, name)
	delete(s.yielding, name)
	s.matchLocked()
	return nil
}

// remove removes a queue.
func (s *queueSet) remove(name string) error {
	if job.IsPattern(name) {
		return errors.New("it is a pattern, which stays as long as the process")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	capsule := s.homeLocked(name)
	if capsule.has(name) {
		given := slices.DeleteFunc(slices.Clone(capsule.given), func(given fetch.Queue) bool { return given.Name == name })
		if len(given) == 0 {
			return errors.New("it is the only queue of its capsule: add another queue first, or make the process quiet")
		}
		order, err := newOrder(given)
		if err != nil {
			return err
		}
		capsule.given, capsule.order = given, order
	}
	if slices.ContainsFunc(s.capsules, func(c queuesOf) bool { return c.order.PatternOf(name) != "" }) {
		s.removed[name] = true
	}
	s.matchLocked()
	return nil
}

func newOrder(queues []fetch.Queue) (*fetch.QueueOrder, error) {
	return fetch.NewQueueOrder(queues, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
}

// matchLocked makes the patterns stand for the queues that were found, at most as many as there is room for.
// Those that are taken already come first, and then those whose last turn was longest ago.
func (s *queueSet) matchLocked() {
	matching := make([][]string, len(s.capsules))
	room := lua.MaxQueues
	for _, name := range s.givenLocked() {
		if !job.IsPattern(name) {
			room--
		}
	}
	taken, found := s.namedLocked(), s.foundLocked()
	for name := range taken {
		if (!found[name] || s.removed[name] || s.yielding[name]) && !s.homeLocked(name).has(name) {
			room-- // it is leaving
		}
	}
	for _, name := range namesOf(s.ordersLocked()) {
		taken[name] = true // and the record will name it
	}
	names := slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		switch {
		case taken[a] && !taken[b]:
			return -1
		case taken[b] && !taken[a]:
			return 1
		}
		return cmp.Or(cmp.Compare(s.turned[a], s.turned[b]), cmp.Compare(a, b))
	})
	s.untaken = 0
	for _, name := range names {
		at := slices.IndexFunc(s.capsules, func(c queuesOf) bool { return c.order.PatternOf(name) != "" })
		switch {
		case at < 0 || s.removed[name] || s.yielding[name] || s.homeLocked(name).has(name):
		case room <= 0:
			s.untaken++
		default:
			matching[at] = append(matching[at], name)
			room--
			if !taken[name] {
				s.turned[name] = s.turns
			}
		}
	}
	for i := range s.capsules {
		capsule := &s.capsules[i]
		if order := capsule.order.Matching(matching[i]); !slices.Equal(order.Names(), capsule.order.Names()) {
			capsule.order = order
		}
	}
}

// maxTurned bounds how many queues one turn lets go: the others keep their idle waits.
const maxTurned = lua.MaxQueues / 4

// turn lets queues of the patterns go that have been taken for longest, if not all that match have a place.
// Those that have waited for longest get the places.
func (s *queueSet) turn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turnLocked()
}

// turnIfDue is turn if that is due.
func (s *queueSet) turnIfDue(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.untaken == 0 || s.turnedAt.IsZero():
		s.turnedAt = now
	case now.Sub(s.turnedAt) >= turnEvery:
		s.turnedAt = now
		s.turnLocked()
	}
}

func (s *queueSet) turnLocked() {
	s.turns++
	for name := range s.yielding { // it has not left, because its jobs run on
		delete(s.yielding, name)
		s.turned[name] = s.turns
	}
	named := s.namedLocked()
	var longest []string
	for _, capsule := range s.capsules {
		for _, name := range capsule.order.Names() {
			if !capsule.has(name) && named[name] {
				longest = append(longest, name)
			}
		}
	}
	slices.SortStableFunc(longest, func(a, b string) int { return cmp.Compare(s.turned[a], s.turned[b]) })
	for _, name := range longest[:min(len(longest), s.untaken, maxTurned)] {
		s.yielding[name] = true
	}
	s.matchLocked()
}

// pull makes all shards follow the queues now.
func (s *queueSet) pull() {
	for _, q := range s.of {
		q.changed.pull()
	}
}

// AddQueue makes the process take jobs from a queue; see belay.Server.AddQueue.
func (l *Launcher) AddQueue(name string, weight int) error {
	if err := l.queues.add(name, weight); err != nil {
		return fmt.Errorf("belay: add queue %q: %w", name, err)
	}
	l.queues.pull()
	return nil
}

// RemoveQueue makes the process take no more jobs from a queue; see belay.Server.RemoveQueue.
func (l *Launcher) RemoveQueue(name string) error {
	if err := l.queues.remove(name); err != nil {
		return fmt.Errorf("belay: remove queue %q: %w", name, err)
	}
	l.queues.pull()
	return nil
}

// Queues returns the names of the queues that the process takes, those of all capsules.
func (l *Launcher) Queues() []string { return namesOf(l.queues.orders()) }

// leftOut returns how many matching queues are not taken, because there are too many.
func (s *queueSet) leftOut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untaken
}

// QueuesAndPatterns returns the queues and the patterns that the process was given, in the place of Queues for
// what must be allowed before there is a matching queue.
func (l *Launcher) QueuesAndPatterns() []string { return l.queues.given() }

// toServe returns the orders, what the record must name for them, and whether it may not do so yet. From now
// on the records of new sessions name it: Session.Serve may succeed for a session that ends before the loop
// follows.
func (q *shardQueues) toServe() (orders []*fetch.QueueOrder, named []string, unserved bool) {
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	orders = q.set.ordersLocked()
	for _, name := range namesOf(orders) {
		if !slices.Contains(q.named, name) {
			q.named, q.unserved = append(q.named, name), true
		}
	}
	return orders, slices.Clone(q.named), q.unserved
}

// confirm records that the record names the queues that toServe has returned.
func (q *shardQueues) confirm() {
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	q.unserved = false
}

// drop records that no record of the shard names a queue any more.
func (q *shardQueues) drop(name string) {
	s := q.set
	s.mu.Lock()
	defer s.mu.Unlock()
	q.named = slices.DeleteFunc(q.named, func(other string) bool { return other == name })
	if s.yielding[name] && !s.namedLocked()[name] {
		delete(s.yielding, name)
		s.turned[name] = s.turns
	}
	s.matchLocked() // there is room for another one
}

// missing returns the queues that were found before and are not among seen, at most as many as one call reads.
func (q *shardQueues) missing(seen map[string]bool) (missing []string) {
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	for name := range q.found {
		if !seen[name] && len(missing) < lua.MaxQueues {
			missing = append(missing, name)
		}
	}
	return missing
}

// find adds the queues that were seen, and removes those that are gone.
func (q *shardQueues) find(seen map[string]bool, gone []string) {
	s := q.set
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(q.found, seen)
	for _, name := range gone {
		delete(q.found, name)
	}
	found := s.foundLocked()
	for _, name := range gone {
		if !found[name] {
			delete(s.turned, name)
			delete(s.yielding, name)
		}
	}
	s.matchLocked()
}
