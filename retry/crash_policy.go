package retry

import "cmp"

// DefaultMaxInterruptions is the default number of crashes after which a job is moved to the dead set.
// MinInterruptions is the smallest number that can be configured.
const (
	DefaultMaxInterruptions = 3
	MinInterruptions        = 2
)

// A CrashPolicy decides what happens to the jobs that were running when their process crashed. A crash does
// not show which of them caused it, so it costs no retry. After one crash less than allowed, a job is
// quarantined: it runs alone from then on. Only the crash of a process that runs nothing else shows that the
// job is the cause.
type CrashPolicy struct {
	// Most is the number of crashes after which a job dies. Default: DefaultMaxInterruptions.
	Most int
}

func (p CrashPolicy) limit() int { return cmp.Or(p.Most, DefaultMaxInterruptions) }

// Quarantines reports whether a job that was running in this many crashes is quarantined.
func (p CrashPolicy) Quarantines(interruptions int) bool { return interruptions >= p.limit()-1 }

// Kills reports whether a job dies that was running in this many crashes, and was running alone in the last
// one.
func (p CrashPolicy) Kills(interruptions int) bool { return interruptions >= p.limit() }
