package inspect

import (
	"context"
	"slices"
)

// Sizes reads a Status without processes: its cost grows with the number of queues, and with nothing else.
// NoConsumer and HeldByLapsed are not known then.
func (i *Inspector) Sizes(ctx context.Context) (Status, error) {
	var r readings
	s, queues, _ := i.summary(ctx, &r)
	if r.err() == nil {
		s.Queues = i.queues(ctx, &r.queues, queues, s.At)
	}
	for _, queue := range s.Queues {
		s.Enqueued += queue.Size
		s.Quarantined += queue.Quarantined
	}
	s.Problems = orEmpty(slices.Concat(r.sums.problems, r.queues.problems, r.processes.problems))
	return s, r.err()
}
