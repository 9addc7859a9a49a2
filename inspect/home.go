package inspect

import (
	"context"
	"fmt"

	"github.com/belayq/belay/lua"
)

// A Home is a place where jobs wait and from which an operator may move them. A job that a process holds is
// in none.
type Home struct {
	kind  homeKind
	queue string
}

type homeKind string

const (
	homeRetries     homeKind = "retries"
	homeScheduled   homeKind = "scheduled"
	homeDead        homeKind = "dead"
	homeQueue       homeKind = "queue"
	homeQuarantined homeKind = "quarantined"
	homeRunning     homeKind = "running" // operators cannot take jobs from it
)

// Retries returns the set of failed jobs that will run again.
func Retries() Home { return Home{kind: homeRetries} }

// Scheduled returns the set of jobs that wait for their time.
func Scheduled() Home { return Home{kind: homeScheduled} }

// Dead returns the set of jobs that run again only if an operator retries them.
func Dead() Home { return Home{kind: homeDead} }

// Waiting returns a queue.
func Waiting(queue string) Home { return Home{homeQueue, queue} }

// Quarantined returns the jobs of a queue that wait to run alone, because too many processes crashed while
// running them.
func Quarantined(queue string) Home { return Home{homeQuarantined, queue} }

// String names the home for people. It may contain the name of a queue, which is untrusted text.
func (h Home) String() string {
	switch h.kind {
	case homeQueue:
		return "queue " + h.queue
	case homeQuarantined:
		return "quarantined jobs of queue " + h.queue
	default:
		return string(h.kind)
	}
}

// Queue returns the queue's name; empty for a home that belongs to no queue.
func (h Home) Queue() string { return h.queue }

// Place returns the place of the home's jobs.
func (h Home) Place() Place {
	if h.kind == homeRetries {
		return PlaceRetry
	}
	return Place(h.kind)
}

func (h Home) sorted() bool { return h == Retries() || h == Scheduled() || h == Dead() }

func (h Home) key(keys lua.Keys) string {
	switch h.kind {
	case homeRetries:
		return keys.Retry()
	case homeScheduled:
		return keys.Schedule()
	case homeDead:
		return keys.Dead()
	case homeQuarantined:
		return keys.Quarantine(h.queue)
	default:
		return keys.Queue(h.queue)
	}
}

// order is the display order: the next job to run first, or the job that died last.
func (h Home) order() lua.Order {
	switch {
	case h.kind == homeDead:
		return lua.OrderHighest
	case h.sorted():
		return lua.OrderLowest
	default:
		return lua.OrderOldest
	}
}

// Size returns the number of jobs in a home.
func (i *Inspector) Size(ctx context.Context, home Home) (int, error) {
	page, err := i.page(ctx, home.key(i.keys), home.order(), 0, 0)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", home, err)
	}
	return page.Total, nil
}
