package fetch

import (
	"fmt"
	"math/rand/v2"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A Queue is one queue to take from. Weight 0 means that none is given.
type Queue struct {
	Name   string
	Weight int
}

// A QueueOrder is the order in which queues are read in each turn, as in Sidekiq. If no queue has a weight, the
// order is strict, as given. Otherwise it is drawn anew each turn: the probability that a queue comes first
// is its share of all weights. If all weights are 1, the order is random.
type QueueOrder struct {
	names  []string
	draw   []int // indexes into names, each as often as its weight; empty when strict
	random *rand.Rand
}

// NewQueueOrder checks the queues and makes their order. A queue may be named several times, which adds to its
// weight, as in Sidekiq; there are at most lua.MaxQueues different ones.
func NewQueueOrder(queues []Queue, random *rand.Rand) (*QueueOrder, error) {
	order := &QueueOrder{random: random}
	index, weighted := make(map[string]int), false
	for _, queue := range queues {
		if err := job.CheckQueue(queue.Name); err != nil {
			return nil, err
		}
		if queue.Weight < 0 || queue.Weight > maxWeight {
			return nil, fmt.Errorf("queue %q: a weight must be between 1 and %d, not %d", queue.Name, maxWeight, queue.Weight)
		}
		_, seen := index[queue.Name]
		if !seen {
			index[queue.Name] = len(order.names)
			order.names = append(order.names, queue.Name)
		}
		weighted = weighted || queue.Weight > 0 || seen
		for range max(queue.Weight, 1) {
			order.draw = append(order.draw, index[queue.Name])
		}
	}
	switch {
	case len(order.names) == 0:
		return nil, fmt.Errorf("no queue to take from")
	case len(order.names) > lua.MaxQueues:
		return nil, fmt.Errorf("%d queues: one process serves at most %d", len(order.names), lua.MaxQueues)
	}
	if !weighted || len(order.names) == 1 {
		order.draw = nil
	}
	return order, nil
}

// maxWeight bounds the work of one draw. Weights in practice are small numbers.
const maxWeight = 1000

// Names returns the queues, each once, in the order first given.
func (o *QueueOrder) Names() []string { return o.names }

// Strict reports whether every turn has the same order.
func (o *QueueOrder) Strict() bool { return o.draw == nil }

// Next returns the order of one turn.
func (o *QueueOrder) Next() []string {
	if o.draw == nil {
		return o.names
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
