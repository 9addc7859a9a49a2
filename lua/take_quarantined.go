package lua

import (
	"slices"
	"strconv"

	"github.com/belayq/belay/driver"
)

var takeQuarantinedScript = load("take_quarantined")

// QuarantineWord is the result of a request for a quarantined job.
type QuarantineWord string

// The results of a request for a quarantined job.
const (
	QuarantineTaken  QuarantineWord = "taken"  // the job is in the process' list for it
	QuarantineEmpty  QuarantineWord = "empty"  // no queue that is not paused has one
	QuarantineBusy   QuarantineWord = "busy"   // the process has a job, according to Redis
	QuarantineFenced QuarantineWord = "fenced" // the process is not alive
)

// TakenQuarantined is the reply to a request for a quarantined job.
type TakenQuarantined struct {
	Word QuarantineWord
	// Queue is the position (from 0) of the job's queue among those to take from, Bytes the job, whatever its
	// size.
	Queue int
	Bytes string
}

// TakeQuarantined moves one quarantined job of the first of the queues from that has any into the list of
// identity for it. There is at least one of them, and others are all other queues of identity.
func (k Keys) TakeQuarantined(identity string, from, others []string) Ask[TakenQuarantined] {
	queues := slices.Concat(from, others)
	keys := make([]string, 0, 4+2*len(queues))
	keys = append(keys, k.Alive(), k.Paused(), k.Record(identity), k.QuarantineRun(identity))
	for _, queue := range queues {
		keys = append(keys, k.Quarantine(queue), k.Working(queue, identity))
	}
	args := append([]string{identity, strconv.Itoa(len(from))}, queues...)
	return asking(takeQuarantinedScript, keys, args, readTakenQuarantined)
}

// QuarantinedFrom reads the queue of the quarantined job that identity took last.
func (k Keys) QuarantinedFrom(identity string) Ask[string] {
	return Ask[string]{Call: driver.Command("HGET", k.Record(identity), "quarantine_queue"), read: readText}
}

func readTakenQuarantined(r reader) (taken TakenQuarantined, err error) {
	if taken.Word = QuarantineWord(r.text()); taken.Word == QuarantineTaken {
		taken.Queue, taken.Bytes = r.position(), r.text()
	}
	return taken, r.end()
}
