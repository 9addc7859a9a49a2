package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/lua"
)

// Push stores one job at the back of its queue, or in the schedule if it is for later. The receipt reports
// the outcome, also if there is an error. The error is
//   - nil if the job is queued or scheduled, or was refused by middleware or as a duplicate;
//   - an *InvalidError if the job cannot be pushed: nothing was sent;
//   - ErrReplicas if it is queued or scheduled, but on fewer replicas than wanted;
//   - ErrFull if Redis is at its maxmemory: nothing was stored;
//   - ErrUnknown if Redis may or may not have the job;
//   - another error if the job is certainly not in Redis, for example because there is no connection.
//
// Without a deadline in ctx, a push waits for Redis for five seconds, and a second more for each 32 KiB that
// are under way.
//
// Nothing is sent twice, and pushing again stores a second job, unless the job has a Key or is PushOnce. A
// PushOnce job is sent again while its outcome is unknown, for Config.RepeatFor or until ctx ends; after
// that, use Repeat.
//
// Concurrent pushes to one queue may be coalesced: they share a call and its outcome. No push waits for one
// that has not begun.
func (c *Client) Push(ctx context.Context, j RawJob) (Receipt, error) {
	var r ready
	err := c.prepare(ctx, &writer{}, &j, time.Time{}, &r)
	receipt := r.Receipt
	switch {
	case err != nil || r.Status == StatusRefused:
	case c.place != nil:
		receipt, err = c.pushPlaced(ctx, &r)
	default:
		receipt, err = c.spaces[0].push(ctx, &r)
	}
	r.pushed.call(receipt, err)
	return receipt, err
}

// push stores one job in the keyspace.
func (s *space) push(ctx context.Context, r *ready) (Receipt, error) {
	if r.mayCoalesce() {
		defer s.groups.pushing.Add(-1)
		if s.groups.pushing.Add(1) >= coalesceFrom {
			return s.pushCoalesced(ctx, r)
		}
	}
	return s.pushAlone(ctx, r)
}

func (s *space) pushAlone(ctx context.Context, r *ready) (Receipt, error) {
	var alone slice
	alone.add(r, time.Time{})
	err := s.send(ctx, &alone)
	return alone.receipts[0], err
}

// A ready is a job after middleware and checks: it has its payload, or was refused.
type ready struct {
	Receipt
	// stored is the job as it is stored.
	stored lua.NewJob
	// space is the keyspace to which it goes; bound is set if no other one will do.
	space *space
	bound bool
	once  bool
	needs int // as in RawJob
	durability
	pushed callbacks
}

// set makes it that of a job, with this status.
func (r *ready) set(j *RawJob, status Status) {
	*r = ready{Receipt: Receipt{JID: j.JID, Queue: j.Queue, Status: status}, pushed: j.pushed}
}

// prepare runs the middleware, checks the job, writes its payload and sets r.
// here is the time by this machine's clock, in a bulk push.
func (c *Client) prepare(ctx context.Context, w *writer, j *RawJob, here time.Time, r *ready) error {
	if err := c.pass(ctx, w, j, r); err != nil || r.Status == StatusRefused {
		return err
	}
	s, bound, err := c.spaceOf(w, j)
	if err != nil {
		r.set(j, StatusNotPushed)
		return err
	}
	if err = c.complete(w, j, w.nowFor(ctx, s, j.At, here), false, r); err == nil {
		r.Shard, r.space, r.bound = s.name, s, bound
	}
	return err
}

// pass runs the middleware. It sets r if the job is not pushed; else r has no status.
func (c *Client) pass(ctx context.Context, w *writer, j *RawJob, r *ready) error {
	r.Status = ""
	j.setDefaults(w)
	if !c.pushed.Load() { // so that the processors share the flag's cache line
		c.pushed.Store(true)
	}
	for _, middleware := range c.middleware.All() {
		if err := middleware(ctx, j); err != nil {
			if reason, refused := reasonOf(err); refused {
				r.set(j, StatusRefused)
				r.Reason = reason
				return nil
			}
			r.set(j, StatusNotPushed)
			return fmt.Errorf("belay: middleware failed a push of %s: %w", j.Class, err)
		}
	}
	if len(c.middleware.All()) > 0 {
		j.setDefaults(w) // the middleware may have emptied a field
	}
	if c.cfg.DeduplicateIdempotent && j.Idempotent && !j.NotUnique && j.Unique == nil && j.Key == "" {
		j.Unique = &dedup.Rule{Until: dedup.UntilExecuting}
	}
	if len(j.Then) > 0 {
		if err := c.passNext(ctx, w, j); err != nil {
			r.set(j, StatusNotPushed)
			return err
		}
	}
	return nil
}

// setDefaults makes the job what middleware gets.
func (j *RawJob) setDefaults(w *writer) {
	j.finish()
	if j.Queue == "" {
		j.Queue = DefaultQueue
	}
	if j.JID == "" {
		j.JID = w.jid()
	}
	// Clipped, so that middleware that appends does not write into the caller's array, which other jobs may
	// share.
	j.Args, j.Tags, j.Extra = slices.Clip(j.Args), slices.Clip(j.Tags), slices.Clip(j.Extra)
}

