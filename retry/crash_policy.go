package retry

// DefaultMostInterruptions is the default number of crashes after which a job is moved to the dead set,
// LeastMostInterruptions the least that can be configured.
const (
	DefaultMostInterruptions = 3
	LeastMostInterruptions   = 2
)

// A CrashPolicy judges jobs by the crashes of processes that were running them. A crash does not show which
// job caused it, so it costs no retry. A job that was running in one crash fewer than the limit is
// quarantined and runs alone from then on. Only a crash with no other job running proves that the job caused
// it.
type CrashPolicy struct {
	// Most is the number of crashes after which a job is moved to the dead set. 0 means
	// DefaultMostInterruptions.
	Most int
}

func (p CrashPolicy) most() int {
	if p.Most == 0 {
		return DefaultMostInterruptions
	}
	return p.Most
}

// Quarantines reports whether a job that was running in so many crashes must run alone.
func (p CrashPolicy) Quarantines(interruptions int) bool { return interruptions >= p.most()-1 }

// Kills reports whether a job that was running in so many crashes, the last time alone, is moved to the dead
// set.
func (p CrashPolicy) Kills(interruptions int) bool { return interruptions >= p.most() }
