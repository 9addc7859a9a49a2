package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A Prepared is a job that was checked and encoded but is not in Redis yet, such as one that waits in an
// outbox.
type Prepared struct {
	// Payload is the job as PushPrepared stores it, except for enqueued_at and a lock that the payload of a
	// stored job does not name (Key, dedup.UntilExpired).
	Payload string
	// At is when the job is due. Zero means as soon as it is pushed.
	At time.Time
}

// Prepare returns a job that PushPrepared stores later, in this process or another one. It sends nothing. It
// runs the middleware and makes the checks of Push, with the same errors. The receipt has StatusPrepared, or
// StatusRefused if middleware refused the job: then the Prepared is empty.
//
// In, ExpiresIn and Deadline count from now, by Redis' clock if the client has pushed before, else by this
// machine's. PushOnce and Replicas have no effect. Neither Prepare nor PushPrepared returns ErrOldWorker: a job
// that is already committed must not wait for a deploy. A program that pushes prepared jobs must know their
// kind of lock: one from before Key and dedup.UntilExpired refuses such a job, and every job that is pushed
// with it.
func (c *Client) Prepare(ctx context.Context, j RawJob) (Prepared, Receipt, error) {
	var w writer
	var p Prepared
	var r ready
	err := c.pass(ctx, &w, &j, &r)
	if err == nil && r.Status != StatusRefused {
		if j.Batch != nil {
			return p, r.Receipt, &InvalidError{Class: j.Class, Err: errors.New("a prepared job cannot join a batch: push it")}
		}
		if j.Key != "" && j.Unique != nil { // its payload, which has all that its push needs, names one lock
			return p, r.Receipt, &InvalidError{Class: j.Class, Err: errors.New("a prepared job has one lock: give Key or Unique, " +
				"or push it; NotUnique ends the Unique of the class")}
		}
		p, err = c.prepareLater(&w, &j, &r)
	}
	r.pushed.call(r.Receipt, err)
	return p, r.Receipt, err
}

// prepareLater writes the payload of a job for PushPrepared, and sets r.
func (c *Client) prepareLater(w *writer, j *RawJob, r *ready) (p Prepared, err error) {
	s, bound, err := c.spaceOf(w, j)
	if err != nil {
		r.set(j, StatusNotPushed)
		return p, err
	}
	now := s.clock.Now()
	if err = c.complete(w, j, now, true, r); err != nil {
		return p, err
	}
	p, r.Status = Prepared{Payload: r.stored.Job, At: j.At}, StatusPrepared
	if bound {
		p.Payload, r.Shard = withShard(p.Payload, s.name), s.name
	}
	if j.In > 0 {
		p.At = now.Add(j.In)
	}
	return p, nil
}

// An IdempotencyKey identifies a push to PushPrepared. The caller numbers its pushes, and keeps the number
// where no crash loses it.
type IdempotencyKey struct {
	// Scope names a series of pushes, each of which begins when the one before is known to be stored.
	Scope string
	// Number is above that of every earlier push in the scope.
	Number int64
	// Mark distinguishes the push from another one with its number. It is drawn once for a push.
	Mark string
}

// ErrStale is the error of PushPrepared if Redis has a later push in the scope, or another one with this
// number, such as one of other jobs. This call stored nothing; an earlier one with the same IdempotencyKey
// may have stored the jobs.
var ErrStale = errors.New("belay: not pushed: the scope has a later push")

// keepScope is how long Redis keeps a scope of PushPrepared: for ever, because the caller may repeat its last
// push after any downtime. The cost is one small key for each scope.
const keepScope = 100 * 365 * 24 * time.Hour

