package launcher

import (
	"runtime"
	"time"
)

// mostDump bounds the text of all goroutines' stacks.
const mostDump = 1 << 20

// Dump logs what runs and where every goroutine stands, as Sidekiq does at TTIN.
func (l *Launcher) Dump() {
	for _, r := range l.Running() {
		l.cfg.Log.Info().Str("jid", r.Job.JID()).Str("class", r.Job.DisplayClass()).Str("queue", r.Queue).
			Int64("goroutine", r.Goroutine).Dur("for_ms", time.Since(r.StartedAt)).Dur("overdue_ms", r.Overdue).Msg("running")
	}
	stacks := make([]byte, mostDump)
	stacks = stacks[:runtime.Stack(stacks, true)]
	l.cfg.Log.Info().Str("goroutines", string(stacks)).Msg("dump")
}
