package lua

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/belayq/belay/driver"
)

var startScript = load("start")

// A Start is the beginning of a unique job's run: of the job with these bytes, taken from this queue, or from
// its quarantine.
type Start struct {
	Queue       string
	Quarantined bool
	Bytes       string
	// Lock is renewed for its Hold, unless Release is set.
	Lock Lock
	// Release frees the lock.
	Release bool
	// Leave keeps what refused duplicates left with a lock that is freed, for the lock's Hold or until
	// ForgetLeft, so that the job's next start, or the same one sent again, returns it.
	Leave bool
	// Mark makes duplicates that are refused from now on cause a rerun, when the job ends with an Again.
	Mark bool
	// Back means that the run does not begin after all, possibly after an earlier Start: the job goes back to
	// its place, and takes its lock again if it is free. Release, Leave and Mark are ignored then.
	Back bool
}

// Started is the result of a Start, in positions from 0.
type Started struct {
	// Lost are jobs that the process has lost and must not run.
	Lost []int
	// Left has the WAL positions that refused duplicates left with the jobs' locks, in lines (see
	// NewJob.WAL), for jobs that have any.
	Left map[int]string
}

// Start records that these runs of a process begin. No handler may run before its reply. The caller keeps
// within MaxItems and MaxBytes.
func (k Keys) Start(identity string, starts []Start) Ask[Started] {
	keys := append(make([]string, 0, 2+2*len(starts)), k.Unique())
	args := make([]string, 0, 2+4*len(starts))
	for group, starts := range alike(starts, func(s *Start) startGroup { return startGroup{origin{s.Queue, s.Quarantined}, s.what()} }) {
		hand, _ := k.lists(group.origin, identity)
		keys, args = append(keys, hand), append(args, group.what, strconv.Itoa(len(starts)))
		for _, start := range starts {
			keys = append(keys, k.Lock(start.Lock.Digest))
			args = append(args, start.Bytes, start.Lock.Digest, start.Lock.Owner, millis(start.Lock.Hold))
		}
		for _, start := range starts {
			if group.what == startLeave {
				jid, _ := start.Lock.Names()
				keys = append(keys, k.Left(jid))
			}
		}
	}
	return asking(startScript, keys, args, readStart)
}

// startLeave is the script's word for a start that frees a lock and keeps its positions.
const startLeave = "leave"

// what returns the script's word for the change of the lock.
func (s Start) what() string {
	switch {
	case s.Back:
		return "back"
	case s.Release && s.Leave:
		return startLeave
	case s.Release:
		return "release"
	case s.Mark:
		return "mark"
	}
	return "hold"
}

// A startGroup has the common properties of several starts, which the script gets once.
type startGroup struct {
	origin origin
	what   string
}

// ForgetLeft deletes the positions that starts have kept for these jobs, whose payloads have them now, or
// which have ended. There is at least one job.
func (k Keys) ForgetLeft(jids []string) driver.Call {
	words := []string{"DEL"}
	for _, jid := range jids {
		words = append(words, k.Left(jid))
	}
	return driver.Command(words...)
}

func readStart(r reader) (started Started, err error) {
	r.text() // "started"
	started.Lost = r.positions()
	left := r.list()
	for left.more() {
		if started.Left == nil {
			started.Left = make(map[int]string)
		}
		position := left.position()
		started.Left[position] = strings.TrimPrefix(left.text(), "\n")
	}
	return started, cmp.Or(left.end(), r.end())
}
