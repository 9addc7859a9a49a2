package launcher

import (
	"sync"

	"github.com/belayq/belay/fetch"
)

// A tray is where the manager lays jobs for the processors. Whoever takes one wakes the next, if there is more: jobs whose
// handlers wait are all taken one after the other within microseconds, and jobs that end at once are run by the few that are
// awake. To wake a processor for each costs more than such a job.
type tray struct {
	mu     sync.Mutex
	filled *sync.Cond
	jobs   []*fetch.Held // those from next on are still to be taken
	next   int
	idle   int  // processors that wait
	waking bool // one of them has been woken and is not here yet
	closed bool
}

func newTray() *tray {
	t := &tray{}
	t.filled = sync.NewCond(&t.mu)
	return t
}

// lay adds jobs.
func (t *tray) lay(jobs []*fetch.Held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := copy(t.jobs, t.jobs[t.next:])
	clear(t.jobs[rest:]) // what is gone is not kept, however seldom the tray is empty
	t.jobs, t.next = append(t.jobs[:rest], jobs...), 0
	t.wake()
}

// take waits for a job; ok is false when there will be none any more.
func (t *tray) take() (held *fetch.Held, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.next == len(t.jobs) {
		if t.closed {
			return nil, false
		}
		t.idle++
		t.filled.Wait()
		t.idle--
		t.waking = false
	}
	held, t.jobs[t.next] = t.jobs[t.next], nil
	t.next++
	t.wake()
	return held, true
}

// wake wakes one who waits, if there is something for him and nobody is on the way.
func (t *tray) wake() {
	if t.next < len(t.jobs) && t.idle > 0 && !t.waking {
		t.waking = true
		t.filled.Signal()
	}
}

// close lets those go who wait, now or later. What was laid down is still taken.
func (t *tray) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.filled.Broadcast()
}

// Ends are where the processors lay ended runs for the manager, which takes all of them at a time.
type ends struct {
	// some has a signal when there are some; it may have one when they have been taken already.
	some chan struct{}

	mu   sync.Mutex
	laid []ended
}

func newEnds() *ends { return &ends{some: make(chan struct{}, 1)} }

func (e *ends) lay(end ended) {
	e.mu.Lock()
	e.laid = append(e.laid, end)
	first := len(e.laid) == 1
	e.mu.Unlock()
	if first {
		select {
		case e.some <- struct{}{}:
		default: // the last one was not heard yet
		}
	}
}

// take takes all there are. spare is what the last take answered, emptied: room for what comes next.
func (e *ends) take(spare []ended) []ended {
	select {
	case <-e.some:
	default:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.laid) == 0 {
		return spare // the two must never share their bytes
	}
	laid := e.laid
	e.laid = spare
	return laid
}
