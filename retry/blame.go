package retry

// DefaultMostInterruptions is how many crashes a job may be in hand for, unless a worker is told otherwise;
// LeastMostInterruptions is the least a worker may be told.
const (
	DefaultMostInterruptions = 3
	LeastMostInterruptions   = 2
)

// Blame judges jobs by the crashes of processes that had them in hand. A crash says little of any one of the
// jobs it hit, so it costs no retry and condemns nobody: a job that was in hand one crash short of the limit
// becomes a suspect, which runs alone from then on. Only a crash of a process that had nothing else in hand
// proves anything.
type Blame struct {
	// Most is how many crashes a job may be in hand for. DefaultMostInterruptions.
	Most int
}

func (b Blame) most() int {
	if b.Most == 0 {
		return DefaultMostInterruptions
	}
	return b.Most
}

// Suspect says whether a job that was in hand in so many crashes runs alone.
func (b Blame) Suspect(interruptions int) bool { return interruptions >= b.most()-1 }

// Killer says whether a job is buried that was in hand in so many crashes, the last time alone.
func (b Blame) Killer(interruptions int) bool { return interruptions >= b.most() }
