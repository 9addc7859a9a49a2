package lua

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/belayq/belay/driver"
)

var startScript = load("start")

// A Start is the beginning of the run of a job with a lock, a gate or both: of the job with these bytes, taken
// from this queue, or from its quarantine.
type Start struct {
	Queue       string
	Quarantined bool
	Bytes       string
	// Gate, if set, decides whether the run may begin. If it may not, the job waits at the gate, and its lock
	// does not change. A job of the quarantine does not wait: it is Busy.
	Gate *Gate
	// First lets the job wait before others, because its process crashed while it ran.
	First bool
	// Lock, if set, is renewed for its Hold, unless Release is set.
	Lock *Lock
	// Release frees the lock.
	Release bool
	// Leave keeps what refused duplicates left with a lock that is freed, for the lock's Hold or until
	// ForgetLeft, so that the job's next start, or the same one sent again, returns it.
	Leave bool
	// Mark makes duplicates that are refused from now on cause a rerun, when the job ends with an Again.
	Mark bool
	// Back means that the run does not begin after all, possibly after an earlier Start: the job goes back to
	// its place, and takes its lock again if it is free. Gate, Release, Leave and Mark are ignored then.
	Back bool
}

// Started is the result of a Start, in positions from 0.
type Started struct {
	// Lost are jobs that the process has lost and must not run. A job that an earlier call with the same start
	// has parked is lost, too.
	Lost []int
	// Parked are jobs that wait at their gate. The process does not have them any more.
	Parked []int
	// Busy are jobs of the quarantine that may not start now. The process still has them.
	Busy []int
	// Left has the WAL positions that refused duplicates left with the jobs' locks, in lines (see
	// NewJob.WAL), for jobs that have any.
	Left map[int]string
}

// Start records that these runs of a process begin, or that they wait. No handler may run before its reply. The
// caller keeps within MaxItems and MaxBytes.
func (k Keys) Start(identity string, starts []Start) Ask[Started] {
	keys, args := k.startGates(identity, starts)
	for group, starts := range alike(starts, (*Start).group) {
		hand, _ := k.lists(group.origin, identity)
		keys, args = append(keys, hand), append(args, group.lock, group.gate, group.queue, strconv.Itoa(len(starts)))
		for _, start := range starts {
			args = append(args, start.Bytes)
			if group.lock != startUnlocked {
				keys = append(keys, k.Lock(start.Lock.Digest))
				args = append(args, start.Lock.Digest, start.Lock.Owner, millis(start.Lock.Hold))
			}
			if group.gate != "" {
				args = append(args, start.Gate.Name, sumOf(start.Bytes))
			}
		}
		for _, start := range starts {
			if group.lock == startLeave {
				jid, _ := start.Lock.Names()
				keys = append(keys, k.Left(jid))
			}
		}
	}
	return asking(startScript, keys, args, readStart)
}

// startGates returns the keys and arguments of a start before its groups.
func (k Keys) startGates(identity string, starts []Start) (keys, args []string) {
	var gates []*Gate
	seen := make(map[string]bool)
	for i := range starts {
		if gate := starts[i].Gate; gate != nil && !starts[i].Back && !seen[gate.Name] {
			gates, seen[gate.Name] = append(gates, gate), true
		}
	}
	keys = append(make([]string, 0, 6+4*len(starts)), k.Unique())
	args = append(make([]string, 0, 8+4*len(starts)), strconv.Itoa(len(gates)))
	if len(gates) > 0 {
		keys = append(keys, k.Gates(), k.Slots(identity), k.Admitted(), k.Waiting(), k.Limits())
	}
	for like, gates := range alike(gates, func(g **Gate) Gate { return (*g).ofLimit() }) {
		size := ""
		if like.Size != (Size{}) {
			size = like.Size.String()
		}
		args = append(args, like.Name, size, strconv.Itoa(len(gates)))
		for _, gate := range gates {
			keys, args = append(keys, gate.keysOf(k)...), append(args, gate.Name)
		}
	}
	return keys, args
}

// A startGroup has the common properties of several starts, which the script gets once.
type startGroup struct {
	origin
	lock string // what to do with the lock
	gate string // how to ask the gate; "" for none
}

func (s *Start) group() startGroup {
	group := startGroup{origin: origin{s.Queue, s.Quarantined}, lock: s.word()}
	switch {
	case s.Gate == nil || s.Back:
	case s.Quarantined:
		group.gate = "alone"
	case s.First:
		group.gate = "first"
	default:
		group.gate = "gate"
	}
	return group
}

const (
	// startLeave is the script's word for a start that frees a lock and keeps its positions.
	startLeave = "leave"
	// startUnlocked is that for a job without a lock.
	startUnlocked = "none"
)

// word returns the script's word for the change of the lock.
func (s *Start) word() string {
	switch {
	case s.Lock == nil:
		return startUnlocked
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
	started.Lost, started.Parked, started.Busy = r.positions(), r.positions(), r.positions()
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
