package web

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A shared value serves all requests for a time: several tabs cost Redis no more than one. At most one request
// reads it at a time, and the others wait for that one.
type shared[T any] struct {
	mutex   sync.Mutex  // for all below
	last    *reading[T] // the last one that ended; nil for none that still counts
	until   time.Time   // for how long it does
	current *reading[T] // the one under way; nil for none
}

// A reading is one read of a shared value.
type reading[T any] struct {
	ended chan struct{} // closed at the end; value and err are set then
	value T
	err   error
}

// errReadPanicked is the error of those that wait for a reading that panicked.
var errReadPanicked = errors.New("the read panicked; the log has the reason")

// get returns the value, which is at most every old, or at most as old as its read took: a shard that does not
// answer makes each read as slow as its deadline, and reads without an end would be in all requests' way. An
// error is kept for no longer than fresh. A caller whose ctx ends while another one reads gets the cause.
func (s *shared[T]) get(ctx context.Context, every time.Duration, read func(context.Context) (T, error)) (T, error) {
	s.mutex.Lock()
	if s.last != nil && time.Now().Before(s.until) {
		defer s.mutex.Unlock()
		return s.last.value, s.last.err
	}
	if current := s.current; current != nil {
		s.mutex.Unlock()
		select {
		case <-current.ended:
			return current.value, current.err
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
	}
	own := &reading[T]{ended: make(chan struct{}), err: errReadPanicked}
	s.current = own
	s.mutex.Unlock()
	began := time.Now()
	defer func() { s.end(own, began, every) }()
	// Not the request's own cancellation: the value is for the others too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout/2)
	defer cancel()
	own.value, own.err = read(ctx)
	return own.value, own.err
}

// end keeps what was read, unless it is out of date already.
func (s *shared[T]) end(own *reading[T], began time.Time, every time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	close(own.ended)
	if s.current != own {
		return
	}
	now := time.Now()
	if own.err != nil {
		every = min(every, fresh)
	}
	s.last, s.until, s.current = own, now.Add(max(every, now.Sub(began))), nil
}

// stale makes the next request read the value again: it has changed, also for a read that is under way.
func (s *shared[T]) stale() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last, s.current = nil, nil
}
