package client

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/belayq/belay/driver"
)

// Goroutines that push to one queue at the same moment share a call: to Redis one LPUSH of ten jobs is little more than one
// of a single job, and to the client it is one write and one wake. Nobody waits for company. Whoever opens a joint lets those run
// first who could run already, and sends what they have added. One queue, because only its jobs share a fate anyway: a
// full Redis refuses them all, a key of another type those of one queue.
//
// Pushes that need an answer of their own stay alone: unique, repeatable and scheduled ones.

// crowd is how many pushes must be under way for one of them to let others run first. Fewer are not worth it: that alone may
// wake another thread, which costs more than a call that is saved.
const crowd = 3

// A joint is one call that several pushes share.
type joint struct {
	slice slice
	// sent is closed when receipts and err are those of a slice that has been answered, or never will be.
	sent chan struct{}
	err  error
	// waiting is how many still want to know, giveUp what ends the call when nobody does. Both are guarded by joints.mu.
	waiting int
	giveUp  context.CancelFunc
}

// joints are those that may still be joined, by queue.
type joints struct {
	// pushing is how many pushes are under way that may join.
	pushing atomic.Int64

	mu   sync.Mutex
	open map[string]*joint
}

// mayJoin says whether the job may be sent beside others.
func (r *ready) mayJoin() bool {
	return r.Status == StatusQueued && r.stored.Lock == nil && !r.repeatable
}

// pushBeside stores a job together with those that are pushed to its queue at this moment.
func (c *Client) pushBeside(ctx context.Context, r ready) (Receipt, error) {
	pushing := c.joints.pushing.Add(1)
	defer c.joints.pushing.Add(-1)
	if pushing < crowd || ctx.Err() != nil {
		return c.pushAlone(ctx, r)
	}
	shared, at, first := c.joints.join(r, c.cfg.PayloadLimit)
	if first {
		runtime.Gosched()
		if c.joints.close(shared, r.Queue) == 1 {
			err := c.send(ctx, &shared.slice)
			return shared.slice.receipts[at], err
		}
		c.sendJoint(ctx, shared)
	}
	select {
	case <-shared.sent:
		return shared.slice.receipts[at], shared.err
	case <-ctx.Done():
		c.joints.leave(shared)
		status, err := pushError(&driver.UncertainError{Err: ctx.Err()})
		r.Receipt.Status = status
		return r.Receipt, err
	}
}

// sendJoint begins to send what several have joined. One whose context ends takes nothing from the others.
func (c *Client) sendJoint(ctx context.Context, shared *joint) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.joints.mu.Lock()
	shared.giveUp = cancel
	c.joints.mu.Unlock()
	go func() {
		defer cancel()
		shared.err = c.send(ctx, &shared.slice)
		close(shared.sent)
	}()
}

// join adds a job to the joint of its queue, and says where its receipt will be, and whether the caller is the first, who
// has to send it.
func (j *joints) join(r ready, limit int) (shared *joint, at int, first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	shared = j.open[r.Queue]
	if first = shared == nil; first {
		shared = &joint{}
		j.open[r.Queue] = shared
	} else if shared.sent == nil {
		shared.sent = make(chan struct{})
	}
	shared.slice.add(r)
	shared.waiting++
	if shared.slice.full(limit) {
		delete(j.open, r.Queue)
	}
	return shared, len(shared.slice.receipts) - 1, first
}

// close lets nobody join any more, and says how many have.
func (j *joints) close(shared *joint, queue string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open[queue] == shared {
		delete(j.open, queue)
	}
	return len(shared.slice.receipts)
}

// leave says that one does not want to know any more. When nobody does, nobody has to wait for Redis either.
func (j *joints) leave(shared *joint) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if shared.waiting--; shared.waiting == 0 {
		shared.giveUp()
	}
}
