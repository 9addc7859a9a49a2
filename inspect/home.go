package inspect

import (
	"cmp"
	"context"
	"fmt"

	"github.com/belayq/belay/lua"
)

// A Place is where a job can be found.
type Place string

// The places. Their names are a contract.
const (
	PlaceQueue       Place = "queue"
	PlaceQuarantined Place = "quarantined" // it waits to run alone
	PlaceWaiting     Place = "waiting"     // it waits at a gate, until its limit lets it start
	PlaceRunning     Place = "running"     // a process holds it
	PlaceScheduled   Place = "scheduled"
	PlaceRetry       Place = "retry"
	PlaceDead        Place = "dead"
	PlaceCompleted   Place = "completed" // it has ended, and is kept because it is tracked
	PlaceNotFound    Place = "not_found"
)

// Places returns the places that a Query can be limited to. Jobs wait or run in all but the last.
func Places() []Place {
	return []Place{PlaceQueue, PlaceQuarantined, PlaceWaiting, PlaceRunning, PlaceScheduled, PlaceRetry, PlaceDead, PlaceCompleted}
}

// A Home is a place where jobs can be listed: a set, a place of one queue, or the waiting list of one gate. An
// operator may move the jobs of all but Completed. A job that a process holds is in none.
type Home struct {
	place Place
	queue string // of PlaceQueue and PlaceQuarantined; of PlaceWaiting, if acts are for the jobs of one queue
	gate  string // of PlaceWaiting
}

// Retries returns the set of failed jobs that will run again.
func Retries() Home { return Home{place: PlaceRetry} }

// Scheduled returns the set of jobs that wait for their time.
func Scheduled() Home { return Home{place: PlaceScheduled} }

// Dead returns the set of jobs that run again only if an operator retries them.
func Dead() Home { return Home{place: PlaceDead} }

// Completed returns the tracked jobs that have ended, other than in the dead set: those that ended last first,
// at most 10,000, each for the time given to Track. Its Size may count some whose time is over.
func Completed() Home { return Home{place: PlaceCompleted} }

// Waiting returns a queue.
func Waiting(queue string) Home { return Home{place: PlaceQueue, queue: queue} }

// Quarantined returns the jobs of a queue that wait to run alone, because too many processes crashed while
// running them.
func Quarantined(queue string) Home { return Home{place: PlaceQuarantined, queue: queue} }

// Waiters returns the jobs that wait at a gate (see Gate.Name): the one that has waited longest first.
func Waiters(gate string) Home { return Home{place: PlaceWaiting, gate: gate} }

// WaitersOf returns a home for each gate with waiting jobs. Acts there are for jobs of this queue alone; an
// empty one is any. Lists and sizes are of all jobs at the gate.
func (i *Inspector) WaitersOf(ctx context.Context, queue string) ([]Home, error) {
	gates, err := i.waitingGates(ctx)
	homes := make([]Home, len(gates))
	for n, gate := range gates {
		homes[n] = Home{place: PlaceWaiting, queue: queue, gate: gate}
	}
	return homes, err
}

// HomesIn returns the homes of these places: the sets, and the places of one queue. It leaves out others.
func HomesIn(queue string, places ...Place) (homes []Home) {
	for _, place := range places {
		switch place {
		case PlaceQueue, PlaceQuarantined:
			homes = append(homes, Home{place: place, queue: queue})
		case PlaceScheduled, PlaceRetry, PlaceDead, PlaceCompleted:
			homes = append(homes, Home{place: place})
		}
	}
	return homes
}

// HomeOf returns the home that Entry.In and, unless it is a set, the name of a queue or a gate make (see
// Home.Name); ok is false if there is none.
func HomeOf(in, name string) (home Home, ok bool) {
	for _, h := range append(HomesIn(name, Places()...), Waiters(name)) {
		if h.in() == in && (h.sorted() || name != "") {
			return h, true
		}
	}
	return Home{}, false
}

// in returns Entry.In of the home's jobs: their place, but the set of retries has the name of Sidekiq's page.
func (h Home) in() string {
	if h.place == PlaceRetry {
		return "retries"
	}
	return string(h.place)
}

// String names the home for people. It may contain the name of a queue or a gate, which is untrusted text.
func (h Home) String() string {
	switch h.place {
	case PlaceQueue:
		return "queue " + h.queue
	case PlaceQuarantined:
		return "quarantined jobs of queue " + h.queue
	case PlaceWaiting:
		return "jobs that wait at gate " + h.gate
	default:
		return h.in()
	}
}

// Queue returns the queue's name; empty for a home that belongs to no queue.
func (h Home) Queue() string { return h.queue }

// Gate returns the gate's name; empty for any home but those of Waiters.
func (h Home) Gate() string { return h.gate }

// Name returns the name of the home's queue or gate; empty for a set.
func (h Home) Name() string { return cmp.Or(h.gate, h.queue) }

// Place returns the place of the home's jobs.
func (h Home) Place() Place { return h.place }

func (h Home) sorted() bool { return h == Retries() || h == Scheduled() || h.newestFirst() }

// newestFirst reports whether the job that came last is listed first: none of these jobs is going to run.
func (h Home) newestFirst() bool { return h == Dead() || h == Completed() }

func (h Home) key(keys lua.Keys) string {
	switch h.place {
	case PlaceRetry:
		return keys.Retry()
	case PlaceScheduled:
		return keys.Schedule()
	case PlaceDead:
		return keys.Dead()
	case PlaceCompleted:
		return keys.Completed()
	case PlaceQuarantined:
		return keys.Quarantine(h.queue)
	case PlaceWaiting:
		return keys.WaitingList(h.gate)
	default:
		return keys.Queue(h.queue)
	}
}

// Size returns the number of jobs in a home.
func (i *Inspector) Size(ctx context.Context, home Home) (int, error) {
	order := lua.OrderOldest
	if home.sorted() {
		order = lua.OrderLowest
	}
	page, err := i.page(ctx, home.key(i.keys), order, 0, 0)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", home, err)
	}
	return page.Total, nil
}
