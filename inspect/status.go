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
// large, and more do not fit on a screen. The counts beside the lists include all of them; see
// lua.MaxQueueSizes.
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
	// Enqueued counts the jobs that wait in all queues. Of more than 20,000 queues it counts those of some
	// 20,000, and so does Quarantined; Problems says so.
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
	// QueueCount counts all queues; Queues are at most 1,000 of them, by name: those with the most jobs, and of
	// equally large ones those first by name. See Inspector.Queue.
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

	// unlisted has the Waiting and HeldByDead of queues that are not among Queues.
	unlisted map[string]Queue
}

// Status reads the overview. It fails only if nothing can be read; errors about single keys are in
// Status.Problems.
func (i *Inspector) Status(ctx context.Context) (Status, error) {
	var r readings
	s, names, listed := i.summary(ctx, &r,
		driver.Command("SRANDMEMBER", i.keys.Processes(), strconv.Itoa(maxShown)), // as for the queues
		driver.Command("ZRANGE", i.keys.Alive(), "0", strconv.Itoa(maxShown-1)))
	processes := append(r.processes.names("processes", listed[0]), r.processes.names("alive", listed[1])...)
	i.addQueues(ctx, &r, &s, names)
	if r.err() == nil {
		s.Processes = i.processes(ctx, &r.processes, sorted(processes), s.At)
	}
	if r.err() == nil {
		s.addHeldByDead(i.heldByLapsed(ctx, &r.queues, s.Processes))
		s.addNoConsumer()
	}
	return s.summed(&r)
}

// Sizes reads a Status without processes: its cost grows with the number of queues, up to about 20,000, and
// with nothing else. NoConsumer and HeldByDead are not known then.
func (i *Inspector) Sizes(ctx context.Context) (Status, error) {
	var r readings
	s, names, _ := i.summary(ctx, &r)
	i.addQueues(ctx, &r, &s, names)
	return s.summed(&r)
}

// addQueues reads the queues, and which of them have jobs that wait at gates.
func (i *Inspector) addQueues(ctx context.Context, r *readings, s *Status, names summaryNames) {
	if r.err() == nil && s.QueueCount > maxShown {
		names.queues = i.largest(ctx, &r.queues, s, names.queues)
	}
	names.queues = r.queues.listable("queues", names.queues)
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
		} else {
			s.addUnlisted(Queue{Name: gate.Queue, Waiting: gate.Waiting})
		}
	}
}

// addUnlisted notes what is known of a queue that is not listed.
func (s *Status) addUnlisted(queue Queue) {
	if s.unlisted == nil {
		s.unlisted = make(map[string]Queue)
	}
	known := s.unlisted[queue.Name]
	known.add(queue)
	s.unlisted[queue.Name] = known
}

// largest returns the names of the queues that are listed, of too many, and adds the jobs of the others to the
// sums. It returns the names that it is given if the sizes of the queues cannot be read.
func (i *Inspector) largest(ctx context.Context, r *reading, s *Status, unsized []string) []string {
	sizes, err := i.keys.QueueSizes(ctx, i.driver)
	if err != nil {
		r.value("the sizes of the queues", driver.Reply{Err: err})
		return unsized
	}
	if len(sizes) >= lua.MaxQueueSizes && s.QueueCount > int64(len(sizes)) {
		r.problem("there are %d queues, and the jobs of %d of them are counted", s.QueueCount, len(sizes))
	}
	jobs := func(size lua.QueueSize) int { return max(size.Waiting, 0) + max(size.Quarantined, 0) }
	slices.SortFunc(sizes, func(a, b lua.QueueSize) int {
		return cmp.Or(cmp.Compare(jobs(b), jobs(a)), cmp.Compare(a.Name, b.Name))
	})
	listed := min(len(sizes), maxShown)
	for _, size := range sizes[listed:] {
		s.Enqueued, s.Quarantined = s.Enqueued+int64(max(size.Waiting, 0)), s.Quarantined+int64(max(size.Quarantined, 0))
		if size.Waiting < 0 || size.Quarantined < 0 {
			r.problem("queue %s is not a list", bounded(size.Name))
		}
	}
	names := make([]string, listed)
	for n, size := range sizes[:listed] {
		names[n] = size.Name
	}
	return sorted(names)
}

// summed adds the queues that are listed to the sums, and what went wrong.
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
type summaryNames struct{ queues, gates []string }

// summary reads all counts in one round trip, and the names of what to read next. It returns the replies to the
// calls of its caller, which go with it.
func (i *Inspector) summary(ctx context.Context, r *readings, more ...driver.Call) (s Status, names summaryNames, listed []driver.Reply) {
	most := strconv.Itoa(maxShown)
	calls := []driver.Call{
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
		driver.Command("GET", i.keys.Refusals()),
		driver.Command("ZCARD", i.keys.Batches()),
		driver.Command("ZRANGE", i.keys.Waiting(), "0", strconv.Itoa(maxShown-1)),
	}
	replies := i.do(ctx, append(calls, more...))
	sums := &r.sums
	s.At = sums.time(replies[0])
	s.Processed, s.Failed = sums.number("processed", replies[1]), sums.number("failed", replies[2])
	s.Duplicates, s.Batches = sums.number("duplicates", replies[9]), sums.number("batches", replies[10])
	s.Scheduled, s.Retries, s.Dead = sums.number("schedule", replies[3]), sums.number("retry", replies[4]), sums.number("dead", replies[5])
	s.QueueCount, s.ProcessCount = r.queues.number("queues", replies[6]), r.processes.number("processes", replies[8])
	names.queues, names.gates = sorted(r.queues.texts("queues", replies[7])), sums.texts("the gates with waiting jobs", replies[11])
	if answered := func(reply driver.Reply) bool { return reply.Err == nil }; !slices.ContainsFunc(replies[1:], answered) {
		// A page of zeros would look like an empty Redis.
		sums.err = cmp.Or(sums.err, fmt.Errorf("nothing can be read: %w", replies[1].Err))
	}
	return s, names, replies[len(calls):]
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
