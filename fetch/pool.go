package fetch

import (
	"sync"

	"github.com/belayq/belay/job"
)

// A Result is how a run ended.
type Result struct {
	Run     *Run
	Outcome job.Outcome
	// Refused says that another process is to run the job: this one leaves its queue alone for a while.
	Refused bool
}

// Take waits for a run; ok is false when there will be none any more. Processors call it.
func (l *Loop) Take() (r *Run, ok bool) { return l.queue.take() }

// End reports the result of a run. Processors call it.
func (l *Loop) End(result Result) { l.results.add(result) }

// Dismiss ends the processors that wait in Take, now or later. What is in the run queue is still taken.
func (l *Loop) Dismiss() { l.queue.close() }

// A runQueue holds runs for the processors. A processor that takes one wakes the next, if there is more:
// runs whose handlers wait are all taken one after the other within microseconds, and runs that end at once
// are run by the few that are awake. To wake a processor for each costs more than such a run.
type runQueue struct {
	mu     sync.Mutex
	filled *sync.Cond
	runs   []*Run // those from next on are still to be taken
	next   int
	idle   int  // processors that wait
	waking bool // one of them has been woken and is not here yet
	closed bool
}

func newRunQueue() *runQueue {
	q := &runQueue{}
	q.filled = sync.NewCond(&q.mu)
	return q
}

// add adds runs.
func (q *runQueue) add(runs []*Run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rest := copy(q.runs, q.runs[q.next:])
	clear(q.runs[rest:]) // runs that were taken are not kept, however seldom the queue is empty
	q.runs, q.next = append(q.runs[:rest], runs...), 0
	q.wake()
}

// take waits for a run; ok is false when there will be none any more.
func (q *runQueue) take() (r *Run, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.next == len(q.runs) {
		if q.closed {
			return nil, false
		}
		q.idle++
		q.filled.Wait()
		q.idle--
		q.waking = false
	}
	r, q.runs[q.next] = q.runs[q.next], nil
	q.next++
	q.wake()
	return r, true
}

// wake wakes a processor that waits, if there is a run for it and none is on the way.
func (q *runQueue) wake() {
	if q.next < len(q.runs) && q.idle > 0 && !q.waking {
		q.waking = true
		q.filled.Signal()
	}
}

// close ends the waiting, now or later. Runs that were added are still taken.
func (q *runQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
}

// results holds the results of runs for the loop, which takes all of them at a time.
type results struct {
	// some has a signal when there are results; it may have one when they have been taken already.
	some chan struct{}

	mu   sync.Mutex
	list []Result
}

func newResults() *results { return &results{some: make(chan struct{}, 1)} }

func (r *results) add(result Result) {
	r.mu.Lock()
	r.list = append(r.list, result)
	first := len(r.list) == 1
	r.mu.Unlock()
	if first {
		select {
		case r.some <- struct{}{}:
		default: // the last signal was not received yet
		}
	}
}

// take takes all results. spare is what the last take returned, emptied: room for what comes next.
func (r *results) take(spare []Result) []Result {
	select {
	case <-r.some:
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return spare // the two must never share their memory
	}
	list := r.list
	r.list = spare
	return list
}
