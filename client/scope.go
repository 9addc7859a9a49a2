package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

const (
	// RepeatWindow is how long after it was first sent a push may be repeated. With a day, a push that failed
	// in the night can be repeated in the morning. The cost is a small key that Redis keeps for that time.
	RepeatWindow = 24 * time.Hour
	// remember is how long Redis keeps a scope: an hour more than the window, for repetitions that are under
	// way when it ends, and for clocks that differ.
	remember = RepeatWindow + time.Hour
	// maxOnce is how many PushOnce pushes one client sends at once; more wait for their turn. Redis executes
	// one after the other, so they would wait all the same, and each has a scope there for a day.
	maxOnce = 256
	// closeFor bounds the time in which Close deletes scopes to save Redis' memory.
	closeFor = time.Second
)

// A scope numbers PushOnce pushes, one after the other, so that Redis remembers only the last one. A key for
// each push instead, kept for as long, would take 180 bytes of Redis for each push of a day, and a key for each
// job five times the work in bulk. A scope is used for a push only when the one before cannot be repeated any
// more.
type scope struct {
	name   string // in Redis
	client string // the client's id when the scope was drawn
	last   int64  // the number of the last push that was stored, or may have been
	// late reports that a request of an earlier push may still be under way.
	late bool
}

// scopes are the scopes of one client.
type scopes struct {
	keys lua.Keys
	// room has an element for each push that is being sent.
	room chan struct{}

	mu     sync.Mutex
	client string // its id, drawn at random
	drawn  int
	free   []*scope // the one used last is the next, so that the scopes of a busy hour expire
}

func newScopes(keys lua.Keys) *scopes {
	return &scopes{keys: keys, client: job.NewJID(), room: make(chan struct{}, maxOnce)}
}

// enter waits for room to send one more push; leave makes it.
func (s *scopes) enter(ctx context.Context) error {
	select {
	case s.room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &driver.NotSentError{Err: ctx.Err()}
	}
}

func (s *scopes) leave() { <-s.room }

// take returns a scope that no other push has.
func (s *scopes) take() *scope {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.free) - 1; last >= 0 {
		taken := s.free[last]
		s.free = s.free[:last]
		return taken
	}
	s.drawn++
	return &scope{name: s.keys.IdempotencyScope(s.client, s.drawn), client: s.client}
}

// give takes a scope back whose last push cannot be repeated any more.
func (s *scopes) give(back *scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if back.client == s.client {
		s.free = append(s.free, back)
	}
}

// rename gives the client another id, after a copy of this program has used one of its scopes.
func (s *scopes) rename(lost *scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost.client == s.client {
		s.client, s.free = job.NewJID(), nil
	}
}

// idle removes the free scopes, and returns the names of those that Redis can forget at once, because all their
// requests were answered.
func (s *scopes) idle() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, free := range s.free {
		if free.last > 0 && !free.late {
			names = append(names, free.name)
		}
	}
	s.free = nil
	return names
}

// forget deletes the scopes of a client that ends: most clients live for less than a day. Scopes that it cannot
// delete expire.
func (s *space) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), closeFor)
	defer cancel()
	for names := range slices.Chunk(s.scopes.idle(), lua.MaxItems) {
		s.driver.Do(ctx, driver.Command(append([]string{"DEL"}, names...)...))
	}
}