// stampEvery is how long the jobs of a bulk push have the same time in their payloads.
const stampEvery = time.Millisecond

// nowFor is space.nowFor, and for the jobs of a bulk push the same for a while. here is the time by this
// machine's clock.
func (w *writer) nowFor(ctx context.Context, s *space, due, here time.Time) time.Time {
	if !due.IsZero() {
		return s.nowFor(ctx, due)
	}
	if !w.bulk || here.Sub(w.readAt) >= stampEvery || w.clockOf != s {
		w.clockOf, w.readAt, w.now = s, here, s.nowFor(ctx, due)
	}
	return w.now
}

// sureFor is how long the estimate of Redis' time is used for a job that would be early if it were wrong.
const sureFor = time.Second

// nowFor returns Redis' time for the push of a job that is due at an instant, or at once if that is zero. If
// the job seems to be due, the estimate is at most a second old: an older one may be from before Redis' clock
// was set back, and the job would run early.
func (s *space) nowFor(ctx context.Context, due time.Time) time.Time {
	if s.askAt.Load() == 0 { // the first time by a call of its own, because the payload has the time
		s.askTime(ctx)
	}
	now := s.clock.Now()
	if due.IsZero() || due.After(now) {
		return now
	}
	answered := s.askAt.Load() - int64(clockFor)
	if int64(time.Since(s.born))-answered > int64(sureFor) {
		s.askTime(ctx)
	}
	return s.clock.Now()
}

// complete checks the job, writes its payload at a time and sets r. The payload of a prepared job names its
// lock also if the lock is kept, for readPrepared, which removes it.
func (c *Client) complete(w *writer, j *RawJob, now time.Time, prepared bool, r *ready) error {
	r.set(j, StatusQueued)
	r.once, r.needs = j.PushOnce, j.needs
	r.durability = c.durability(j.Replicas, j.ReplicaTimeout)
	if j.ExpiresIn > 0 || j.Deadline > 0 {
		r.needs = max(r.needs, lua.ExpiryProtocol)
	}
	if j.Batch != nil {
		r.needs, r.once = max(r.needs, lua.BatchProtocol), true
		r.stored.Member = &lua.Member{Batch: j.Batch.name, JID: j.JID}
	}
	if len(j.Then) > 0 {
		r.needs = max(r.needs, lua.NextProtocol)
	}
	begin := now.Add(j.In)
	if j.At.After(begin) {
		begin = j.At
	}
	delay := begin.Sub(now)
	if delay > 0 {
		r.Status, r.stored.In, r.stored.At = StatusScheduled, j.In, j.At
	}
	r.stored.Queue = j.Queue
	var d draft
	err := j.draft(w, begin, &d)
	if err == nil {
		d.CreatedAt, d.Unit = now, c.cfg.Unit
		if delay <= 0 {
			d.EnqueuedAt = now
		}
		kept := d.lock
		if !d.key.None() {
			kept = d.key
		}
		if prepared && kept.Kept() {
			d.Extra = append(d.Extra, kept.Edit())
		}
		r.stored.Job = d.encode(w)
		r.takeLock(d.lock, delay, j.Class, d.wal)
		r.takeKey(d.key, j.Class)
		if err = c.checkSize(&r.stored); err != nil && len(j.Then) > 0 {
			err = fmt.Errorf("with its next jobs: %w", err)
		}
	}
	if err == nil {
		err = j.checkPayload(r.stored.Job)
	}
	if err != nil {
		r.set(j, StatusNotPushed)
		return &InvalidError{Class: j.Class, Err: err}
	}
	return nil
}

// takeLock makes the push of the job take its lock, if a push with this delay does. The script adds the delay,
// by Redis' clock. A duplicate leaves no positions with a kept lock: its owner may have ended, and no run asks.
func (r *ready) takeLock(lock dedup.Lock, delay time.Duration, class string, wal dedup.WAL) {
	if !lock.Takes(delay) {
		return
	}
	r.stored.Lock, r.stored.Mark = lock.Stored(class), lock.Mark
	if !lock.Kept() {
		r.stored.WAL = wal.Lines()
	}
}

// takeKey makes the push of the job take the lock of its key, beside another one or alone.
func (r *ready) takeKey(key dedup.Lock, class string) {
	switch {
	case key.None():
	case r.stored.Lock == nil:
		r.stored.Lock = key.Stored(class)
	default:
		r.stored.Key = key.Stored(class)
	}
}

// checkSize returns an error if the payload is too large, with the mark that the push of a duplicate adds.
func (c *Client) checkSize(j *lua.NewJob) error {
	size := len(j.Job)
	if j.Mark {
		size += len(`,"":""`) + len(dedup.DuplicateOf) + maxJID
	}
	if size > c.cfg.PayloadLimit {
		return fmt.Errorf("its payload is %d bytes long, and %d are allowed: pass a reference to the data instead", size, c.cfg.PayloadLimit)
	}
	return nil
}
