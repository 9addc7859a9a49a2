package launcher

import (
	"context"
	"time"
)

// watchRuns is the pass that checks running jobs, and whether the client is still open.
func (l *Launcher) watchRuns(context.Context) error {
	l.watchClient()
	l.reportStuck(l.watch.look(time.Now(), l.pool.Load()), false)
	return nil
}

// reportLeft reports the runs that a stop leaves behind. Call awaitCalls before the process ends.
func (l *Launcher) reportLeft() {
	report, more := l.watch.left(time.Now(), l.pool.Load())
	l.reportStuck(report, true)
	if more > 0 {
		l.cfg.Log.Warn().Int("handlers", more).Msg("left behind: more handlers did not return, or were reported as stuck before")
	}
}

// reportStuck logs stuck runs, each with its own stack, and calls the hooks in a goroutine of their own:
// neither a stop nor the next look waits for code of the program.
func (l *Launcher) reportStuck(late []lateness, left bool) {
	if len(late) == 0 {
		return
	}
	message := "stuck: the handler does not return though its context has ended; it keeps its processor"
	if left {
		message = "left behind: the handler does not return though its context has ended; its job is not ours any more"
	}
	stacks := allStacks()
	var stuck []StuckRun
	for i := range late {
		if late[i].over() { // in this very moment, and the stack may be another run's
			continue
		}
		s := StuckRun{Run: late[i].processor.describe(late[i].run, late[i].by), Cause: late[i].cause, Left: left}
		s.Stack = stackOf(stacks, s.Goroutine)
		l.cfg.Log.Warn().AnErr("cause", s.Cause).Str("jid", s.Job.JID()).Str("class", s.Job.DisplayClass()).Str("queue", s.Queue).
			Dur("overdue_ms", s.Overdue).Dur("for_ms", time.Since(s.StartedAt)).Int64("goroutine", s.Goroutine).
			Str("stack", s.Stack).Msg(message)
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
