package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// Push stores one job at the back of its queue, or in the schedule if it is for later. The receipt says what
// became of it, also beside an error, which is
//   - nil when the job is queued or scheduled, or was refused by middleware or as a duplicate;
//   - an *InvalidError when the job cannot be pushed: nothing was sent;
//   - ErrFull when Redis is at its maxmemory: nothing was stored;
//   - ErrUnknown when Redis may or may not have the job;
//   - another when the job is certainly not in Redis, such as when there is no connection.
//
// Nothing is sent a second time, and pushing again stores a second job, unless the job is PushOnce: then the
// client sends it again while it may be there and may be not, for Config.RepeatFor or until ctx ends, and
// after that Repeat does.
//
// Pushes to one queue that several goroutines make at the same moment may share a call, and then its outcome.
// No push waits for one that has not begun.
func (c *Client) Push(ctx context.Context, j RawJob) (Receipt, error) {
	r, err := c.prepare(ctx, j)
	if err != nil || r.Status == StatusRefused {
		return r.Receipt, err
	}
	if r.mayCoalesce() {
		return c.pushCoalesced(ctx, r)
	}
	return c.pushAlone(ctx, r)
}

func (c *Client) pushAlone(ctx context.Context, r ready) (Receipt, error) {
	var s slice
	s.add(r)
	err := c.send(ctx, &s)
	return s.receipts[0], err
}

// A ready is a job that has its bytes, or its refusal.
type ready struct {
	Receipt
	// stored is the job as it is stored.
	stored lua.UniqueJob
	once   bool
	needs  int // see Job
}

// prepare runs the middleware, checks the job and writes its payload.
func (c *Client) prepare(ctx context.Context, j RawJob) (ready, error) {
	j = j.withDefaults()
	if !c.pushed.Load() { // so that the processors share the flag's cache line
		c.pushed.Store(true)
	}
	for _, middleware := range c.middleware.All() {
		if err := middleware(ctx, &j); err != nil {
			reason, refused := reasonOf(err)
			if refused {
				return ready{Receipt: Receipt{JID: j.JID, Queue: j.Queue, Status: StatusRefused, Reason: reason}}, nil
			}
			return notPushed(j), fmt.Errorf("belay: middleware failed a push of %s: %w", j.Class, err)
		}
	}
	if len(c.middleware.All()) > 0 {
		j = j.withDefaults() // it may have emptied a field
	}
	if c.cfg.DeduplicateIdempotent {
		j = j.deduplicated()
	}
	now := c.now(ctx)
	if !j.At.IsZero() && !j.At.After(now) {
		now = c.sureNow(ctx)
	}
	r := ready{Receipt: Receipt{JID: j.JID, Queue: j.Queue, Status: StatusQueued}, once: j.PushOnce, needs: j.needs}
	if j.In > 0 || j.At.After(now) {
		r.Status, r.stored.In, r.stored.At = StatusScheduled, j.In, j.At
	}
	r.stored.Queue = j.Queue
	if err := c.encode(&j, now, &r); err != nil {
		return notPushed(j), &InvalidError{Class: j.Class, Err: err}
	}
	return r, nil
}

func notPushed(j RawJob) ready {
	return ready{Receipt: Receipt{JID: j.JID, Queue: j.Queue, Status: StatusNotPushed}}
}

// encode writes the payload, and says which lock is needed to store it.
func (c *Client) encode(j *RawJob, now time.Time, r *ready) error {
	draft, lock, err := j.draft()
	if err != nil {
		return err
	}
	draft.CreatedAt, draft.Unit = now, c.cfg.Unit
	if r.Status == StatusQueued {
		draft.EnqueuedAt = now
	}
	if !lock.None() && (r.Status == StatusQueued || lock.Scheduled) {
		// The script adds the delay, by Redis' clock.
		r.stored.Lock = lock.Stored(j.Class)
		r.stored.Mark = j.Unique.MarkDuplicates
		wal, err := j.wal()
		if err != nil {
			return err
		}
		r.stored.WAL = wal.Lines()
	}
	r.stored.Job = draft.Encode()
	longest := len(r.stored.Job)
	if r.stored.Mark {
		longest += len(`,"":""`) + len(dedup.DuplicateOf) + longestJID
	}
	if longest > c.cfg.PayloadLimit {
		return fmt.Errorf("its payload is %d bytes long, and %d are allowed: pass a reference to the data instead", longest, c.cfg.PayloadLimit)
	}
	return j.checkPayload(r.stored.Job)
}

// A slice is jobs that are sent together and share one fate, with those among them that were refused.
type slice struct {
	receipts []Receipt
	// jobs will be stored, and at has the index of each one's receipt.
	jobs  []lua.UniqueJob
	at    []int
	bytes int
	begun time.Time
	// repeatable and unique say that one of its jobs is, and so all of it.
	once, unique bool
	needs        int // the highest protocol that one of its jobs needs
}

// next is the slice after this one. It has the room that this one's jobs had, unless they may have to be sent
// again.
func (s *slice) next() slice {
	if s.once {
		return slice{}
	}
	clear(s.jobs) // their payloads are no concern of ours any more
	return slice{jobs: s.jobs[:0], at: s.at[:0]}
}

