package lua

import (
	"cmp"
	"strconv"
)

var actScript = load("act")

// A Fate is the destination that an operator chooses for a job.
type Fate string

// The fates.
const (
	FateQueue Fate = "queue" // to the back of a queue
	FateDead  Fate = "dead"  // to the dead set, as it is
	FateGone  Fate = "gone"
	FateLater Fate = "later" // to another time in its set
	FateHere  Fate = "here"  // new bytes, in the same place of its set
)

// A Source is the place from which jobs are moved.
type Source struct {
	// Key is a queue's list, its quarantine, or a sorted set.
	Key string
	// End is OrderOldest or OrderYoungest for a list: the end from which to search. With OrderAt the youngest
	// job of the list takes the place of the one that leaves, because Redis has no fast way to take an entry
	// out of the middle. Empty for a sorted set.
	End Order
	// Search is how many entries of a list to search for each job; 0 means all. Each entry of ordinary size
	// costs about a hundred nanoseconds, and the search for a job that has gone reads them all.
	//
	// With OrderAt it is the index of the only job, counted from the oldest.
	Search int
}

// An Errand has jobs with the same fate. Queue is used with FateQueue only. Jobs have a New with FateQueue and
// FateHere, and no Lock with FateHere.
//
// A job's Lock, if it has one and still owns it, is freed with the job or passes to the run in Again. A job
// that goes to a queue takes its lock, if it is free, for its Hold. A job that goes to another time prolongs
// its own lock to its Hold.
type Errand struct {
	Fate  Fate
	Queue string
	// Score is when the job runs, with FateLater.
	Score string
	// Need keeps a job in its sorted set if another job holds its lock.
	Need bool
	// Quarantined moves jobs to the queue's quarantine list instead; they run alone.
	Quarantined bool
	Jobs        []Promotion
}

// Acted is the result of an Act. Positions count from 0 through all errands. All other jobs were moved.
type Acted struct {
	// Gone are jobs that were not found in the source; nothing was written for them.
	Gone []int
	// Held are jobs that did not move, because another job holds their lock.
	Held []Blocked
}

// A Blocked is a job that was not moved because another job holds its lock.
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
		for _, jobs := range alike(errand.Jobs, func(p *Promotion) ownedKind { return p.owned().kind() }) {
			args = append(args, string(errand.Fate), strconv.Itoa(list), cmp.Or(errand.Score, errand.Queue), errand.locks(jobs[0].Lock))
			keys, args = appendOwned(k, keys, args, jobs, (*Promotion).owned, func(args []string, p *Promotion) []string {
				if args = append(args, p.Old); errand.Fate == FateQueue || errand.Fate == FateHere {
					args = append(args, p.New)
				}
				return args
			})
		}
	}
	return asking(actScript, keys, args, readAct)
}

func (p *Promotion) owned() owned { return owned{p.Lock, p.State} }

// locks returns what to do with the locks of jobs like one with this lock.
func (e Errand) locks(lock *Lock) string {
	switch {
	case lock == nil:
		return "none"
	case e.Fate == FateLater:
		return "hold"
	case e.Fate != FateQueue:
		return "free"
	case e.Need:
		return "need"
	}
	return "take"
}

func readAct(r reader) (acted Acted, err error) {
	acted.Gone = r.positions()
	held := r.list()
	for held.more() {
		acted.Held = append(acted.Held, Blocked{held.position(), held.text()})
	}
	return acted, cmp.Or(held.end(), r.end())
}
