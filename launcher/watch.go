package launcher

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/logbook"
)

const (
	// watchEvery is how often runs are checked. A check costs an atomic load for each processor.
	watchEvery = time.Second
	// minPatience and maxPatience bound for how long a run may be overdue before it is reported: less
	// would report every handler that takes a moment to clean up, and more would come too late for an
	// operator.
	minPatience = 5 * time.Second
	maxPatience = time.Minute
	// reportAgain is the time between two reports of the same run.
	reportAgain = 10 * time.Minute
	// maxReported is the maximum number of runs that one look reports; the others wait for the next look. If
	// all handlers hang in the same call, a log of a thousand stacks does not help.
	maxReported = 10
)

// A StuckRun is a run whose context has ended and whose handler does not return. It keeps its processor
// until it does: nothing can end a goroutine from outside.
type StuckRun struct {
	Run
	// Cause is why its context ended: ErrTimeout, ErrCancelled, ErrShutdown or fetch.ErrOwnershipLost. Compare
	// it with errors.Is.
	Cause error
	// Stack is the stack of the handler's goroutine, the innermost call first, at most some KiB of text; empty
	// if it was not found.
	Stack string
	// Left reports whether the process stops without it: its job has gone back to its queue, or was recovered
	// before.
	Left bool
}

// lateness is the state of a run whose context has ended. Only the watch's goroutine changes it.
type lateness struct {
	cause    error
	by       atomic.Int64  // how long ago the context was seen to have ended
	reportAt time.Duration // the run is reported when by has reached this
	reported bool
}

// overdue returns how long ago the run's context was seen to have ended; 0 if it has not.
func (r *run) overdue() time.Duration {
	if late := r.late.Load(); late != nil {
		return time.Duration(late.by.Load())
	}
	return 0
}

// over reports whether the run has ended.
func (r *run) over() bool { return r.processor.current.Load() != r }

// lateNow returns the lateness of a run whose context has ended by now; nil if it has not.
func (r *run) lateNow(now time.Time) *lateness {
	switch session := r.taken.Session.Context; {
	case session.Err() != nil:
		return &lateness{cause: context.Cause(session), reportAt: minPatience}
	case r.cancelled():
		return &lateness{cause: context.Cause(r.shared), reportAt: minPatience}
	case r.timeout > 0 && now.Sub(r.startedAt) >= r.timeout:
		return &lateness{cause: r.tooLate, reportAt: min(max(r.timeout, minPatience), maxPatience)}
	}
	return nil
}

// A watch finds overdue runs. Time counts for a run only while the watch looks: a process that was frozen
// gives its handlers the same patience afterwards as any other.
type watch struct {
	lookedAt     time.Time
	closedLogged bool // that the client is closed
}

// look returns the runs that must be reported now. If the process leaves, these are the ones that were never
// reported, and more is how many others it leaves behind.
func (w *watch) look(now time.Time, pool *pool, leaving bool) (report []*run, more int) {
	passed := min(now.Sub(w.lookedAt), 2*watchEvery)
	w.lookedAt = now
	for _, p := range pool.processors {
		r := p.current.Load()
		if r == nil {
			continue
		}
		late := r.late.Load()
		if late != nil {
			late.by.Add(int64(passed))
		} else if late = r.lateNow(now); late == nil {
			continue
		}
		r.late.Store(late)
		if leaving && r.overdue() < fetch.Moment {
			late.by.Store(int64(fetch.Moment)) // the time that a cancelled handler gets
		}
		switch due := r.overdue() >= late.reportAt || leaving && !late.reported; {
		case due && len(report) < maxReported:
			late.reported, late.reportAt = true, r.overdue()+reportAgain
			report = append(report, r)
		case leaving:
			more++
		}
	}
	return report, more
}

// watchRuns is the pass that checks running jobs, and whether the client is still open.
func (l *Launcher) watchRuns(ctx context.Context) error {
	l.saveTracked(ctx)
	l.watchClient()
	late, _ := l.watch.look(time.Now(), l.pool.Load(), false)
	l.reportStuck(late, false)
	return nil
}

// watchClient logs, once, that the client was closed while the process runs.
func (l *Launcher) watchClient() {
	if l.isClosed() && !l.watch.closedLogged {
		l.watch.closedLogged = true
		l.cfg.Log.Error("client closed while its server runs; not ready")
	}
}

// reportLeft reports the runs that a stop leaves behind. Call awaitCalls before the process ends.
func (l *Launcher) reportLeft() {
	late, more := l.watch.look(time.Now(), l.pool.Load(), true)
	l.reportStuck(late, true)
	if more > 0 {
		l.cfg.Log.Warn("abandoned more runs at the stop", "handlers", more)
	}
}

// reportStuck logs stuck runs, each with its own stack, and calls the hooks in a goroutine of their own:
// neither a stop nor the next look waits for code of the program.
func (l *Launcher) reportStuck(late []*run, left bool) {
	if len(late) == 0 {
		return
	}
	message := "stuck: handler did not return after its context ended"
	if left {
		message = "abandoned run: handler did not return before the stop"
	}
	stacks := allStacks()
	var stuck []StuckRun
	for _, r := range late {
		if r.over() { // it ended just now, and the stack may be another run's
			continue
		}
		s := StuckRun{Run: r.describe(), Cause: r.late.Load().cause, Left: left}
		s.Stack = stackOf(stacks, s.Goroutine)
		var fields []any
		if s.Cause != nil {
			fields = append(fields, "cause", s.Cause)
		}
		fields = append(append(fields, r.names()...), logbook.Millis("overdue_ms", s.Overdue), logbook.Millis("for_ms", time.Since(s.StartedAt)))
		l.cfg.Log.Warn(message, append(fields, "goroutine", s.Goroutine, "stack", s.Stack)...)
		stuck = append(stuck, s)
	}
	if len(l.hooks.stuck) == 0 {
		return
	}
	l.callLater("stuck handler", func() {
		for _, run := range stuck {
			for _, handler := range l.hooks.stuck {
				l.guard("stuck handler", func() { handler(run) })
			}
		}
	})
}
