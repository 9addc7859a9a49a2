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
	keys := append(make([]string, 0, 2+2*len(starts)), k.Unique())
	args := make([]string, 0, 2+3*len(starts))
	for len(starts) > 0 {
		first := starts[0]
		count := 1
		for count < len(starts) && starts[count].like(first) {
			count++
		}
		hand, _ := k.lists(origin{first.Queue, first.Alone}, identity)
		what := "mark"
		if first.Release {
			what = "release"
		}
		keys, args = append(keys, hand), append(args, what, strconv.Itoa(count))
		for _, start := range starts[:count] {
			keys = append(keys, k.Lock(start.Lock.Digest))
			args = append(args, start.Bytes, start.Lock.Digest, start.Lock.Owner)
		}
		starts = starts[count:]
	}
	return Ask[[]int]{Call: driver.Call{Script: startScript, Keys: keys, Args: args}, read: readStart}
}

// like says whether both can stand in one group.
func (s Start) like(other Start) bool {
	return s.Queue == other.Queue && s.Alone == other.Alone && s.Release == other.Release
}

func readStart(value any) (lost []int, err error) {
	word, rest, err := partsOf(value)
	if err != nil || word != "started" {
		return nil, errShape(value)
	}
	return positionsOf(rest)
}
