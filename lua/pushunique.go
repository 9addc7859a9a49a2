package lua

import (
	"strconv"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

var pushUniqueScript = load("pushunique")

// A UniqueJob is a new job of a push in which some are unique: for Queue now, or for later.
type UniqueJob struct {
	Queue string
	// Scheduled is its bytes, and when it is due; In and At both zero is now.
	Scheduled
	// Lock is what the job must get to be stored, or nil if it needs none. Its Hold counts from when the job is due.
	Lock *Lock
	// RunLater says of a duplicate that it is to be run for later, if a run of the job that holds the lock has begun.
	RunLater bool
}

// Later says whether the job is not for now.
func (j UniqueJob) Later() bool { return j.In > 0 || !j.At.IsZero() }

// PushedUnique is the answer to a push of unique jobs.
type PushedUnique struct {
	// Word is PushStored or PushStale.
	Word string
	// Holders has, for each job, the jid of the other one that holds its lock, for which it was not stored; "" if it is stored,
	// or was before, under the same jid.
	Holders []string
}

// PushUnique stores each job that gets its lock or needs none, in order. number may be nil. A full Redis refuses with OOM.
// The caller keeps within MostItems and MostBytes.
func (k Keys) PushUnique(number *PushNumber, jobs []UniqueJob) Ask[PushedUnique] {
	keys := []string{k.Queues(), k.Schedule(), k.Unique(), k.Refusals()}
	args := append(make([]string, 0, 3+10*len(jobs)), "", "", "")
	if number != nil {
		keys = append(keys, number.Slot)
		args = append(args[:0], strconv.FormatInt(number.Number, 10), number.Mark, millis(number.Remember))
	}
	lists := make(map[string]string)
	for _, j := range jobs {
		switch {
		case !j.At.IsZero():
			args = append(args, "at", job.Stamp(j.At, job.Seconds), j.Job, "0", "")
		case j.In > 0:
			args = append(args, "in", strconv.FormatFloat(j.In.Seconds(), 'f', 6, 64), j.Job, "0", "")
		default:
			if lists[j.Queue] == "" {
				keys = append(keys, k.Queue(j.Queue))
				lists[j.Queue] = strconv.Itoa(len(keys))
			}
			args = append(args, "now", "0", j.Job, lists[j.Queue], j.Queue)
		}
		if j.Lock == nil {
			args = append(args, "0", "", "", "0", "0")
			continue
		}
		keys = append(keys, k.Lock(j.Lock.Digest))
		args = append(args, strconv.Itoa(len(keys)), j.Lock.Digest, j.Lock.Owner, millis(j.Lock.Hold), bit(j.RunLater))
	}
	return Ask[PushedUnique]{Call: driver.Call{Script: pushUniqueScript, Keys: keys, Args: args}, read: readPushUnique}
}

func readPushUnique(value any) (pushed PushedUnique, err error) {
	word, rest, err := partsOf(value)
	if err != nil {
		return pushed, err
	}
	pushed.Word = word
	pushed.Holders, err = textsOf(rest)
	return pushed, err
}
