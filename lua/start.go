package lua

import (
	"strconv"

	"github.com/belayq/belay/driver"
)

var startScript = load("start")

// A Start is the beginning of a unique job's run: of the job with these bytes, taken from this queue, or from its suspects.
type Start struct {
	Queue string
	Alone bool
	Bytes string
	Lock  Lock
	// Release frees the lock; otherwise it is marked as that of a job whose run has begun.
	Release bool
}

// Start says that these runs of a process begin. It answers the positions (from 0) of jobs that are not in its hands any
// more and must not be run. Until the answer has been read no handler may run. The caller keeps within MostItems and
// MostBytes.
func (k Keys) Start(identity string, starts []Start) Ask[[]int] {
	keys := []string{k.Unique()}
	args := make([]string, 0, 6*len(starts))
	for _, start := range starts {
		hand, _ := k.lists(origin{start.Queue, start.Alone}, identity)
		keys = append(keys, hand, k.Lock(start.Lock.Digest))
		what := "mark"
		if start.Release {
			what = "release"
		}
		args = append(args, strconv.Itoa(len(keys)-1), start.Bytes, strconv.Itoa(len(keys)), start.Lock.Digest, start.Lock.Owner, what)
	}
	return Ask[[]int]{Call: driver.Call{Script: startScript, Keys: keys, Args: args}, read: readStart}
}

func readStart(value any) (lost []int, err error) {
	word, rest, err := partsOf(value)
	if err != nil || word != "started" {
		return nil, errShape(value)
	}
	return positionsOf(rest)
}