func (s *slice) add(r ready) {
	if len(s.receipts) == 0 {
		s.begun = time.Now()
	}
	s.receipts = append(s.receipts, r.Receipt)
	if !r.Status.stored() {
		return
	}
	s.jobs = append(s.jobs, r.stored)
	s.at = append(s.at, len(s.receipts)-1)
	s.once = s.once || r.once
	s.needs = max(s.needs, r.needs)
	s.unique = s.unique || r.stored.Lock != nil
	s.bytes += len(r.stored.Job)
}

// full reports whether one more payload of the greatest length might exceed the bounds of a call. It is asked
// after each job, not before the next, so that a job that was drawn is always in the slice that reports its
// failure.
func (s *slice) full(limit int) bool {
	return len(s.receipts) >= lua.MostItems || s.bytes+limit > lua.MostBytes
}

// fail makes status that of the jobs that would be stored by now. push is how they can be sent again, nil if
// they cannot.
func (s *slice) fail(status Status, push *oncePush) {
	for i, at := range s.at {
		r := &s.receipts[at]
		r.Status, r.then, r.push, r.at, r.marks = status, r.Status, push, i, s.jobs[i].Mark
	}
}

// send stores the jobs of a slice, all of them or none but for the duplicates. On an error their receipts say
// which.
func (c *Client) send(ctx context.Context, s *slice) error {
	if len(s.jobs) == 0 {
		return nil
	}
	if err := c.checkWorkers(ctx, s.needs); err != nil {
		s.fail(StatusNotPushed, nil)
		return err
	}
	if s.once {
		push := c.number(s)
		status, err := push.send(ctx)
		if err != nil {
			s.fail(status, push)
		} else {
			s.meet(push.holders)
		}
		return err
	}
	calls, stored := c.storing(s)
	holders, err := stored(c.do(ctx, calls...))
	if err == nil {
		s.meet(holders)
		c.refusals.log(time.Now(), s.jobs, holders)
		return nil
	}
	status, err := pushError(err)
	s.fail(status, nil)
	return err
}

// checkWorkers refuses jobs that need a higher protocol than some process on this keyspace understands: that
// process could take them and handle them wrongly. Jobs that every worker understands cost no round trip.
func (c *Client) checkWorkers(ctx context.Context, needs int) error {
	if needs <= lua.FirstProtocol {
		return nil
	}
	least, identity, err := c.keys.LeastProtocol(ctx, c.driver)
	switch {
	case err != nil:
		return fmt.Errorf("belay: not pushed: read the protocol of the workers: %w", err)
	case identity != "" && least < needs:
		return fmt.Errorf("belay: not pushed: %w: the job needs protocol %d, and the process %s understands %d: update its program first",
			ErrOldWorker, needs, identity, least)
	}
	return nil
}

// meet says in the receipts of duplicates whose they are.
func (s *slice) meet(holders []string) {
	for i, holder := range holders {
		if holder != "" {
			s.receipts[s.at[i]].meet(holder, s.jobs[i].Mark)
		}
	}
}

// do sends the calls, with the question for Redis' time before them when that is due, and answers the last
// one's reply.
func (c *Client) do(ctx context.Context, calls ...driver.Call) driver.Reply {
	withTime := c.timeIsDue()
	if withTime {
		calls = append([]driver.Call{lua.AskTime}, calls...)
	}
	begun := time.Now()
	replies := c.driver.Do(ctx, calls...)
	if withTime {
		c.sawTime(replies[0], begun)
	}
	return replies[len(replies)-1]
}

// storing are the calls that store the jobs, and how to read the last one's reply, which is that of all jobs.
func (c *Client) storing(s *slice) ([]driver.Call, func(driver.Reply) (holders []string, err error)) {
	if s.unique {
		push := c.keys.PushUnique(nil, s.jobs)
		return []driver.Call{push.Call}, func(reply driver.Reply) ([]string, error) {
			answer, err := push.Read(reply)
			return answer.Holders, err
		}
	}
	batches, later := sorted(s.jobs)
	if len(batches) > 1 || len(later) > 0 {
		push := c.keys.Push(batches, later)
		return []driver.Call{push.Call}, func(reply driver.Reply) ([]string, error) {
			_, err := push.Read(reply)
			return nil, err
		}
	}
	return c.keys.PushOne(batches[0]), func(reply driver.Reply) ([]string, error) { return nil, reply.Err }
}

// sorted are jobs that are not unique, by queue, and those for later.
func sorted(jobs []lua.UniqueJob) (batches []lua.QueueBatch, later []lua.Scheduled) {
	for _, j := range jobs {
		if j.Later() {
			later = append(later, j.Scheduled)
			continue
		}
		at := slices.IndexFunc(batches, func(b lua.QueueBatch) bool { return b.Queue == j.Queue })
		if at < 0 {
			at = len(batches)
			batches = append(batches, lua.QueueBatch{Queue: j.Queue, Jobs: make([]string, 0, len(jobs))})
		}
		batches[at].Jobs = append(batches[at].Jobs, j.Job)
	}
	return batches, later
}
