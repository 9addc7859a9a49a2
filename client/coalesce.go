package client

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// Goroutines that push to one queue at the same moment share a call: for Redis, an LPUSH of ten jobs is little
// more work than an LPUSH of one, and for the client it is one write and one wake-up. No push waits for one
// that has not begun: the first goroutine of a group yields once, and then sends the jobs that the others have
// added by then. A group has one queue, because only jobs of one queue have the same outcome: a full Redis
// refuses all jobs, and a key of another type refuses those of its queue. The pushes of a group have nearly the
// same deadline, because a deadline ends the call. A cancellation does not end a call that is under way, shared
// or not.
//
// Pushes that need a reply of their own are not coalesced: unique ones, scheduled ones, PushOnce, and those
// that are refused while an old worker is alive (ExpiresIn, Deadline). Durable pushes share calls in their own
// way: see durable.

const (
	// coalesceFrom is how many pushes must be under way before one of them yields. With fewer, the yield may
	// cost more than a saved call, because it may wake another thread.
	coalesceFrom = 3
	// yieldFor is how long the yield may take, and yieldForEach how much longer for each push that has joined.
	// A yield takes longer if the processors are busy with other work: each goroutine that computes delays it
	// by up to ten milliseconds.
	yieldFor     = 500 * time.Microsecond
	yieldForEach = 20 * time.Microsecond
	// After a yield that took longer, pushes are not coalesced for aloneFor times the excess. So at most a
	// twentieth of the time is lost.
	aloneFor = 20
	// alike is the maximum difference between the deadlines of pushes that share a call. The earliest one is
	// that of the call.
	alike = 10 * time.Millisecond
)

// A group is several pushes that share one call.
type group struct {
	slice slice
	until time.Time // the first one's deadline; zero for none
	// sent is closed when the slice's receipts and err are known.
	sent chan struct{}
	err  error
}

// groups has the groups that pushes may still join, by queue.
type groups struct {
	// pushing counts the pushes under way that may be coalesced.
	pushing atomic.Int64
	// aloneUntil is the time until which pushes are not coalesced, as a duration since the client was made.
	aloneUntil atomic.Int64

	mu   sync.Mutex
	open map[string]*group
}

// mayCoalesce reports whether the job may share a call.
func (r *ready) mayCoalesce() bool {
	return r.Status == StatusQueued && r.stored.Lock == nil && !r.once && r.needs <= lua.FirstProtocol && r.replicas == 0
}

// pushCoalesced stores a job together with the jobs that others push to its queue at this moment.
func (s *space) pushCoalesced(ctx context.Context, r *ready) (Receipt, error) {
	if ctx.Err() != nil || int64(time.Since(s.born)) < s.groups.aloneUntil.Load() {
		return s.pushAlone(ctx, r)
	}
	until, _ := ctx.Deadline()
	g, at, first := s.groups.join(r, until, s.cfg.PayloadLimit, s.page)
	switch {
	case g == nil:
		return s.pushAlone(ctx, r)
	case first:
		s.lead(ctx, g, r.Queue)
	default:
		<-g.sent
	}
	return g.slice.receipts[at], g.err
}

// errBrokenOff is the error of the other pushes if the goroutine that sends ends by runtime.Goexit or a panic.
var errBrokenOff = errors.New("the goroutine that sent it ended before there was an answer")

// lead sends a group that the caller has opened.
func (s *space) lead(ctx context.Context, g *group, queue string) {
	begun := time.Since(s.born)
	runtime.Gosched()
	joined := s.groups.close(g, queue)
	s.groups.judge(begun, time.Since(s.born), joined)
	answered := false
	defer func() {
		if !answered {
			g.err = g.slice.end(answer{}, outcomeOf(&driver.UncertainError{Err: errBrokenOff}), nil)
		}
		close(g.sent)
	}()
	if joined > 1 {
		var end context.CancelFunc
		ctx, end = uncancelled(ctx) // other callers' pushes are in the call too
		defer end()
	}
	g.err = s.send(ctx, &g.slice)
	answered = true
}

// uncancelled returns a context that ends at ctx's deadline, and for no other reason.
func uncancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	kept := context.WithoutCancel(ctx)
	if until, ok := ctx.Deadline(); ok {
		return context.WithDeadline(kept, until)
	}
	return kept, func() {}
}

// judge stops coalescing for a while if the yield took long for the number of pushes that joined.
func (s *groups) judge(begun, ended time.Duration, joined int) {
	if excess := ended - begun - yieldFor - yieldForEach*time.Duration(joined); excess > 0 {
		s.aloneUntil.Store(int64(ended + aloneFor*excess))
	}
}

// join adds a job to the group of its queue, unless their deadlines differ. It returns the index of its
// receipt, and whether the caller is the first one, which leads.
func (s *groups) join(r *ready, until time.Time, limit int, page func() int) (g *group, at int, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g = s.open[r.Queue]
	switch {
	case g == nil:
		first = true
		g = &group{until: until, sent: make(chan struct{})}
		if s.open == nil {
			s.open = make(map[string]*group)
		}
		s.open[r.Queue] = g
	case g.until.IsZero() != until.IsZero() || until.Before(g.until) || until.Sub(g.until) > alike:
		return nil, 0, false
	}
	g.slice.add(r, time.Time{})
	if g.slice.full(limit, page) {
		delete(s.open, r.Queue)
	}
	return g, len(g.slice.receipts) - 1, first
}

// close ends joining, and returns how many pushes have joined.
func (s *groups) close(g *group, queue string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[queue] == g {
		delete(s.open, queue)
	}
	return len(g.slice.receipts)
}
