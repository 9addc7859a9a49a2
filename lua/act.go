package lua

import (
	"strconv"

	"github.com/belayq/belay/driver"
)

var actScript = load("act")

// A Fate is where an operator sends a job.
type Fate string

// The fates.
const (
	FateQueue Fate = "queue" // to the back of a queue
	FateDead  Fate = "dead"  // to the dead set, as it is
	FateGone  Fate = "gone"
)

// A Source is the place that jobs are taken out of.
type Source struct {
	// Key is a queue's list, its list of suspects, or a sorted set.
	Key string
	// End is OrderOldest or OrderYoungest for a list: from which end the jobs are looked for, which costs as much as they are
	// away from it. Empty for a sorted set.
	End Order
}

// An Errand is jobs that share a fate. Queue is theirs if that is FateQueue. New counts only then.
type Errand struct {
	Fate  Fate
	Queue string
	Jobs  []Promotion
}

// Act moves jobs by an operator's word and answers the positions, from 0 and through all errands, of those that were not in
// source any more: nothing was written for them. The caller keeps within MostItems and MostBytes, names no queue twice, and
// sends nothing from the dead set to itself. Jobs that come to a queue come in the order given, the last one last in line.
func (k Keys) Act(source Source, errands []Errand) Ask[[]int] {
	keys := []string{source.Key, k.Dead(), k.Queues()}
	args := []string{"set"}
	if source.End != "" {
		args[0] = string(source.End)
	}
	for _, errand := range errands {
		number := 0
		if errand.Fate == FateQueue {
			keys = append(keys, k.Queue(errand.Queue))
			number = len(keys) - 3
		}
		args = append(args, string(errand.Fate), strconv.Itoa(number), errand.Queue, strconv.Itoa(len(errand.Jobs)))
		for _, job := range errand.Jobs {
			args = append(args, job.Old)
			if errand.Fate == FateQueue {
				args = append(args, job.New)
			}
		}
	}
	return Ask[[]int]{Call: driver.Call{Script: actScript, Keys: keys, Args: args}, read: positionsOf}
}
