package lua

import (
	"strconv"

	"github.com/belayq/belay/driver"
)

var takeScript = load("take")

// Why is the reason why a take returned no more jobs.
type Why string

// The reasons of a take.
const (
	WhyEnough     Why = "enough"     // as many as were asked for
	WhyBytes      Why = "bytes"      // the page is full: ask again
	WhyEmpty      Why = "empty"      // nothing more waits in any queue that is not paused
	WhyFenced     Why = "fenced"     // the process is not alive
	WhyQuarantine Why = "quarantine" // the process runs a quarantined job: nothing is started beside it
)

// Taken is the reply to a take.
type Taken struct {
	Why Why
	// Paused are positions (from 0) of queues that are paused. Broken has, by position, the error of each queue
	// whose jobs Redis refuses to move: a key of a wrong type, or a missing permission. Jobs of other queues
	// are taken all the same.
	Paused []int
	Broken map[int]error
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

// Take moves up to maxJobs jobs from the queues, in this order, into the working lists of identity: at most
// page bytes, which the last job may exceed by its own size. For entries larger than largest bytes it returns
// only what KillLarge needs.
func (k Keys) Take(identity string, queues []string, maxJobs, page, largest int) Ask[Taken] {
	keys := make([]string, 0, 3+2*len(queues))
	keys = append(keys, k.Alive(), k.Paused(), k.QuarantineRun(identity))
	args := make([]string, 0, 4+len(queues))
	args = append(args, identity, strconv.Itoa(min(maxJobs, MaxItems)), strconv.Itoa(min(page, MaxBytes)), strconv.Itoa(largest))
	for _, queue := range queues {
		keys = append(keys, k.Queue(queue), k.Working(queue, identity))
		args = append(args, queue)
	}
	return asking(takeScript, keys, args, readTaken)
}

func readTaken(r reader) (taken Taken, err error) {
	taken.Why = Why(r.text())
	taken.Paused, taken.Broken, taken.Large = r.positions(), r.refusals(), r.large()
	for i := range taken.Large {
		taken.Large[i].At--
	}
	for r.more() {
		group := r.list()
		taken.Jobs = append(taken.Jobs, TakenJobs{Queue: group.position(), Bytes: group.texts()})
		r.err = group.end()
	}
	return taken, r.end()
}

// refusals reads an inner array of positions with the texts of errors; nil for an empty one.
func (r *reader) refusals() (errs map[int]error) {
	list := r.list()
	for list.more() {
		refusal := list.list()
		if errs == nil {
			errs = make(map[int]error)
		}
		errs[refusal.position()] = driver.NewServerError(refusal.text())
		list.err = refusal.end()
	}
	r.err = list.end()
	return errs
}
