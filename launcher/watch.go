package launcher

import (
	"context"
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
	CurrentRun
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

// A lateness says why the context of a run has ended, and when the run is reported.
type lateness struct {
	cause    error
	reportAt time.Duration // the run is reported when it has been overdue for this long
	reported bool
}

// overdue returns how long ago the run's context was seen to have ended; 0 if it has not.
func (r *run) overdue() time.Duration { return time.Duration(r.overdueBy.Load()) }

// lateNow returns the lateness of a run whose context has ended by now; nil if it has not.
func (r *run) lateNow(now time.Time) *lateness {
	switch cause := context.Cause(r.Context); {
	case cause != nil:
		return &lateness{cause: cause, reportAt: minPatience}
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
		if r.late != nil {
			r.overdueBy.Add(int64(passed))
		} else if r.late = r.lateNow(now); r.late == nil {
			continue
		}
		if leaving && r.overdue() < fetch.Moment {
			r.overdueBy.Store(int64(fetch.Moment)) // the time that a cancelled handler gets
		}
		switch due := r.overdue() >= r.late.reportAt || leaving && !r.late.reported; {
		case due && len(report) < maxReported:
			r.late.reported, r.late.reportAt = true, r.overdue()+reportAgain
			report = append(report, r)
		case leaving:
			more++
		}
	}
	return report, more
}

// watchRuns checks the running jobs, and whether the client is still open, until ctx ends.
func (l *Launcher) watchRuns(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		l.saveTracked(ctx)
		l.watchClient()
		late, _ := l.watch.look(time.Now(), l.pool.Load(), false)
		l.reportStuck(late, false)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
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
	stacks := allStacks(maxStacks)
	var stuck []StuckRun
	for _, r := range late {
		if r.over() { // it ended just now, and the stack may be another run's
			continue
		}
		s := StuckRun{CurrentRun: r.describe(), Cause: r.late.cause, Left: left}
		s.Stack = stackOf(stacks, s.Goroutine)
		fields := append([]any{"cause", s.Cause}, r.names()...)
		fields = append(fields, logbook.Millis("overdue_ms", s.Overdue), logbook.Millis("for_ms", time.Since(s.StartedAt)))
		l.cfg.Log.Warn(message, append(fields, "goroutine", s.Goroutine, "stack", s.Stack)...)
		stuck = append(stuck, s)
	}
	var calls []call
	for _, run := range stuck {
		for _, handler := range l.hooks.stuck {
			calls = append(calls, call{"stuck handler", func() { handler(run) }, run.Job})
		}
	}
	l.callLater(calls)
}
