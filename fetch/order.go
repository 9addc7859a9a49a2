package fetch

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A Queue is one queue to take from, or a pattern that stands for all queues that match it: tenant-* stands for
// tenant-1 and tenant-2; see job.IsPattern. Weight 0 means that none is given. Each queue of a pattern has the
// pattern's weight.
type Queue struct {
	Name   string
	Weight int
}

// A QueueOrder is the order in which queues are read in each turn, as in Sidekiq. If no queue has a weight, the
// order is strict, as given. Otherwise it is drawn anew each turn: the probability that a queue comes first
// is its share of all weights. If all weights are 1, the order is random. In a strict order the queues of one
// pattern are all at its place, in random order among each other, so that none of them waits for the others.
//
// Only Next is confined to one goroutine; what the other methods return never changes.
type QueueOrder struct {
	places   []place
	weighted bool
	names    []string
	weights  map[string]int // as given, by name
	shared   [][2]int       // the ranges of names that have one place together
	draw     []int          // indexes into names, each as often as its weight; empty when strict
	random   *rand.Rand
}

// A place is one element of the configured order.
type place struct {
	Queue
	pattern bool
	tickets int // its weight in a draw
}

// NewQueueOrder checks the queues and makes their order. A queue may be named several times, which adds to its
// weight, as in Sidekiq; there are at most lua.MaxQueues different ones. Patterns stand for no queue before
// Matching says which there are.
func NewQueueOrder(queues []Queue, random *rand.Rand) (*QueueOrder, error) {
	order := &QueueOrder{random: random}
	index := make(map[string]int)
	for _, queue := range queues {
		if err := job.CheckQueue(queue.Name); err != nil {
			return nil, err
		}
		if queue.Weight < 0 || queue.Weight > maxWeight {
			return nil, fmt.Errorf("queue %q: a weight must be between 1 and %d, not %d", queue.Name, maxWeight, queue.Weight)
		}
		at, seen := index[queue.Name]
		if !seen {
			at = len(order.places)
			index[queue.Name] = at
			order.places = append(order.places, place{Queue: queue, pattern: job.IsPattern(queue.Name)})
		}
		order.weighted = order.weighted || queue.Weight > 0 || seen
		order.places[at].Weight = queue.Weight
		order.places[at].tickets += max(queue.Weight, 1)
	}
	switch {
	case len(order.places) == 0:
		return nil, fmt.Errorf("no queue to take from")
	case len(order.places) > lua.MaxQueues:
		return nil, fmt.Errorf("%d queues: one process serves at most %d", len(order.places), lua.MaxQueues)
	}
	return order.Matching(nil), nil
}

// Matching returns the order of the same queues and patterns in which the patterns stand for these queues. A
// queue belongs to the first pattern that it matches.
func (o *QueueOrder) Matching(queues []string) *QueueOrder {
	order := &QueueOrder{places: o.places, weighted: o.weighted, weights: make(map[string]int), random: o.random}
	byPattern := make(map[string][]string)
	for _, queue := range slices.Sorted(slices.Values(queues)) {
		if pattern := o.PatternOf(queue); pattern != "" {
			byPattern[pattern] = append(byPattern[pattern], queue)
		}
	}
	for _, p := range o.places {
		matching := []string{p.Name}
		if p.pattern {
			matching = byPattern[p.Name]
		}
		first := len(order.names)
		for _, name := range matching {
			for range p.tickets {
				order.draw = append(order.draw, len(order.names))
			}
			order.names, order.weights[name] = append(order.names, name), p.Weight
		}
		if len(matching) > 1 {
			order.shared = append(order.shared, [2]int{first, len(order.names)})
		}
	}
	if !order.weighted || len(order.names) == 1 {
		order.draw = nil
	}
	return order
}

// PatternOf returns the pattern that a queue belongs to; "" if it matches none, or is named by itself.
func (o *QueueOrder) PatternOf(queue string) (pattern string) {
	for _, p := range o.places {
		switch {
		case p.Name == queue && !p.pattern:
			return ""
		case pattern == "" && p.pattern && job.MatchPattern(p.Name, queue):
			pattern = p.Name
		}
	}
	return pattern
}

// maxWeight bounds the work of one draw. Weights in practice are small numbers.
const maxWeight = 1000

// Names returns the queues, each once, in the order first given.
func (o *QueueOrder) Names() []string { return o.names }

// Patterns reports whether there are patterns.
func (o *QueueOrder) Patterns() bool {
	return slices.ContainsFunc(o.places, func(p place) bool { return p.pattern })
}

// Weights returns the weight of each queue as it was given, 0 for none, by name.
func (o *QueueOrder) Weights() map[string]int { return o.weights }

// Strict reports whether the queues are read in the order given, and not in one that is drawn by weight.
func (o *QueueOrder) Strict() bool { return !o.weighted || len(o.names) == 1 }

// Next returns the order of one turn.
func (o *QueueOrder) Next() []string {
	if o.draw == nil {
		if len(o.shared) == 0 {
			return o.names
		}
		turn := slices.Clone(o.names)
		for _, of := range o.shared {
			together := turn[of[0]:of[1]]
			o.random.Shuffle(len(together), func(i, j int) { together[i], together[j] = together[j], together[i] })
		}
		return turn
	}
	// The list is shuffled, and the first place of each queue counts. So the probability that a queue comes
	// first is its share of all weights.
	o.random.Shuffle(len(o.draw), func(i, j int) { o.draw[i], o.draw[j] = o.draw[j], o.draw[i] })
	turn := make([]string, 0, len(o.names))
	seen := make([]bool, len(o.names))
	for _, index := range o.draw {
		if !seen[index] {
			seen[index] = true
			turn = append(turn, o.names[index])
		}
	}
	return turn
}
