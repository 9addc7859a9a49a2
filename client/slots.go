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
	// RepeatWindow is how long after it was first sent a push may be repeated. A day, so that what happened
	// at night can be repeated by who comes in the morning; the price is that Redis keeps a small key for so
	// long.
	RepeatWindow = 24 * time.Hour
	// remember is how long Redis keeps the number of a push. The hour more is for repetitions that are under
	// way when the window ends, and for clocks that do not go alike.
	remember = RepeatWindow + time.Hour
	// mostNumbered is how many pushes of one client are numbered at once; more wait for their turn. Redis
	// executes one after the other, so that they would wait all the same, and each is a key there for a day.
	mostNumbered = 256
	// closeFor bounds what Close does for Redis' memory.
	closeFor = time.Second
)

// A slot numbers pushes, one after the other, so that Redis has to remember only the last one. It is used for
// a push only when nobody can repeat the one before.
type slot struct {
	key, client string
	number      int64 // of the last push that was stored, or may have been
	// late says that a request of an earlier push may still be on its way.
	late bool
}

// slots are those of one client.
type slots struct {
	keys lua.Keys
	// room has an element for each push that is being sent.
	room chan struct{}

	mu     sync.Mutex
	client string // its id, drawn at random
	drawn  int
	free   []*slot // the one used last is the next: those of a busy hour are forgotten after it
}

func newSlots(keys lua.Keys) *slots {
	return &slots{keys: keys, client: job.NewJID(), room: make(chan struct{}, mostNumbered)}
}

// enter waits for room to send one more push; leave makes it.
func (s *slots) enter(ctx context.Context) error {
	select {
	case s.room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &driver.NotSentError{Err: ctx.Err()}
	}
}

func (s *slots) leave() { <-s.room }

// take answers a slot that no other push has.
func (s *slots) take() *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.free) - 1; last >= 0 {
		taken := s.free[last]
		s.free = s.free[:last]
		return taken
	}
	s.drawn++
	return &slot{key: s.keys.IdempotencySlot(s.client, s.drawn), client: s.client}
}

// give takes a slot back whose last push nobody can repeat any more.
func (s *slots) give(back *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if back.client == s.client {
		s.free = append(s.free, back)
	}
}

// rename is for a client whose slot somebody else has numbered: a copy of this very program, or it is the
// copy. From then on it goes by another id.
func (s *slots) rename(lost *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost.client == s.client {
		s.client, s.free = job.NewJID(), nil
	}
}

// idle takes out the slots that Redis can forget at once: all that was sent under them has been answered.
func (s *slots) idle() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	s.free = slices.DeleteFunc(s.free, func(free *slot) bool {
		if free.number > 0 && !free.late {
			keys = append(keys, free.key)
		}
		return true
	})
	return keys
}

// forget frees Redis of what a client leaves behind that ends: most live for less than a day. Where it
// cannot, the keys expire.
func (c *Client) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), closeFor)
	defer cancel()
	for some := range slices.Chunk(c.slots.idle(), lua.MostItems) {
		c.driver.Do(ctx, driver.Command(append([]string{"DEL"}, some...)...))
	}
}
