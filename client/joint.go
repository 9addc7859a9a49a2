package client

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
)

// Goroutines that push to one queue at the same moment share a call: to Redis one LPUSH of ten jobs is little
// more than one of a single job, and to the client it is one write and one wake. Nobody waits for a push that
// has not begun. Whoever opens a joint lets those run first who could run already, and sends what they have
// added. One queue, because only its jobs share a fate anyway: a full Redis refuses them all, a key of
// another type those of one queue. And nearly one deadline, because that is what ends a call; cancelling ends
// none that is under way, shared or not.
//
// Pushes that need an answer of their own stay alone: unique, repeatable and scheduled ones.

const (
	// crowd is how many pushes must be under way for one of them to let others run first. Fewer are not worth
	// it: that alone may wake another thread, which costs more than a call that is saved.
	crowd = 3
	// yieldFor and yieldForEach are how long it may take to let others run, and how much longer for each that
	// has joined. It takes longer where the processors are busy with something else: behind each goroutine
	// that computes one waits for ten milliseconds.
	yieldFor     = 500 * time.Microsecond
	yieldForEach = 20 * time.Microsecond
	// aloneFor is for how many times the excess pushes stay alone then: what is lost so is a twentieth of the
	// time at most.
	aloneFor = 20
	// alike is by how much the deadlines of pushes that share a call may differ. The earliest is that of all.
	alike = 10 * time.Millisecond
)

// A joint is one call that several pushes share.
type joint struct {
	slice slice
	until time.Time // the first one's deadline; zero for none
	// sent is closed when slice's receipts and err are what became of it.
	sent chan struct{}
	err  error
}

// joints are those that may still be joined, by queue, and whether it is worth while.
type joints struct {
	// pushing is how many pushes are under way that may join.
	pushing atomic.Int64
	// aloneUntil is until when pushes stay alone, as a duration since the client was born.
	aloneUntil atomic.Int64

	mu   sync.Mutex
	open map[string]*joint
}

// mayJoin says whether the job may be sent beside others.
func (r *ready) mayJoin() bool {
	return r.Status == StatusQueued && r.stored.Lock == nil && !r.repeatable && r.needs == 0
}

// pushBeside stores a job together with those that are pushed to its queue at this moment.
func (c *Client) pushBeside(ctx context.Context, r ready) (Receipt, error) {
	pushing := c.joints.pushing.Add(1)
	defer c.joints.pushing.Add(-1)
	if pushing < crowd || ctx.Err() != nil || int64(time.Since(c.born)) < c.joints.aloneUntil.Load() {
		return c.pushAlone(ctx, r)
	}
	until, _ := ctx.Deadline()
	shared, at, first := c.joints.join(r, until, c.cfg.PayloadLimit)
	switch {
	case shared == nil:
		return c.pushAlone(ctx, r)
	case first:
		c.lead(ctx, shared, r.Queue)
	default:
		<-shared.sent
	}
	return shared.slice.receipts[at], shared.err
}

// errBrokenOff is what the others are told when the one who sends is gone by runtime.Goexit or a panic.
var errBrokenOff = errors.New("the goroutine that sent it ended before there was an answer")

// lead sends a joint that the caller has opened, and tells the others.
func (c *Client) lead(ctx context.Context, shared *joint, queue string) {
	begun := time.Since(c.born)
	runtime.Gosched()
	joined := c.joints.close(shared, queue)
	c.joints.judge(begun, time.Since(c.born), joined)
	answered := false
	defer func() {
		if !answered {
			var status Status
			status, shared.err = pushError(&driver.UncertainError{Err: errBrokenOff})
			shared.slice.fail(status, nil)
		}
		close(shared.sent)
	}()
	if joined > 1 {
		var end context.CancelFunc
		ctx, end = uncancelled(ctx) // the call is others' too
		defer end()
	}
	shared.err = c.send(ctx, &shared.slice)
	answered = true
}

// uncancelled has ctx's deadline, and nothing else that ends it.
func uncancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	kept := context.WithoutCancel(ctx)
	if until, ok := ctx.Deadline(); ok {
		return context.WithDeadline(kept, until)
	}
	return kept, func() {}
}

// judge sees to it that pushes stay alone for a while if it took long to let others run, of whom so many have
// joined.
func (j *joints) judge(begun, ended time.Duration, joined int) {
	if excess := ended - begun - yieldFor - yieldForEach*time.Duration(joined); excess > 0 {
		j.aloneUntil.Store(int64(ended + aloneFor*excess))
	}
}

// join adds a job to the joint of its queue, unless their deadlines differ, and says where its receipt will
// be, and whether the caller is the first, who leads.
func (j *joints) join(r ready, until time.Time, limit int) (shared *joint, at int, first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	shared = j.open[r.Queue]
	switch {
	case shared == nil:
		first = true
		shared = &joint{until: until, sent: make(chan struct{})}
		if j.open == nil {
			j.open = make(map[string]*joint)
		}
		j.open[r.Queue] = shared
	case shared.until.IsZero() != until.IsZero() || until.Before(shared.until) || until.Sub(shared.until) > alike:
		return nil, 0, false
	}
	shared.slice.add(r)
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
