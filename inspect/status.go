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

// maxShown bounds the queues, the processes and the running jobs that one Status lists. Few fleets are as
// large, and more do not fit on a screen. The counts beside the lists include all of them.
const maxShown = 1000

// A Status is an overview of one keyspace.
type Status struct {
	// At is when it was read, by Redis' clock.
	At time.Time `json:"at"`
	// Processed and Failed count runs since Redis was set up. A failed run counts in both.
	Processed int64 `json:"processed"`
	Failed    int64 `json:"failed"`
	// Duplicates counts pushes since then that were refused because another job held their lock.
	Duplicates int64 `json:"duplicates"`
	// Enqueued counts the jobs that wait in the listed queues.
	Enqueued int64 `json:"enqueued"`
	// Quarantined counts further jobs that wait to run alone, because too many processes crashed while
	// running them.
	Quarantined int64 `json:"quarantined"`
	// HeldByDead counts further jobs that lapsed workers of Belay hold. A living worker recovers them.
	HeldByDead int64 `json:"held_by_dead"`
	// Waiting counts further jobs that wait until a limit lets them start, at no more than 1,000 gates.
	Waiting int64 `json:"waiting"`
	// Scheduled, Retries and Dead are the sizes of the three sets.
	Scheduled int64 `json:"scheduled"`
	Retries   int64 `json:"retries"`
	Dead      int64 `json:"dead"`
	// Batches counts the batches, also those that are over and not deleted yet.
	Batches int64 `json:"batches"`
	// QueueCount counts all queues; Queues are at most 1,000 of them, by name.
	QueueCount int64   `json:"queue_count"`
	Queues     []Queue `json:"queues"`
	// ProcessCount counts the processes that Sidekiq's tools find. Processes are at most 1,000 of them, by
	// identity, and processes of Belay without a process record yet. They list at most about 1,000 running
	// jobs together.
	ProcessCount int64     `json:"process_count"`
	Processes    []Process `json:"processes"`
	// Problems describes keys and entries that could not be read, at most 20.
	Problems []string `json:"problems"`
	// QueuesErr and ProcessesErr report that Redis refused to list or show some Queues or Processes, because
	// a key has another type or the user may not read it. The lists are then incomplete or wrong. Problems
	// has the same errors.
	QueuesErr    error `json:"-"`
	ProcessesErr error `json:"-"`
}

// Status reads the overview. It fails only if nothing can be read; errors about single keys are in
// Status.Problems.
func (i *Inspector) Status(ctx context.Context) (Status, error) {
	var r readings
	s, names := i.summary(ctx, &r)
	i.addQueues(ctx, &r, &s, names)
	if r.err() == nil {
		s.Processes = i.processes(ctx, &r.processes, names.processes, s.At)
	}
	if r.err() == nil {
		s.addHeldByDead(i.heldByLapsed(ctx, &r.queues, s.Processes))
		s.addNoConsumer()
	}
	return s.summed(&r)
}

// Sizes reads a Status without processes: its cost grows with the number of queues, and with nothing else.
// NoConsumer and HeldByDead are not known then.
func (i *Inspector) Sizes(ctx context.Context) (Status, error) {
	var r readings
	s, names := i.summary(ctx, &r)
	i.addQueues(ctx, &r, &s, names)
	return s.summed(&r)
}

// addQueues reads the queues, and which of them have jobs that wait at gates.
func (i *Inspector) addQueues(ctx context.Context, r *readings, s *Status, names summaryNames) {
	if r.err() == nil {
		s.Queues = i.queues(ctx, &r.queues, names.queues, s.At)
	}
	if r.err() != nil {
		return
	}
	for _, gate := range i.lines(ctx, &r.sums, names.gates, s.At) {
		s.Waiting += gate.Waiting
		if at := slices.IndexFunc(s.Queues, func(q Queue) bool { return q.Name == gate.Queue }); at >= 0 {
			s.Queues[at].Waiting += gate.Waiting
		}
	}
}

// summed adds up the queues that were read, and what went wrong.
func (s Status) summed(r *readings) (Status, error) {
	for _, queue := range s.Queues {
		s.Enqueued += queue.Size
		s.Quarantined += queue.Quarantined
	}
	problems := orEmpty(slices.Concat(r.sums.problems, r.queues.problems, r.processes.problems))
	s.Problems = problems[:min(len(problems), maxProblems)]
	s.QueuesErr, s.ProcessesErr = errors.Join(r.queues.refused...), errors.Join(r.processes.refused...)
	return s, r.err()
}

type readings struct{ sums, queues, processes reading }

func (r *readings) err() error { return cmp.Or(r.sums.err, r.queues.err, r.processes.err) }

// summaryNames are the names of what is read after a summary.
type summaryNames struct{ queues, processes, gates []string }

// summary reads all counts in one round trip, and the names of what to read next.
func (i *Inspector) summary(ctx context.Context, r *readings) (s Status, names summaryNames) {
	most := strconv.Itoa(maxShown)
	replies := i.do(ctx, []driver.Call{
		lua.AskTime,
		driver.Command("GET", i.keys.Processed()),
		driver.Command("GET", i.keys.Failed()),
		driver.Command("ZCARD", i.keys.Schedule()),
		driver.Command("ZCARD", i.keys.Retry()),
		driver.Command("ZCARD", i.keys.Dead()),
		driver.Command("SCARD", i.keys.Queues()),
		// A bounded SMEMBERS: all members of a set of up to this size, or as many of a larger set, each once.
		driver.Command("SRANDMEMBER", i.keys.Queues(), most),
		driver.Command("SCARD", i.keys.Processes()),
		driver.Command("SRANDMEMBER", i.keys.Processes(), most),
		driver.Command("ZRANGE", i.keys.Alive(), "0", strconv.Itoa(maxShown-1)),
		driver.Command("GET", i.keys.Refusals()),
		driver.Command("ZCARD", i.keys.Batches()),
		driver.Command("ZRANGE", i.keys.Waiting(), "0", strconv.Itoa(maxShown-1)),
	})
	sums := &r.sums
	s.At = sums.time(replies[0])
	s.Processed, s.Failed = sums.number("processed", replies[1]), sums.number("failed", replies[2])
	s.Duplicates, s.Batches = sums.number("duplicates", replies[11]), sums.number("batches", replies[12])
	s.Scheduled, s.Retries, s.Dead = sums.number("schedule", replies[3]), sums.number("retry", replies[4]), sums.number("dead", replies[5])
	s.QueueCount, s.ProcessCount = r.queues.number("queues", replies[6]), r.processes.number("processes", replies[8])
	names.queues, names.gates = sorted(r.queues.names("queues", replies[7])), sums.texts("the gates with waiting jobs", replies[13])
	names.processes = sorted(append(r.processes.names("processes", replies[9]), r.processes.names("alive", replies[10])...))
	if answered := func(reply driver.Reply) bool { return reply.Err == nil }; !slices.ContainsFunc(replies[1:], answered) {
		// A page of zeros would look like an empty Redis.
		sums.err = cmp.Or(sums.err, fmt.Errorf("nothing can be read: %w", replies[1].Err))
	}
	return s, names
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
