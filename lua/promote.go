package lua

import (
	"strconv"
	"time"
)

var promoteScript = load("promote")

// A Promotion is one due job: its bytes in the set, and its new bytes. Its Lock, if set, is taken if it is
// free. The rest of Owned is for an Act.
type Promotion struct {
	Old, New string
	Owned
}

// Promotions are due jobs that go to one queue; to its quarantine or to the dead set if that is set.
type Promotions struct {
	Queue            string
	Quarantine, Dead bool
	Jobs             []Promotion
}

// Promote moves due jobs of a sorted set to the backs of their queues, and returns how many. Each one that it
// moves to the dead set counts as a failed run of the UTC day of today, by Redis' clock. The caller keeps
// within MaxItems and MaxBytes, and names no home twice.
func (k Keys) Promote(set string, promotions []Promotions, today time.Time) Ask[int] {
	keys := []string{set, k.Dead(), k.Queues(), k.Unique(), k.Processed(), k.Failed(), k.ProcessedOn(today), k.FailedOn(today)}
	args := append([]string{daySeconds}, k.deadLimits()...)
	for _, group := range promotions {
		number := 0
		if !group.Dead {
			list := k.Queue(group.Queue)
			if group.Quarantine {
				list = k.Quarantine(group.Queue)
			}
			keys = append(keys, list)
			number = len(keys)
		}
		for locked, jobs := range alike(group.Jobs, func(p *Promotion) bool { return p.Lock != nil }) {
			args = append(args, strconv.Itoa(number), group.Queue, bit(locked), strconv.Itoa(len(jobs)))
			for _, promotion := range jobs {
				args = append(args, promotion.Old, promotion.New)
				if locked {
					keys = append(keys, k.Lock(promotion.Lock.Digest))
					args = append(args, strconv.Itoa(len(keys)), promotion.Lock.Digest, promotion.Lock.Owner, millis(promotion.Lock.Hold))
				}
			}
		}
	}
	return asking(promoteScript, keys, args, readNumber)
}
