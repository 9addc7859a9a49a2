package inspect

import (
	"context"
	"fmt"

	"github.com/belayq/belay/lua"
)

// A Home is a place in which jobs wait, and out of which an operator may move them. Jobs in the hands of a process are in
// none: they are their process' own.
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

// Retries is where failed jobs wait to run again.
func Retries() Home { return Home{kind: homeRetries} }

// Scheduled is where jobs wait for their time.
func Scheduled() Home { return Home{kind: homeScheduled} }

// Dead is where jobs lie that will not run again by themselves.
func Dead() Home { return Home{kind: homeDead} }

// Waiting is a queue.
func Waiting(queue string) Home { return Home{homeQueue, queue} }

// Suspects is where jobs of a queue wait to run alone, because their processes died too often with them in hand.
func Quarantined(queue string) Home { return Home{homeQuarantined, queue} }

// String names the home for people. The name of a queue in it is somebody else's text.
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

// Queue is the queue's name; empty for a home that belongs to none.
func (h Home) Queue() string { return h.queue }

func (h Home) sorted() bool { return h.kind != homeQueue && h.kind != homeQuarantined }

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

// order is the one in which people want to see it: what runs next first, and of the dead those that died last.
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

// Size is how many jobs lie in a home.
func (i *Inspector) Size(ctx context.Context, home Home) (int, error) {
	page, err := i.keys.Page(home.key(i.keys), home.order(), 0, 0).Do(ctx, i.driver)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", home, err)
	}
	return page.Total, nil
}
