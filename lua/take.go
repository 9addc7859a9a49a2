package lua

import "strconv"

var takeScript = load("take")

// Why is the reason why a take returned no more jobs.
type Why string

// The reasons of a take.
const (
	WhyEnough     Why = "enough"     // as many as were asked for
	WhyBytes      Why = "bytes"      // the page is full: ask again
	WhyEmpty      Why = "empty"      // nothing more waits in any queue that is not paused
	WhyFenced     Why = "fenced"     // the process is not alive
	WhyQuarantine Why = "quarantine" // the asker runs a quarantined job: nothing is started beside it
)

// Taken is what a take answered.
type Taken struct {
	Why Why
	// Paused and Broken are positions (from 0) of queues that are paused, or whose keys have a wrong type.
	// Jobs of other queues are taken all the same.
	Paused, Broken []int
	// Large were taken too, but are too large for the reply: they stay in the working lists of their queues
	// until KillLarge moves them. At is the position of the queue, from 0.
	Large []Large
	// Jobs are the bytes taken, by position of their queue.
	Jobs []TakenJobs
}

// TakenJobs are the jobs of one queue, oldest first.
type TakenJobs struct {
	Queue int
	Bytes []string
}

// Take moves up to most jobs from the queues, in this order, into the working lists of identity: at most page
// bytes, which the last job may exceed by its own size. For entries larger than largest bytes it returns only
// what KillLarge needs.
func (k Keys) Take(identity string, queues []string, most, page, largest int) Ask[Taken] {
	keys := make([]string, 0, 3+2*len(queues))
	keys = append(keys, k.Alive(), k.Paused(), k.QuarantineRun(identity))
	args := make([]string, 0, 4+len(queues))
	args = append(args, identity, strconv.Itoa(min(most, MostItems)), strconv.Itoa(min(page, MostBytes)), strconv.Itoa(largest))
	for _, queue := range queues {
		keys = append(keys, k.Queue(queue), k.Working(queue, identity))
		args = append(args, queue)
	}
	return asking(takeScript, keys, args, readTaken)
}

func readTaken(value any) (taken Taken, err error) {
	word, rest, err := partsOf(value)
	if err != nil || len(rest) < 3 {
		return taken, errShape(value)
	}
	taken.Why = Why(word)
	if taken.Paused, err = positionsOf(rest[0]); err != nil {
		return taken, err
	}
	if taken.Broken, err = positionsOf(rest[1]); err != nil {
		return taken, err
	}
	if taken.Large, err = largeOf(rest[2]); err != nil {
		return taken, err
	}
	for i := range taken.Large {
		taken.Large[i].At--
	}
	for _, part := range rest[3:] {
		group, ok := part.([]any)
		if !ok || len(group) < 2 {
			return taken, errShape(part)
		}
		position, ok := group[0].(int64)
		if !ok {
			return taken, errShape(group[0])
		}
		jobs, err := textsOf(group[1:])
		if err != nil {
			return taken, err
		}
		taken.Jobs = append(taken.Jobs, TakenJobs{Queue: int(position) - 1, Bytes: jobs})
	}
	return taken, nil
}

// positionsOf reads an array of Lua positions, which count from 1.
func positionsOf(value any) ([]int, error) {
	positions, err := numbersOf(value)
	for i := range positions {
		positions[i]--
	}
	return positions, err
}
