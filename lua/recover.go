package lua

import (
	"strconv"

	"github.com/belayq/belay/driver"
)

var recoverScript = load("recover")

// An Orphan is one entry of a dead process' working list and what becomes of it.
type Orphan struct {
	// Old are its bytes as they lie in the working list, New as they are to lie in their next home.
	Old, New string
	// Bury sends it to the dead set instead of the head of its queue: it cannot be read.
	Bury bool
}

// Orphans are entries of one working list, in its own order: newest first.
type Orphans struct {
	Queue   string
	Entries []Orphan
}

// Recovered is the answer to a recovery.
type Recovered struct {
	// State is StateDead when the process was or has now been declared dead; StateAlive or StateUnknown when it was
	// not, and then nothing was written.
	State State
	// Left is how many jobs still lie in all its lists, Moved how many this call moved.
	Left, Moved int
}

// Recover declares identity dead, if it has lapsed, and moves these entries of its lists. queues are all its queues; with
// no entries at all it is the verdict that there is nothing there. The caller keeps within MostItems and MostBytes.
func (k Keys) Recover(identity string, queues []string, orphans []Orphans) Ask[Recovered] {
	keys := []string{
		k.Alive(), k.Tombstones(), k.Record(identity), k.Dead(),
		k.Processes(), k.Process(identity), k.Work(identity), k.Workers(identity),
	}
	pairs := make(map[string]int, len(queues))
	for i, queue := range queues {
		pairs[queue] = i + 1
		keys = append(keys, k.Working(queue, identity), k.Queue(queue))
	}
	args := []string{identity}
	for _, list := range orphans {
		for first := 0; first < len(list.Entries); {
			bury := list.Entries[first].Bury
			last := first + 1
			for last < len(list.Entries) && list.Entries[last].Bury == bury {
				last++
			}
			home := "queue"
			if bury {
				home = "dead"
			}
			args = append(args, strconv.Itoa(pairs[list.Queue]), home, strconv.Itoa(last-first))
			for _, orphan := range list.Entries[first:last] {
				args = append(args, orphan.Old, orphan.New)
			}
			first = last
		}
	}
	return Ask[Recovered]{Call: driver.Call{Script: recoverScript, Keys: keys, Args: args}, read: readRecovered}
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
