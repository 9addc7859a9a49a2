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
	// remember is how long Redis keeps an idempotency key: an hour more than the window, for repetitions that
	// are under way when it ends, and for clocks that differ.
	remember = RepeatWindow + time.Hour
	// maxOnce is how many such pushes one client sends at once; more wait for their turn. Redis executes one
	// after the other, so they would wait all the same, and each has a key there for a day.
	maxOnce = 256
	// closeFor bounds the time in which Close deletes keys to save Redis' memory.
	closeFor = time.Second
)

// A pushKey numbers pushes, one after the other, so that Redis has to remember only the last one. It is used
// for a push only when the one before cannot be repeated any more.
type pushKey struct {
	key, client string
	number      int64 // of the last push that was stored, or may have been
	// late reports that a request of an earlier push may still be under way.
	late bool
}

// pushKeys are the keys of one client.
type pushKeys struct {
	keys lua.Keys
	// room has an element for each push that is being sent.
	room chan struct{}

	mu     sync.Mutex
	client string // its id, drawn at random
	drawn  int
	free   []*pushKey // the one used last is the next, so that the keys of a busy hour expire
}

func newPushKeys(keys lua.Keys) *pushKeys {
	return &pushKeys{keys: keys, client: job.NewJID(), room: make(chan struct{}, maxOnce)}
}

// enter waits for room to send one more push; leave makes it.
func (s *pushKeys) enter(ctx context.Context) error {
	select {
	case s.room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &driver.NotSentError{Err: ctx.Err()}
	}
}

func (s *pushKeys) leave() { <-s.room }

// take returns a key that no other push has.
func (s *pushKeys) take() *pushKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.free) - 1; last >= 0 {
		taken := s.free[last]
		s.free = s.free[:last]
		return taken
	}
	s.drawn++
	return &pushKey{key: s.keys.IdempotencySlot(s.client, s.drawn), client: s.client}
}

// give takes a key back whose last push cannot be repeated any more.
func (s *pushKeys) give(back *pushKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if back.client == s.client {
		s.free = append(s.free, back)
	}
}

// rename gives the client another id, after a copy of this program has used one of its keys.
func (s *pushKeys) rename(lost *pushKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost.client == s.client {
		s.client, s.free = job.NewJID(), nil
	}
}

// idle removes the keys that Redis can forget at once, because all their requests were answered, and returns
// their names.
func (s *pushKeys) idle() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	s.free = slices.DeleteFunc(s.free, func(free *pushKey) bool {
		if free.number > 0 && !free.late {
			keys = append(keys, free.key)
		}
		return true
	})
	return keys
}

// forget deletes the keys of a client that ends: most clients live for less than a day. Keys that it cannot
// delete expire.
func (c *Client) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), closeFor)
	defer cancel()
	for keys := range slices.Chunk(c.pushKeys.idle(), lua.MaxItems) {
		c.driver.Do(ctx, driver.Command(append([]string{"DEL"}, keys...)...))
	}
}
