package lua

import (
	"cmp"
	"strconv"
)

var actScript = load("act")

// A Destination is where an operator sends a job.
type Destination string

// The destinations.
const (
	DestinationQueue Destination = "queue" // the back of a queue
	DestinationDead  Destination = "dead"  // the dead set, as it is
	DestinationNone  Destination = "gone"  // it is deleted
	DestinationTime  Destination = "later" // another time in its set
	DestinationSame  Destination = "here"  // the same place of its set, with new bytes
)

// A Source is the place from which jobs are moved.
type Source struct {
	// Key is a queue's list, its quarantine, the waiting list of a gate, or a sorted set.
	Key string
	// List is true for a list, and Waiting for the waiting list of a gate, which is one too. The Old of its
	// jobs are its entries (see Waiter), and each job has Owned.Waits.
	List, Waiting bool
	// Orderly is how far from the oldest end of a list a job leaves without a trace: Redis compares all entries
	// before it, which costs about a hundred nanoseconds for each of ordinary size. The place of a job farther
	// away is taken by the youngest job of the list.
	Orderly int
	// Near is the index of the first job when it was read, counted from the oldest of a list. The other jobs
	// follow in their order, and were read at most MaxItems places behind it.
	Near int
}

// Around is how many places a job may have moved within its list since it was read, and is still found:
// workers took jobs before it or brought some back, or up to MaxItems jobs of the same page have left.
const Around = 1024 + MaxItems

// An ActGroup has jobs with the same destination. Queue is used with DestinationQueue only. Jobs have a New
// with DestinationQueue and DestinationSame, and no Lock with DestinationSame.
//
// A job's Lock, if it has one and still owns it, is freed with the job or passes to its Next. A job
// that goes to a queue takes its lock, if it is free, for its Hold. A job that goes to another time prolongs
// its own lock to its Hold. A job that leaves its queue loses its right to start at its gate, if it is
// admitted.
type ActGroup struct {
	Destination Destination
	Queue       string
	// Score is when the first job runs, with DestinationTime. Each of the others runs a microsecond after the
	// one before it.
	Score string
	// Need keeps a job in its sorted set if another job holds its lock.
	Need bool
	// Quarantined moves jobs to the queue's quarantine list instead; they run alone.
	Quarantined bool
	// Unmarked, if set, is the value of job.FieldUnmarked in the new bytes, or 0 if they have none: there is no
	// mark that would cancel a job with these bytes. If there is one, no job moves. All groups of an Act have
	// the same.
	Unmarked *int64
	Jobs     []Promotion
}

// Acted is the result of an Act. Positions count from 0 through all groups. All other jobs were moved.
type Acted struct {
	// Gone are jobs that were not found in a set, or in a list around the place where they were read; nothing
	// was written for them.
	Gone []int
	// Held are jobs that did not move, because another job holds their lock.
	Held []Blocked
	// Replaced are jobs that moved, and whose place in the list the youngest job has taken.
	Replaced []int
	// Marked, if not 0, is the score of a mark that is newer than the groups know. No job has moved.
	Marked int64
}

// A Blocked is a job that was not moved because another job holds its lock.
type Blocked struct {
	Position int
	// Holder is the jid of the job that holds the lock.
	Holder string
}

// Act moves jobs for an operator. The caller keeps within MaxItems and MaxBytes, and moves nothing from the
// dead set to the dead set. Jobs are added to a queue in the given order, so the last one runs last.
func (k Keys) Act(source Source, groups []ActGroup) Ask[Acted] {
	keys := []string{source.Key, k.Dead(), k.Queues(), k.Cancelled()}
	args := []string{"set", "", strconv.Itoa(source.Near), strconv.Itoa(source.Orderly), strconv.Itoa(Around), strconv.Itoa(MaxBytes)}
	switch {
	case source.Waiting:
		args[0] = "waiting"
	case source.List:
		args[0] = "list"
	}
	args = append(args, k.deadLimits()...)
	for _, group := range groups {
		if group.Unmarked != nil {
			args[1] = strconv.FormatInt(*group.Unmarked, 10)
		}
		list := 0
		if group.Destination == DestinationQueue {
			to := k.Queue(group.Queue)
			if group.Quarantined {
				to = k.Quarantine(group.Queue)
			}
			keys = append(keys, to)
			list = len(keys)
		}
		for n := range group.Jobs {
			if p := &group.Jobs[n]; source.List && !source.Waiting {
				p.slot = &slot{as: slotRevoke, sum: sumOf(p.Old)}
			}
		}
		for kind, jobs := range alike(group.Jobs, func(p *Promotion) ownedKind { return p.kind(group.locks()) }) {
			args = append(args, string(group.Destination), strconv.Itoa(list), cmp.Or(group.Score, group.Queue))
			keys, args = appendOwned(k, keys, args, kind, jobs, func(p *Promotion) *Owned { return &p.Owned }, func(args []string, p *Promotion) []string {
				if args = append(args, p.Old); group.Destination == DestinationQueue || group.Destination == DestinationSame {
					args = append(args, p.New)
				}
				return args
			})
		}
	}
	return asking(actScript, keys, args, readAct)
}

// locks returns what to do with the jobs' locks.
func (g ActGroup) locks() lockFate {
	switch {
	case g.Destination == DestinationTime:
		return lockHold
	case g.Destination != DestinationQueue:
		return lockFree
	case g.Need:
		return lockNeed
	}
	return lockTake
}

func readAct(r reader) (acted Acted, err error) {
	acted.Gone = r.positions()
	held := r.list()
	for held.more() {
		acted.Held = append(acted.Held, Blocked{held.position(), held.text()})
	}
	acted.Replaced = r.positions()
	acted.Marked, _ = strconv.ParseInt(r.text(), 10, 64) // empty is 0
	return acted, cmp.Or(held.end(), r.end())
}
