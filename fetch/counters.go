package fetch

// Lost returns how many jobs were recovered from this process while it had them: their results were dropped.
// It may be called from any goroutine.
func (l *Loop) Lost() uint64 { return l.lost.Load() }
