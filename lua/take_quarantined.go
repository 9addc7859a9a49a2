package lua

import "github.com/belayq/belay/driver"

var takeQuarantinedScript = load("take_quarantined")

// QuarantineWord is the outcome of asking for a quarantined job.
type QuarantineWord string

// What a request for a quarantined job may answer.
const (
	QuarantineTaken  QuarantineWord = "taken"  // it lies in the asker's list for it
	QuarantineEmpty  QuarantineWord = "empty"  // no queue that is not paused has one
	QuarantineBusy   QuarantineWord = "busy"   // the asker has a job, according to Redis
	QuarantineFenced QuarantineWord = "fenced" // the process is not alive
)

// TakenQuarantined is the answer to a request for a quarantined job.
type TakenQuarantined struct {
	Word QuarantineWord
	// Queue is the position (from 0) of the job's queue in the request, Bytes the job, whatever its size.
	Queue int
	Bytes string
}

// TakeQuarantined moves one quarantined job of the first of these queues that has any into the list of
// identity for it. These must be all queues of identity.
func (k Keys) TakeQuarantined(identity string, queues []string) Ask[TakenQuarantined] {
	keys := make([]string, 0, 4+2*len(queues))
	keys = append(keys, k.Alive(), k.Paused(), k.Record(identity), k.QuarantineRun(identity))
	for _, queue := range queues {
		keys = append(keys, k.Quarantine(queue), k.Working(queue, identity))
	}
	args := append([]string{identity}, queues...)
	return asking(takeQuarantinedScript, keys, args, readTakenQuarantined)
}

// QuarantinedFrom asks for the queue of the quarantined job that identity took last.
func (k Keys) QuarantinedFrom(identity string) driver.Call {
	return driver.Command("HGET", k.Record(identity), "alone")
}

// QuarantinedFromOf reads the reply to QuarantinedFrom.
func QuarantinedFromOf(reply driver.Reply) (string, error) {
	queue, ok := reply.Value.(string)
	if reply.Err == nil && !ok {
		return "", errShape(reply.Value)
	}
	return queue, reply.Err
}

func readTakenQuarantined(value any) (taken TakenQuarantined, err error) {
	word, rest, err := partsOf(value)
	if err != nil {
		return taken, err
	}
	taken.Word = QuarantineWord(word)
	if taken.Word != QuarantineTaken {
		return taken, nil
	}
	if len(rest) != 2 {
		return taken, errShape(value)
	}
	position, isNumber := rest[0].(int64)
	bytes, isText := rest[1].(string)
	if !isNumber || !isText {
		return taken, errShape(value)
	}
	taken.Queue, taken.Bytes = int(position)-1, bytes
	return taken, nil
}
