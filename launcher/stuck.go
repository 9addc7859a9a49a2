package launcher

import (
	"context"
	"time"
)

// watchRuns is the pass that looks over what runs, and whether the client is still there.
func (l *Launcher) watchRuns(context.Context) error {
	l.watchClient()
	l.tellStuck(l.watch.look(time.Now(), l.pool.Load()), false)
	return nil
}

// tellLeft tells of what a stop leaves behind. Call awaitTold before the process goes.
func (l *Launcher) tellLeft() {
	told, more := l.watch.left(time.Now(), l.pool.Load())
	l.tellStuck(told, true)
	if more > 0 {
		l.cfg.Log.Warn().Int("handlers", more).Msg("left behind: these do not return either, or have been told of as stuck")
	}
}

// tellStuck logs stuck runs, each with its own stack, and tells those who want to know. These have a
// goroutine of their own: neither a stop nor the next look waits for what is the user's.
func (l *Launcher) tellStuck(late []lateness, left bool) {
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
	l.tellLater("stuck handler", func() {
		for _, run := range stuck {
			for _, handler := range l.hooks.stuck {
				l.guard("stuck handler", func() { handler(run) })
			}
		}
	})
}
