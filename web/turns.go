package web

import (
	"context"
	"slices"
	"sync"
)

// turns lets a few callers at a time do something slow. Addresses get a turn one after the other, however
// many callers each has, so guesses from one address delay no login from another. Within an address the
// latest caller comes first, and does not wait for the guesses before it. Every patience-th turn is the oldest
// caller's, so that later ones do not keep it waiting for ever.
type turns struct {
	mutex   sync.Mutex
	free    int
	given   int
	waiting map[string][]chan struct{} // by address, the latest caller last
	order   []string                   // the addresses that wait, the next one first
}

const patience = 4

// take waits for a turn, which pass ends. It returns false if ctx ends before.
func (t *turns) take(ctx context.Context, from string) bool {
	t.mutex.Lock()
	if t.free > 0 {
		t.free--
		t.mutex.Unlock()
		return true
	}
	turn := make(chan struct{})
	if len(t.waiting[from]) == 0 {
		t.order = append(t.order, from)
	}
	t.waiting[from] = append(t.waiting[from], turn)
	t.mutex.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
		t.leave(from, turn)
		return false
	}
}

// leave removes a caller that no longer waits.
func (t *turns) leave(from string, turn chan struct{}) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	at := slices.Index(t.waiting[from], turn)
	if at < 0 { // it got its turn meanwhile
		t.passLocked()
		return
	}
	t.removeLocked(from, at)
	if len(t.waiting[from]) == 0 {
		t.order = slices.DeleteFunc(t.order, func(address string) bool { return address == from })
	}
}

// pass ends a turn and gives it to the next caller.
func (t *turns) pass() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.passLocked()
}

func (t *turns) passLocked() {
	if len(t.order) == 0 {
		t.free++
		return
	}
	from := t.order[0]
	t.order = t.order[1:]
	at := len(t.waiting[from]) - 1
	if t.given++; t.given%patience == 0 {
		at = 0
	}
	close(t.waiting[from][at])
	t.removeLocked(from, at)
	if len(t.waiting[from]) > 0 {
		t.order = append(t.order, from)
	}
}

func (t *turns) removeLocked(from string, at int) {
	if t.waiting[from] = slices.Delete(t.waiting[from], at, at+1); len(t.waiting[from]) == 0 {
		delete(t.waiting, from)
	}
}
