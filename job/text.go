package job

import "log/slog"

// String returns the class, the jid and the queue, such as "WelcomeEmail 217d2cffc30f4a168b3a76d9 in queue
// mail". It shows no arguments, because they may be secret; Raw returns the whole payload.
func (j *Job) String() string {
	if j == nil {
		return "<nil>"
	}
	return j.DisplayClass() + " " + j.JID() + " in queue " + j.QueueOrDefault()
}

// LogValue makes log/slog log the class, the jid and the queue, and no arguments.
func (j *Job) LogValue() slog.Value {
	if j == nil {
		return slog.Value{}
	}
	return slog.GroupValue(slog.String("class", j.DisplayClass()), slog.String("jid", j.JID()), slog.String("queue", j.QueueOrDefault()))
}
