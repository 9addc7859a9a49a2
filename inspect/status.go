package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// mostShown is how many queues, processes and running jobs one Status lists. A fleet is rarely so large, and what is
// larger does not fit on a screen; the counts beside the lists are of all.
const mostShown = 1000

// A Status is the whole picture on one page.
type Status struct {
	// At is when it was read, by Redis' clock.
	At time.Time `json:"at"`
	// Processed and Failed count runs since Redis was set up. Failed runs are in both.
	Processed int64 `json:"processed"`
	Failed    int64 `json:"failed"`
	// Duplicates counts pushes since then that were refused because another job held the lock.
	Duplicates int64 `json:"duplicates"`
	// Enqueued is how many jobs wait in the queues listed here.
	Enqueued int64 `json:"enqueued"`
	// Suspects is how many more wait to run alone, because their processes died too often.
	Quarantined int64 `json:"quarantined"`
	// HeldByLapsed is how many more jobs lapsed workers of Belay have in hand. A living worker recovers them.
	HeldByLapsed int64 `json:"in_dead_hands"`
	// Scheduled, Retries and Dead are the sizes of the three sets.
	Scheduled int64 `json:"scheduled"`
	Retries   int64 `json:"retries"`
	Dead      int64 `json:"dead"`
	// QueueCount is how many queues there are; Queues are at most 1,000 of them, by name.
	QueueCount int64   `json:"queue_count"`
	Queues     []Queue `json:"queues"`
	// ProcessCount is how many processes Sidekiq's tools would find; Processes are at most 1,000, by identity, and those
	// of Belay that have not announced themselves yet. Of running jobs, too, at most about 1,000 are listed in all.
	ProcessCount int64     `json:"process_count"`
	Processes    []Process `json:"processes"`
	// Problems are keys and entries that could not be read, in words. At most 20 are named.
	Problems []string `json:"problems"`
	// QueuesErr and ProcessesErr say that Redis refused to tell of some of the Queues or Processes, or which there are: a key
	// of another type, or a user that may not read it. What is listed is then not all, or not as it is. It is in Problems, too.
	QueuesErr    error `json:"-"`
	ProcessesErr error `json:"-"`
}

// Status reads the whole picture. It fails only when Redis cannot be read, or lets nothing be read; what is wrong with single
// keys is in Status.Problems.
func (i *Inspector) Status(ctx context.Context) (Status, error) {
	var r readings
	s, queues, processes := i.summary(ctx, &r)
	if r.err() == nil {
		s.Queues = i.queues(ctx, &r.queues, queues, s.At)
	}
	if r.err() == nil {
		s.Processes = i.processes(ctx, &r.processes, processes, s.At)
	}
	if r.err() == nil {
		s.addDeadHands(i.deadHands(ctx, &r.queues, s.Processes))
		s.addNoConsumer()
	}
	for _, queue := range s.Queues {
		s.Enqueued += queue.Size
		s.Quarantined += queue.Quarantined
	}
	problems := orEmpty(slices.Concat(r.sums.problems, r.queues.problems, r.processes.problems))
	s.Problems = problems[:min(len(problems), mostProblems)]
	s.QueuesErr, s.ProcessesErr = errors.Join(r.queues.refused...), errors.Join(r.processes.refused...)
	return s, r.err()
}

// readings are those of a Status, by what they are about.
type readings struct{ sums, queues, processes reading }

func (r *readings) err() error { return cmp.Or(r.sums.err, r.queues.err, r.processes.err) }

// summary reads what one round trip can, and the names of what is to be read next.
func (i *Inspector) summary(ctx context.Context, r *readings) (s Status, queues, processes []string) {
	most := strconv.Itoa(mostShown)
	replies := i.do(ctx, []driver.Call{
		lua.AskTime,
		driver.Command("GET", i.keys.Processed()),
		driver.Command("GET", i.keys.Failed()),
		driver.Command("ZCARD", i.keys.Schedule()),
		driver.Command("ZCARD", i.keys.Retry()),
		driver.Command("ZCARD", i.keys.Dead()),
		driver.Command("SCARD", i.keys.Queues()),
		// All members of a set of up to so many, each once, and no more of a larger one: a bounded SMEMBERS.
		driver.Command("SRANDMEMBER", i.keys.Queues(), most),
		driver.Command("SCARD", i.keys.Processes()),
		driver.Command("SRANDMEMBER", i.keys.Processes(), most),
		driver.Command("ZRANGE", i.keys.Alive(), "0", strconv.Itoa(mostShown-1)),
		driver.Command("GET", i.keys.Refusals()),
	})
	sums := &r.sums
	s.At = sums.time(replies[0])
	s.Processed, s.Failed = sums.number("processed", replies[1]), sums.number("failed", replies[2])
	s.Duplicates = sums.number("duplicates", replies[11])
	s.Scheduled, s.Retries, s.Dead = sums.number("schedule", replies[3]), sums.number("retry", replies[4]), sums.number("dead", replies[5])
	s.QueueCount, s.ProcessCount = r.queues.number("queues", replies[6]), r.processes.number("processes", replies[8])
	queues = sorted(r.queues.texts("queues", replies[7]))
	processes = sorted(append(r.processes.texts("processes", replies[9]), r.processes.texts("alive", replies[10])...))
	if answered := func(reply driver.Reply) bool { return reply.Err == nil }; !slices.ContainsFunc(replies[1:], answered) {
		// A page of zeros would be taken for an empty Redis.
		sums.err = cmp.Or(sums.err, fmt.Errorf("nothing can be read: %w", replies[1].Err))
	}
	return s, queues, processes
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
