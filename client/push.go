package client

import (
	"context"
	"fmt"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// Push stores one job at the back of its queue, or in the schedule if it is for later. The receipt says what became of it, also beside an error, which is
//   - nil when the job is queued or scheduled, or was refused by middleware;
//   - an *InvalidError when the job cannot be pushed: nothing was sent;
//   - ErrFull when Redis is at its maxmemory: nothing was stored;
//   - ErrUnknown when Redis may or may not have the job;
//   - another when the job is certainly not in Redis, such as when there is no connection.
//
// Nothing is sent a second time, and pushing again stores a second job, unless the job is Repeatable: then the client sends
// it again while it may be there and may be not, for Config.RepeatFor or until ctx ends, and after that Repeat does.
func (c *Client) Push(ctx context.Context, j Job) (Receipt, error) {
	r, err := c.prepare(ctx, j)
	if err != nil || r.Status == StatusRefused {
		return r.Receipt, err
	}
	var s slice
	s.add(r)
	err = c.send(ctx, &s)
	return s.receipts[0], err
}

// A ready is a job that has its bytes, or its refusal.
type ready struct {
	Receipt
	payload string
	// later is when a scheduled job is due.
	later      lua.Scheduled
	repeatable bool
}

// prepare runs the middleware, checks the job and writes its payload.
func (c *Client) prepare(ctx context.Context, j Job) (ready, error) {
	j = j.withDefaults()
	for _, middleware := range c.cfg.Middleware {
		if err := middleware(ctx, &j); err != nil {
			reason, refused := reasonOf(err)
			if refused {
				return ready{Receipt: Receipt{JID: j.JID, Queue: j.Queue, Status: StatusRefused, Reason: reason}}, nil
			}
			return notPushed(j), fmt.Errorf("belay: middleware failed a push of %s: %w", j.Class, err)
		}
	}
	j = j.withDefaults() // middleware may have emptied a field
	now := c.now(ctx)
	if !j.At.IsZero() && !j.At.After(now) {
		now = c.sureNow(ctx)
	}
	r := ready{Receipt: Receipt{JID: j.JID, Queue: j.Queue, Status: StatusQueued}, repeatable: j.Repeatable}
	if j.In > 0 || j.At.After(now) {
		r.Status, r.later = StatusScheduled, lua.Scheduled{In: j.In, At: j.At}
	}
	var err error
	if r.payload, err = c.encode(&j, now, r.Status); err != nil {
		return notPushed(j), &InvalidError{Class: j.Class, Err: err}
	}
	r.later.Job = r.payload
	return r, nil
}

func notPushed(j Job) ready {
	return ready{Receipt: Receipt{JID: j.JID, Queue: j.Queue, Status: StatusNotPushed}}
}

func (c *Client) encode(j *Job, now time.Time, status Status) (string, error) {
	draft, err := j.draft()
	if err != nil {
		return "", err
	}
	draft.CreatedAt, draft.Unit = now, c.cfg.Unit
	if status == StatusQueued {
		draft.EnqueuedAt = now
	}
	payload := draft.Encode()
	if len(payload) > c.cfg.PayloadLimit {
		return "", fmt.Errorf("its payload is %d bytes long, and %d are allowed: pass a reference to the data instead",
			len(payload), c.cfg.PayloadLimit)
	}
	return payload, j.checkPayload(payload)
}

// A slice is jobs that are sent together and share one fate, with those among them that were refused.
type slice struct {
	receipts []Receipt
	batches  []lua.QueueBatch
	later    []lua.Scheduled
	sent     int // how many of the receipts are of jobs in batches and later
	bytes    int
	begun    time.Time
	// repeatable says that one of its jobs is, and so all of it.
	repeatable bool
}

func (s *slice) add(r ready) {
	if len(s.receipts) == 0 {
		s.begun = time.Now()
	}
	s.receipts = append(s.receipts, r.Receipt)
	if !r.Status.stored() {
		return
	}
	s.sent++
	s.repeatable = s.repeatable || r.repeatable
	s.bytes += len(r.payload)
	if r.Status == StatusScheduled {
		s.later = append(s.later, r.later)
		return
	}
	for i := range s.batches {
		if s.batches[i].Queue == r.Queue {
			s.batches[i].Jobs = append(s.batches[i].Jobs, r.payload)
			return
		}
	}
	s.batches = append(s.batches, lua.QueueBatch{Queue: r.Queue, Jobs: []string{r.payload}})
}

// full says whether one more payload of the greatest length might exceed the bounds of a call. It is asked after each
// job, not before the next: a job that was drawn is then always in the slice whose failure it is told of.
func (s *slice) full(limit int) bool {
	return len(s.receipts) >= lua.MostItems || s.bytes+limit > lua.MostBytes
}

// fail makes status that of the jobs that would be stored by now. push is how they can be sent again, nil if they cannot.
func (s *slice) fail(status Status, push *numbered) {
	for i := range s.receipts {
		if r := &s.receipts[i]; r.Status.stored() {
			r.Status, r.then, r.push = status, r.Status, push
		}
	}
}

// send stores the jobs of a slice, all of them or none. On an error their receipts say which.
func (c *Client) send(ctx context.Context, s *slice) error {
	if s.sent == 0 {
		return nil
	}
	if s.repeatable {
		push := c.number(s)
		status, err := push.send(ctx)
		if err != nil {
			s.fail(status, push)
		}
		return err
	}
	calls, stored := c.storing(s.batches, s.later)
	err := stored(c.do(ctx, calls...))
	if err == nil {
		return nil
	}
	status, err := pushError(err)
	s.fail(status, nil)
	return err
}

// do sends the calls, with the question for Redis' time before them when that is due, and answers the last one's reply.
func (c *Client) do(ctx context.Context, calls ...driver.Call) driver.Reply {
	withTime := c.timeIsDue()
	if withTime {
		calls = append([]driver.Call{askTime}, calls...)
	}
	begun := time.Now()
	replies := c.driver.Do(ctx, calls...)
	if withTime {
		c.sawTime(replies[0], begun)
	}
	return replies[len(replies)-1]
}

// storing are the calls that store the jobs, and how to read the last one's reply, which is that of all jobs.
func (c *Client) storing(batches []lua.QueueBatch, later []lua.Scheduled) ([]driver.Call, func(driver.Reply) error) {
	if len(batches) > 1 || len(later) > 0 {
		push := c.keys.Push(batches, later)
		return []driver.Call{push.Call}, func(reply driver.Reply) error {
			_, err := push.Read(reply)
			return err
		}
	}
	// One queue needs no script: LPUSH is all or none by itself. The name goes first, as in Ruby: a name without jobs
	// harms nobody, jobs without a name are not seen by operators.
	batch := batches[0]
	words := make([]string, 0, 2+len(batch.Jobs))
	words = append(append(words, "LPUSH", c.keys.Queue(batch.Queue)), batch.Jobs...)
	return []driver.Call{driver.Command("SADD", c.keys.Queues(), batch.Queue), driver.Command(words...)},
		func(reply driver.Reply) error { return reply.Err }
}
