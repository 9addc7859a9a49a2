package belaytest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
)

// waiter waits for jobs on channels, not with a blocking command. Miniredis cannot unblock a command, so every
// stop of a server would take a second.
type waiter struct {
	memory *memory
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	release chan struct{} // nil when no call waits
}

// Waiter implements driver.Client.
func (m *memory) Waiter() (driver.Waiter, error) {
	return &waiter{memory: m, closed: make(chan struct{})}, nil
}

var errClosed = errors.New("belaytest: the waiter is closed")

// Wait implements driver.Waiter.
func (w *waiter) Wait(ctx context.Context, from, to string, limit time.Duration) (string, bool, error) {
	select {
	case <-ctx.Done():
		return "", false, &driver.NotSentError{Err: ctx.Err()}
	case <-w.closed:
		return "", false, &driver.NotSentError{Err: errClosed}
	default:
	}
	release := w.begin()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		changed := w.memory.next() // subscribe first, or a push in between is missed
		if reply, over := w.look(from, to); over {
			payload, ok := reply.Value.(string)
			return payload, ok, reply.Err
		}
		select {
		case <-changed:
			continue
		case <-w.closed:
			return "", false, &driver.UncertainError{Err: errClosed}
		case <-timer.C:
		case <-release:
		}
		w.end()
		return "", false, nil
	}
}

func (w *waiter) begin() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release = make(chan struct{})
	return w.release
}

// look moves a job if there is one. over reports that the wait has ended, by that job or by a release, but not
// by both.
func (w *waiter) look(from, to string) (reply driver.Reply, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.release == nil {
		return driver.Reply{}, true
	}
	reply = w.memory.call([]string{"LMOVE", from, to, "RIGHT", "LEFT"})
	if reply == (driver.Reply{}) {
		return reply, false
	}
	w.release = nil
	w.memory.announce()
	return reply, true
}

func (w *waiter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release = nil
}

// Release implements driver.Waiter.
func (w *waiter) Release(context.Context) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.release == nil {
		return false, nil
	}
	close(w.release)
	w.release = nil
	return true, nil
}

// Close implements driver.Waiter. Closing again does nothing.
func (w *waiter) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}
