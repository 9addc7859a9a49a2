package fetch

import (
	"sync"
	"time"

	"github.com/belayq/belay/job"
)

// A Result is how a run ended. A job whose run did not begin has an outcome that ends it (see job.Exit.Ends),
// or is requeued. A job that is requeued before a stop returns to the head of its queue, and this process takes
// nothing from that queue for a while.
type Result struct {
	Run     *Run
	Outcome job.Outcome
	// Refused reports that another process should run a requeued job: a stop returns it at once, and not with
	// the unfinished jobs at its end.
	Refused bool
}

// Take waits for a run; ok is false when no more runs will come. Processors call it.
func (l *Loop) Take() (r *Run, ok bool) { return l.pool.take() }

// End reports the result of a run. Processors call it.
func (l *Loop) End(result Result) { l.pool.end(result) }

// Dismiss ends the processors that wait in Take, now or later. Runs that were added are still taken.
func (l *Loop) Dismiss() { l.pool.close() }

const (
	// manyResults is how many results wake the loop at once.
	manyResults = 32
	// promptly is how long a result may wait for others of its batch before the loop is woken.
	promptly = 100 * time.Microsecond
)

// A pool passes runs from the loop to the processors, and results from the processors to the loop.
//
// A processor that takes a run wakes the next processor if there are more runs. So runs whose handlers wait are
// all taken within microseconds, one after the other, and runs that end at once are run by the few processors
// that are awake: to wake a processor costs more than such a run.
//
// A result wakes the loop when all runs are taken. So the results of runs that end at once come together, in
// one settle.
type pool struct {
	mu     sync.Mutex
	filled *sync.Cond
	runs   []*Run // runs[next:] have not been taken
	next   int
	idle   int  // processors that wait
	waking bool // one of them was woken and does not run yet
	closed bool

	results  []Result
	since    time.Time     // when the first of them came
	signal   chan struct{} // wakes the loop, which must take the results
	notified bool          // the signal for these results was sent
}

func newPool() *pool {
	p := &pool{signal: make(chan struct{}, 1)}
	p.filled = sync.NewCond(&p.mu)
	return p
}

// add adds runs.
func (p *pool) add(runs []*Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := copy(p.runs, p.runs[p.next:])
	clear(p.runs[rest:]) // so that taken runs can be collected although there is seldom none
	p.runs, p.next = append(p.runs[:rest], runs...), 0
	p.wake()
}

// take waits for a run; ok is false when no more runs will come.
func (p *pool) take() (r *Run, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.next == len(p.runs) {
		if p.closed {
			return nil, false
		}
		p.idle++
		p.filled.Wait()
		p.idle--
		p.waking = false
	}
	r, p.runs[p.next] = p.runs[p.next], nil
	p.next++
	p.wake()
	p.notify()
	return r, true
}

// wake wakes a waiting processor if there is a run for it and no other processor is being woken.
func (p *pool) wake() {
	if p.next < len(p.runs) && p.idle > 0 && !p.waking {
		p.waking = true
		p.filled.Signal()
	}
}

// close ends the waiting, now or later. Runs that were added are still taken.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.filled.Broadcast()
}

// end adds a result.
func (p *pool) end(result Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.results) == 0 {
		p.since = time.Now()
	}
	p.results = append(p.results, result)
	p.notify()
}

// notify wakes the loop if there are results that need not wait for others.
func (p *pool) notify() {
	if p.notified || len(p.results) == 0 {
		return
	}
	if p.next == len(p.runs) || len(p.results) >= manyResults || time.Since(p.since) > promptly {
		p.notified = true
		p.signal <- struct{}{}
	}
}

// ended returns all results. spare is the slice that the last call returned, emptied, to be reused.
func (p *pool) ended(spare []Result) []Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.results) == 0 {
		return spare // the two must never share their memory
	}
	if p.notified {
		p.notified = false
		select {
		case <-p.signal:
		default: // the loop has received it
		}
	}
	list := p.results
	p.results = spare
	return list
}
