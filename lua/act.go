package lua

import (
	"iter"
	"strconv"
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
	// Key is a queue's list, its quarantine, or a sorted set.
	Key string
	// End is OrderOldest or OrderYoungest for a list: the end from which to search. Empty for a sorted set.
	End Order
	// Search is how many entries of a list to search for each job; 0 means all. Each entry of ordinary size
	// costs some seventy nanoseconds, and the search for a job that has gone reads them all.
	Search int
}

// An Errand has jobs with the same fate. Queue and New are used with FateQueue only.
//
// A job's Lock, if it has one and still owns it, is freed with the job or passes to the run in Again. A job
// that goes to a queue takes its lock, if it is free, for its Hold.
type Errand struct {
	Fate  Fate
	Queue string
	// Need keeps a job in its sorted set if another job holds its lock.
	Need bool
	// Quarantined moves jobs to the queue's quarantine list instead; they run alone.
	Quarantined bool
	Jobs        []Promotion
}

// Acted is the result of an Act. Positions count from 0 through all errands. All other jobs have moved.
type Acted struct {
	// Gone are jobs that were not found in the source; nothing was written for them.
	Gone []int
	// Held are jobs that did not move, because another job holds their lock.
	Held []Blocked
}

// A Blocked is a job that needs its lock and could not get it.
type Blocked struct {
	Position int
	// Holder is the jid of the job that holds the lock.
	Holder string
}

// Act moves jobs for an operator. The caller keeps within MostItems and MostBytes, and moves nothing from the
// dead set to the dead set. Jobs are added to a queue in the given order, so the last one runs last.
func (k Keys) Act(source Source, errands []Errand) Ask[Acted] {
	keys := []string{source.Key, k.Dead(), k.Queues(), k.Unique()}
	args := []string{"set", strconv.Itoa(source.Search)}
	if source.End != "" {
		args[0] = string(source.End)
	}
	for _, errand := range errands {
		list := 0
		if errand.Fate == FateQueue {
			to := k.Queue(errand.Queue)
			if errand.Quarantined {
				to = k.Quarantine(errand.Queue)
			}
			keys = append(keys, to)
			list = len(keys)
		}
		for jobs := range alikeLocked(errand.Jobs) {
			_, again := jobs[0].Lock.locking()
			var locks string
			keys, locks = k.lockKeys(keys, len(jobs), func(i int) *Lock { return jobs[i].Lock })
			args = append(args, string(errand.Fate), strconv.Itoa(list), errand.Queue, errand.locks(jobs[0].Lock), locks, bit(again),
				strconv.Itoa(len(jobs)))
			for _, job := range jobs {
				args = append(args, job.Old)
				if errand.Fate == FateQueue {
					args = append(args, job.New)
				}
				keys, args = k.lockArgs(keys, args, job.Lock)
			}
		}
	}
	return asking(actScript, keys, args, readAct)
}

// alikeLocked yields runs of jobs with locks, with locks and a possible rerun, and without locks, in their
// order.
func alikeLocked(jobs []Promotion) iter.Seq[[]Promotion] {
	return func(yield func([]Promotion) bool) {
		for len(jobs) > 0 {
			end := 1
			locked, again := jobs[0].Lock.locking()
			for ; end < len(jobs); end++ {
				if l, a := jobs[end].Lock.locking(); l != locked || a != again {
					break
				}
			}
			if !yield(jobs[:end]) {
				return
			}
			jobs = jobs[end:]
		}
	}
}

// locks returns what to do with the locks of jobs like one with this lock.
func (e Errand) locks(lock *Lock) string {
	switch {
	case lock == nil:
		return "none"
	case e.Fate != FateQueue:
		return "free"
	case e.Need:
		return "need"
	}
	return "take"
}

func readAct(value any) (acted Acted, err error) {
	parts, ok := value.([]any)
	if !ok || len(parts) != 2 {
		return acted, errShape(value)
	}
	gone, err := positionsOf(parts[0])
	if err != nil {
		return acted, err
	}
	if len(gone) > 0 {
		acted.Gone = gone
	}
	held, ok := parts[1].([]any)
	if !ok || len(held)%2 != 0 {
		return acted, errShape(parts[1])
	}
	for ; len(held) > 0; held = held[2:] {
		position, err := numberOf(held[0])
		if err != nil {
			return acted, err
		}
		holder, ok := held[1].(string)
		if !ok {
			return acted, errShape(held[1])
		}
		acted.Held = append(acted.Held, Blocked{position - 1, holder})
	}
	return acted, nil
}
