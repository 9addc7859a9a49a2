package lua

import (
	"cmp"
	"strconv"
	"time"
)

var recoverScript = load("recover")

// Home is where an orphan goes.
type Home string

// The homes of an orphan.
const (
	HomeQueue      Home = "queue"      // the head of its queue
	HomeQuarantine Home = "quarantine" // the head of its queue's quarantine
	HomeDead       Home = "dead"       // the dead set
)

// An Orphan is one entry of a dead process' list, with its new bytes.
type Orphan struct {
	// Old are its bytes in the list, New those in its next home.
	Old, New string
	// Home is HomeQueue when it is empty.
	Home Home
	// Lock is the job's lock, if it has one. It is renewed if the job continues, and freed if it ends.
	Lock *Lock
}

// Orphans are entries of one list, in its own order, newest first: of the working list of Queue or, with
// Alone, of the list of its quarantined job, which came from Queue.
type Orphans struct {
	Queue       string
	Quarantined bool
	Entries     []Orphan
}

// Recovered is the answer to a recovery.
type Recovered struct {
	// State is StateDead when the process was or has now been declared dead; StateAlive or StateUnknown when
	// it was not, and then nothing was written.
	State State
	// Left is how many jobs are still in its lists, Moved how many this call moved.
	Left, Moved int
}

// Recover declares identity dead, if it has lapsed, and moves these entries of its lists. queues are all its
// queues; with no entries at all it is the verdict that there is nothing there. Each entry that it moves to
// the dead set counts as a failed run of the UTC day that today, by Redis' clock, lies in. The caller keeps
// within MostItems and MostBytes.
func (k Keys) Recover(identity string, queues []string, orphans []Orphans, today time.Time) Ask[Recovered] {
	keys := []string{
		k.Alive(), k.Tombstones(), k.Record(identity), k.Dead(),
		k.Processes(), k.Process(identity), k.Work(identity), k.Workers(identity), k.QuarantineRun(identity),
		k.Unique(), k.Queues(), k.Processed(), k.Failed(), k.ProcessedOn(today), k.FailedOn(today),
	}
	triples := make(map[string]int, len(queues))
	for i, queue := range queues {
		triples[queue] = i + 1
		keys = append(keys, k.Working(queue, identity), k.Queue(queue), k.Quarantine(queue))
	}
	args := []string{identity, strconv.Itoa(len(queues)), daySeconds}
	for _, list := range orphans {
		hand := "working"
		if list.Quarantined {
			hand = "quarantined"
		}
		for first := 0; first < len(list.Entries); {
			home := list.Entries[first].Home
			locked, again := list.Entries[first].Lock.locking()
			last := first + 1
			for ; last < len(list.Entries) && list.Entries[last].Home == home; last++ {
				if l, a := list.Entries[last].Lock.locking(); l != locked || a != again {
					break
				}
			}
			orphans := list.Entries[first:last]
			var locks string
			keys, locks = k.lockKeys(keys, len(orphans), func(i int) *Lock { return orphans[i].Lock })
			args = append(args, strconv.Itoa(triples[list.Queue]), hand, string(cmp.Or(home, HomeQueue)), locks, bit(again),
				strconv.Itoa(len(orphans)))
			for _, orphan := range orphans {
				args = append(args, orphan.Old, orphan.New)
				keys, args = k.lockArgs(keys, args, orphan.Lock)
			}
			first = last
		}
	}
	return asking(recoverScript, keys, args, readRecovered)
}

func readRecovered(value any) (answer Recovered, err error) {
	word, rest, err := partsOf(value)
	if err != nil {
		return answer, err
	}
	if word != "recovered" {
		answer.State = State(word)
		return answer, nil
	}
	numbers, err := numbersOf(rest)
	if err != nil || len(numbers) != 2 {
		return answer, errShape(value)
	}
	return Recovered{State: StateDead, Left: numbers[0], Moved: numbers[1]}, nil
}
