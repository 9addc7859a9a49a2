package fetch

import (
	"sync"

	"github.com/belayq/belay/job"
)

// A Result is how a run ended.
type Result struct {
	Run     *Run
	Outcome job.Outcome
	// Refused reports that another process should run the job: this one takes nothing from its queue for a
	// while.
	Refused bool
}

// Take waits for a run; ok is false when no more runs will come. Processors call it.
func (l *Loop) Take() (r *Run, ok bool) { return l.queue.take() }

// End reports the result of a run. Processors call it.
func (l *Loop) End(result Result) { l.results.add(result) }

// Dismiss ends the processors that wait in Take, now or later. Runs in the run queue are still taken.
func (l *Loop) Dismiss() { l.queue.close() }

// A runQueue holds runs for the processors. A processor that takes a run wakes the next processor if there are
// more runs. So runs whose handlers wait are all taken within microseconds, one after the other, and runs that
// end at once are run by the few processors that are awake: to wake a processor costs more than such a run.
type runQueue struct {
	mu     sync.Mutex
	filled *sync.Cond
	runs   []*Run // those from next on have not been taken
	next   int
	idle   int  // processors that wait
	waking bool // one of them was woken and does not run yet
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
	clear(q.runs[rest:]) // so that taken runs can be collected although the queue is seldom empty
	q.runs, q.next = append(q.runs[:rest], runs...), 0
	q.wake()
}

// take waits for a run; ok is false when no more runs will come.
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

// wake wakes a waiting processor if there is a run for it and no other processor is being woken.
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
	// some has a signal if there are results. It may also have one after they were taken.
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

// take returns all results. spare is the slice that the last take returned, emptied, to be reused.
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
