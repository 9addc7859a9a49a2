package retry

// DefaultMostInterruptions is the default of how many crashes of its processes a job may be running in.
// LeastMostInterruptions is the least that can be configured.
const (
	DefaultMostInterruptions = 3
	LeastMostInterruptions   = 2
)

// A CrashPolicy decides what becomes of jobs that were running when their process crashed. A crash says
// little about each of the jobs that ran, so it costs no retry. A job that has been running in one crash less
// than allowed is quarantined: it runs alone from then on. Only the crash of a process that ran nothing else
// shows that the job is the cause.
type CrashPolicy struct {
	// Most is how many crashes a job may be running in. DefaultMostInterruptions.
	Most int
}

func (p CrashPolicy) most() int {
	if p.Most == 0 {
		return DefaultMostInterruptions
	}
	return p.Most
}

// Quarantines reports whether a job that was running in so many crashes runs alone.
func (p CrashPolicy) Quarantines(interruptions int) bool { return interruptions >= p.most()-1 }

// Kills reports whether a job dies that was running in so many crashes, the last time alone.
func (p CrashPolicy) Kills(interruptions int) bool { return interruptions >= p.most() }
