package driver

import (
	"context"
	"errors"
	"sync"
	"time"
)

// IdleFor is how long the connection of an OnDemand is kept without use. Duties that repeat keep it: the
// slowest of them that matter repeat within some seconds. A dial costs some round trips, once in this time at
// most.
const IdleFor = 30 * time.Second

// An OnDemand is a lane of one connection for calls that can wait for a dial. It has a connection only while it
// is used: the first Do opens it, and it is closed when it was not used for a while. Its other methods are
// those of the client whose lane it is, but for Close.
type OnDemand struct {
	Client
	idle time.Duration

	mu        sync.Mutex
	lane      Client // nil while there is no connection
	calls     int    // under way
	usedAt    time.Time
	restUntil time.Time
	timer     *time.Timer // closes the lane
	closed    bool
}

// NewOnDemand returns a lane of client that is closed after idle without use. It opens nothing. The caller
// closes it.
func NewOnDemand(client Client, idle time.Duration) *OnDemand {
	o := &OnDemand{Client: client, idle: idle}
	o.timer = time.AfterFunc(idle, o.closeIdle)
	o.timer.Stop()
	return o
}

var (
	errLaneClosed = errors.New("driver: the lane is closed")
	errResting    = errors.New("driver: not sent, to leave a connection to more urgent calls")
)

// Do implements Client.Do.
func (o *OnDemand) Do(ctx context.Context, calls ...Call) []Reply {
	lane, err := o.enter()
	if err != nil {
		replies := make([]Reply, len(calls))
		for i := range replies {
			replies[i].Err = &NotSentError{Err: err}
		}
		return replies
	}
	defer o.leave()
	return lane.Do(ctx, calls...)
}

func (o *OnDemand) enter() (lane Client, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return nil, errLaneClosed
	case time.Now().Before(o.restUntil):
		return nil, errResting
	case o.lane == nil:
		if o.lane, err = o.Lane(1); err != nil {
			return nil, err
		}
	}
	o.calls++
	return o.lane, nil
}

func (o *OnDemand) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls--
	o.usedAt = time.Now()
	switch {
	case o.calls > 0 || o.closed:
	case o.usedAt.Before(o.restUntil):
		o.timer.Reset(0)
	default:
		o.timer.Reset(o.idle)
	}
}

func (o *OnDemand) closeIdle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	rests := time.Now().Before(o.restUntil)
	if o.lane == nil || o.calls > 0 || !rests && time.Since(o.usedAt) < o.idle {
		return
	}
	_ = o.lane.Close() // nothing is under way on it
	o.lane = nil
}

// Rest closes the connection, at once or after the calls that are under way, and opens none for d. Until then
// calls fail: they were not sent. It is for a server that refuses connections to calls that cannot wait.
func (o *OnDemand) Rest(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.restUntil = time.Now().Add(d)
	if o.calls == 0 && !o.closed {
		o.timer.Reset(0)
	}
}

// Close closes the connection. Calls under way fail, as do later ones; closing again does nothing.
func (o *OnDemand) Close() error {
	o.mu.Lock()
	lane := o.lane
	o.lane, o.closed = nil, true
	o.timer.Stop()
	o.mu.Unlock()
	if lane == nil {
		return nil
	}
	return lane.Close()
}