// PushPrepared stores jobs, all of them except duplicates, or none. However often it is called with one
// IdempotencyKey and the same jobs, by whichever process, they are stored once, as long as Redis keeps its
// data. It sends one request. With shards, jobs with a bound key go to their shards, and the others to that of
// the scope: each shard has all of its jobs or none, and gets one request. The receipts and errors are those of
// Push; after ErrUnknown it may be called
// again, and after ErrReplicas, to wait for the replicas once more. The error may also be ErrStale. At most
// lua.MaxItems jobs with lua.MaxBytes of payload are allowed.
func (c *Client) PushPrepared(ctx context.Context, key IdempotencyKey, jobs []Prepared) ([]Receipt, error) {
	var s slice
	home := c.spaces[0]
	if c.place != nil {
		home = c.spaces[c.place.of(key.Scope)]
	}
	for i, p := range jobs {
		r, err := c.readPrepared(ctx, home, p)
		if err != nil {
			return nil, fmt.Errorf("belay: not pushed: prepared job %d of %d: %w", i+1, len(jobs), err)
		}
		s.add(&r, time.Time{})
	}
	if len(jobs) > lua.MaxItems || s.bytes > lua.MaxBytes {
		return nil, fmt.Errorf("belay: not pushed: %d jobs of %d bytes; at most %d of %d bytes are allowed",
			len(jobs), s.bytes, lua.MaxItems, lua.MaxBytes)
	}
	s.durability = c.durability(0, 0)
	if c.place == nil {
		return s.receipts, home.storePrepared(ctx, key, &s)
	}
	parts := s.split()
	errs := make([]error, len(parts))
	each(len(parts), func(i int) {
		errs[i] = parts[i].space.of(parts[i].space.storePrepared(ctx, key, &parts[i].slice))
	})
	return s.receipts, errors.Join(errs...)
}

// storePrepared stores the jobs of a slice under a key.
func (s *space) storePrepared(ctx context.Context, key IdempotencyKey, jobs *slice) error {
	if err := s.mayPush(ctx, lua.FirstProtocol); err != nil {
		return jobs.end(answer{}, err, nil)
	}
	stored := lua.IdempotencyKey{
		Scope: s.keys.IdempotencyScope(key.Scope, 0), Number: key.Number, Mark: key.Mark + ":" + jobs.digest(), Remember: keepScope,
	}
	a, err := s.store(ctx, &stored, jobs.load)
	return jobs.end(a, outcomeOf(err), nil)
}

// fieldShard is the field of a prepared job with a bound key, which stored jobs do not have: the name of its
// shard. The program that pushes it may know neither the class nor its limit.
const fieldShard = "belay_shard"

// withShard returns the payload of a prepared job with its shard.
func withShard(payload, name string) string {
	parsed, err := job.Parse(payload)
	if err != nil || name == "" {
		return payload
	}
	return parsed.Patch(job.SetString(fieldShard, name))
}

// shardOf returns the shard that a prepared job names; home without one.
func (c *Client) shardOf(j *job.Job, home *space) (s *space, named bool, err error) {
	text, named := j.RareField(fieldShard)
	if !named {
		return home, false, nil
	}
	for _, s := range c.spaces {
		if text == strconv.Quote(s.name) {
			return s, true, nil
		}
	}
	return nil, true, fmt.Errorf("it is for shard %s, which this client does not have", text)
}

// digest identifies the jobs by their jids. It is part of the mark in Redis, so that a push of other jobs
// under the same key is stale, instead of an answer that they are stored.
func (s *slice) digest() string {
	hash := sha256.New()
	for _, at := range s.at {
		hash.Write([]byte(s.receipts[at].JID + "\n"))
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// readPrepared returns the job to store. All that its push needs is in its payload.
func (c *Client) readPrepared(ctx context.Context, home *space, p Prepared) (ready, error) {
	parsed, err := job.Parse(p.Payload)
	if err != nil {
		return ready{}, err
	}
	lock, err := dedup.ReadPrepared(parsed)
	if err != nil {
		return ready{}, err
	}
	in, named, err := c.shardOf(parsed, home)
	if err != nil {
		return ready{}, err
	}
	now := in.nowFor(ctx, p.At)
	r := ready{Receipt: Receipt{JID: parsed.JID(), Queue: cmp.Or(parsed.Queue(), DefaultQueue), Status: StatusQueued}}
	r.Shard, r.space, r.bound = in.name, in, true
	var edits []job.Edit
	if named {
		edits = append(edits, job.Remove(fieldShard))
	}
	if lock.Kept() {
		edits = append(edits, job.Remove(dedup.FieldName)) // the job's way through Redis must not depend on it
	}
	if p.At.After(now) {
		r.Status, r.stored.At = StatusScheduled, p.At
	} else {
		edits = append(edits, parsed.IntoQueue(now, c.cfg.Unit)...)
	}
	r.stored.Job = parsed.Patch(edits...)
	r.stored.Queue = r.Queue
	r.takeLock(lock, p.At.Sub(now), parsed.Class(), dedup.ReadWAL(parsed))
	return r, nil
}
