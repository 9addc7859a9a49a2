package slowlink

import (
	"slices"
	"sync"
	"time"
)

const (
	// burst is how long an idle lane may then exceed its bandwidth. It compensates for timers and
	// goroutines that wake late: without it a busy machine would lower the bandwidth.
	burst = 20 * time.Millisecond
	// chunk is how many bytes one connection sends before the next has its turn. At 10 Mbit/s it takes 13
	// ms: much more would keep a heartbeat behind a page, and much less would cost too many wakeups at 100
	// Mbit/s.
	chunk = 16 << 10
)

// A lane is one direction of a link, shared by all connections.
type lane struct {
	mu    sync.Mutex
	speed Speed
	free  time.Time // when the bytes that were accepted so far have been sent
	bytes int64
}

// accept takes n bytes at an instant and returns when they have been sent and when they arrive at the other
// end.
func (l *lane) accept(n int, now time.Time) (sent, arrives time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes += int64(n)
	if earliest := now.Add(-burst); l.free.Before(earliest) {
		l.free = earliest
	}
	l.free = l.free.Add(l.speed.transmission(n))
	sent = l.free
	if l.speed.BitsPerSecond == 0 {
		sent = now
	}
	return sent, slices.MaxFunc([]time.Time{sent, now}, time.Time.Compare).Add(l.speed.RoundTrip / 2)
}

func (l *lane) set(speed Speed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.speed, l.free = speed, time.Time{}
}

func (l *lane) sent() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}
