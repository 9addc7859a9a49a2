package launcher

import (
	"context"
	"sync"
	"time"

	"github.com/belayq/belay/fetch"
)

const (
	// watchEvery is how often runs are checked. A check costs an atomic load for each processor.
	watchEvery = time.Second
	// leastPatience and mostPatience bound for how long a run may be overdue before it is reported: less
	// would report every handler that takes a moment to clean up, and more would come too late for an
	// operator.
	leastPatience = 5 * time.Second
	mostPatience  = time.Minute
	// reportAgain is how long after that it is reported once more.
	reportAgain = 10 * time.Minute
	// mostReported is how many runs one look reports; the others wait for the next. When a service hangs
	// that all handlers call, a log of a thousand stacks does not help.
	mostReported = 10
)

// A StuckRun is a run whose context has ended and whose handler does not return. It keeps its processor
// until it does: nothing can end a goroutine from outside.
type StuckRun struct {
	Run
	// Cause is why its context ended: ErrTimeout, ErrShutdown or fetch.ErrOwnershipLost, to be asked for
	// with errors.Is.
	Cause error
	// Stack is where the handler's goroutine stands, the innermost call first, at most some KiB of text;
	// empty if it could not be found.
	Stack string
	// Left reports whether the process stops without it: its job has gone back to its queue, or was recovered
	// before.
	Left bool
}

// A StuckHandler is called for runs that do not end. Its panics are only logged, it delays no job, and a
// stop waits for it no longer than a second. It may be called from several goroutines at once.
type StuckHandler func(run StuckRun)

// A watch holds which runs are overdue. Time counts for a run only while the watch looks: a process that
// was frozen gives its handlers the same patience afterwards as any other.
type watch struct {
	mu       sync.Mutex
	lookedAt time.Time
	late     map[*run]*lateness

	closedLogged bool // that the client is closed; confined to the watch's goroutine
}

// lateness is what is known of an overdue run.
type lateness struct {
	processor *processor
	run       *run
	cause     error
	by        time.Duration // overdue by so much
	reportAt  time.Duration // reported when it is overdue by so much
	reported  bool
}

// over reports whether the run has ended.
func (l *lateness) over() bool { return l.processor.current.Load() != l.run }

// look finds what is overdue now, and returns what must be reported. Runs that end cost nothing: look finds
// them gone.
func (w *watch) look(now time.Time, pool *pool) []lateness {
	w.mu.Lock()
	defer w.mu.Unlock()
	passed := min(now.Sub(w.lookedAt), 2*watchEvery)
	w.lookedAt = now
	for r, late := range w.late {
		if late.over() {
			delete(w.late, r)
			continue
		}
		late.by += passed
	}
	for _, p := range pool.processors {
		if r := p.current.Load(); r != nil && w.late[r] == nil {
			w.noteLocked(p, r, now)
		}
	}
	return w.dueLocked(func(late *lateness) bool { return late.by >= late.reportAt })
}

// left finds the runs that a stop leaves behind, and returns those that must be reported because they were
// not before, and how many more there are.
func (w *watch) left(now time.Time, pool *pool) (report []lateness, more int) {
	due := w.look(now, pool)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, late := range w.late {
		late.by = max(late.by, fetch.Moment) // which is what a cancelled handler was given
	}
	report = append(due, w.dueLocked(func(late *lateness) bool { return !late.reported })...)
	return report, len(w.late) - len(report)
}

// noteLocked notes a run whose context has ended.
func (w *watch) noteLocked(p *processor, r *run, now time.Time) {
	about := p.pool.registered(r.job.Class())
	late := &lateness{processor: p, run: r, reportAt: leastPatience}
	switch {
	case r.taken.Session.Context.Err() != nil:
		late.cause = context.Cause(r.taken.Session.Context)
	case about.class.Timeout > 0 && now.Sub(r.startedAt) >= about.class.Timeout:
		late.cause = about.late
		late.reportAt = min(max(about.class.Timeout, leastPatience), mostPatience)
	default:
		return
	}
	if w.late == nil {
		w.late = make(map[*run]*lateness)
	}
	w.late[r] = late
}

// dueLocked returns the runs that must be reported, and notes that they were.
func (w *watch) dueLocked(due func(*lateness) bool) []lateness {
	var picked []lateness
	for _, late := range w.late {
		if len(picked) == mostReported {
			break
		}
		if due(late) {
			late.reported, late.reportAt = true, late.by+reportAgain
			picked = append(picked, *late)
		}
	}
	return picked
}

// overdue is by how much a run is.
func (w *watch) overdue(r *run) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if late := w.late[r]; late != nil {
		return late.by
	}
	return 0
}
