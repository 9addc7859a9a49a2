package web

import (
	"context"
	"sync"
	"time"
)

// A shared value serves all requests for a time: several tabs cost Redis no more than one.
type shared[T any] struct {
	mutex  sync.Mutex // held during a read, so that concurrent requests share one
	value  T
	readAt time.Time
}

// get returns the value, which is at most every old. It does not keep an error.
func (s *shared[T]) get(ctx context.Context, every time.Duration, read func(context.Context) (T, error)) (T, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.readAt.IsZero() && time.Since(s.readAt) < every {
		return s.value, nil
	}
	// Not the request's own cancellation: the value is for the others too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout/2)
	defer cancel()
	value, err := read(ctx)
	if err == nil {
		s.value, s.readAt = value, time.Now()
	}
	return value, err
}
