package client

import (
	"context"
	"errors"
	"slices"

	"github.com/belayq/belay/dedup"
)

// A job with a bound key has one shard, whichever program pushes it. Any other job goes to the next open shard,
// and from there to another one if its push has certainly failed. A push whose outcome is unknown is sent to no
// other shard: the job could be stored in both.

// LimitedBy tells a client with shards the limit of the job: jobs that share a gate are on one shard. gate
// returns its name for the payload of the job. Definition.Job calls it; a job of a class that is limited and
// lacks it is counted by the gate of the shard that it happens to go to.
func (j *RawJob) LimitedBy(gate func(payload string) string) { j.gate = gate }

// spaceOf returns the shard of a job that has passed the middleware, and whether it has a bound key. The
// shard of a plain job is that of the writer's turn.
func (c *Client) spaceOf(w *writer, j *RawJob) (s *space, bound bool, err error) {
	if c.place == nil {
		return c.spaces[0], false, nil
	}
	keys := c.boundKeys(w, j)
	if len(keys) == 0 {
		if w.turn == nil {
			w.turn = c.spaces[c.place.next(c.leftOut)]
		}
		return w.turn, false, nil
	}
	at, err := c.place.place(keys...)
	if err != nil {
		return nil, false, &InvalidError{Class: j.Class, Err: err}
	}
	return c.spaces[at], true, nil
}

func (c *Client) leftOut(shard int) bool { return c.spaces[shard].leftOut() }

// boundKeys returns the bound keys of a job. A job that cannot be pushed has none: complete says why.
func (c *Client) boundKeys(w *writer, j *RawJob) (keys []boundKey) {
	if j.ShardKey != "" {
		keys = append(keys, boundKey{boundShard, j.ShardKey})
	}
	for _, b := range []*Batch{j.Batch, j.endOf} {
		if b != nil && b.space != nil {
			keys = append(keys, boundKey{boundBatch, b.space.name})
		}
	}
	if len(j.Then) > 0 {
		keys = j.keysOfNext(w, keys)
	}
	if j.Unique == nil && j.Key == "" && j.gate == nil {
		return keys
	}
	var d draft
	if err := j.draft(w, c.spaces[0].born, &d); err != nil {
		return keys
	}
	for _, lock := range []dedup.Lock{d.key, d.lock} {
		if !lock.None() {
			keys = append(keys, boundKey{boundLock, lock.Digest})
		}
	}
	if j.gate != nil {
		keys = append(keys, boundKey{boundGate, j.gate(d.encode(w))})
	}
	return keys
}

// keysOfNext adds the bound keys of the job's next jobs, which are stored where the job is done.
func (j *RawJob) keysOfNext(w *writer, keys []boundKey) []boundKey {
	for _, next := range j.Then {
		if next.ShardKey != "" {
			keys = append(keys, boundKey{boundShard.ofNext(next.Class), next.ShardKey})
		} else if next.gate != nil {
			var d draft
			if err := j.nextDraft(w, next, &d); err == nil {
				keys = append(keys, boundKey{boundGate.ofNext(next.Class), next.gate(d.encode(w))})
			}
		}
		keys = next.keysOfNext(w, keys)
	}
	return keys
}

// pushPlaced is push for a client with shards.
func (c *Client) pushPlaced(ctx context.Context, r *ready) (receipt Receipt, err error) {
	err = c.try(ctx, destination{r.space, r.bound}, func(s *space) (err error) {
		r.Shard = s.name
		receipt, err = s.push(ctx, r)
		return err
	})
	return receipt, err
}

// A destination is the shard of a job that is about to be sent.
type destination struct {
	space *space
	bound bool // no other shard will do
}

// try sends a push to its shard and, unless it is bound, to the open shards after that while it has certainly
// failed there, each once. The error names the shard.
func (c *Client) try(ctx context.Context, to destination, send func(s *space) error) error {
	var tried []*space
	for s := to.space; ; {
		err := send(s)
		s.note(ctx, err)
		if err == nil || to.bound || ctx.Err() != nil || !absent(err) {
			return s.of(err)
		}
		tried = append(tried, s)
		next := c.spaces[c.place.next(func(shard int) bool {
			return slices.Contains(tried, c.spaces[shard]) || c.leftOut(shard)
		})]
		if slices.Contains(tried, next) || next.leftOut() {
			return s.of(err)
		}
		s = next
	}
}

// absent reports whether err means that Redis certainly has none of the jobs of the call, and that another
// Redis may take them.
func absent(err error) bool { return away(err) || errors.Is(err, ErrFull) }

// note leaves the shard out of the turns if its Redis has failed, and ends that if not.
func (s *space) note(ctx context.Context, err error) {
	switch {
	case errors.Is(err, ErrUnknown), ctx.Err() == nil && absent(err):
		s.leaveOut()
	case err == nil:
		s.putBack()
	}
}

// A consignment is the part of a slice that one call stores.
type consignment struct {
	slice
	destination
}

// split returns the parts of a slice. They write into its receipts.
func (s *slice) split() []*consignment {
	var parts []*consignment
	for i, to := range s.to {
		at := slices.IndexFunc(parts, func(p *consignment) bool { return p.destination == to })
		if at < 0 {
			at = len(parts)
			parts = append(parts, &consignment{
				slice: slice{
					receipts: s.receipts, once: s.once, needs: s.needs,
					load: load{checked: s.checked, durability: s.durability},
				},
				destination: to,
			})
		}
		part := parts[at]
		part.jobs, part.at = append(part.jobs, s.jobs[i]), append(part.at, s.at[i])
		part.bytes += len(s.jobs[i].Job)
	}
	return parts
}

// send stores a part, where a plain one can be stored.
func (c *Client) sendPart(ctx context.Context, part *consignment) error {
	first := true
	return c.try(ctx, part.destination, func(s *space) error {
		if !first {
			part.restore()
		}
		first = false
		for _, at := range part.at {
			part.receipts[at].Shard = s.name
		}
		return s.send(ctx, &part.slice)
	})
}
