package lua

import "github.com/belayq/belay/driver"

var takeQuarantinedScript = load("take_quarantined")

// QuarantineWord says what came of asking for a suspect.
type QuarantineWord string

// What a request for a suspect may answer.
const (
	QuarantineTaken  QuarantineWord = "taken"  // it lies in the asker's alone list
	QuarantineEmpty  QuarantineWord = "empty"  // no queue of the asker's that is not paused has one
	QuarantineBusy   QuarantineWord = "busy"   // something lies in the asker's hands, or so Redis says
	QuarantineFenced QuarantineWord = "fenced" // the asker is not alive
)

// TakenQuarantined is what a request for a suspect answered.
type TakenQuarantined struct {
	Word QuarantineWord
	// Queue is the position (from 0) of the job's queue in those asked for, Bytes the job, whatever its size.
	Queue int
	Bytes string
}

// TakeAlone moves one suspect of the first of these queues that has any into the alone list of identity, whose queues
// these must all be.
func (k Keys) TakeQuarantined(identity string, queues []string) Ask[TakenQuarantined] {
	keys := make([]string, 0, 4+2*len(queues))
	keys = append(keys, k.Alive(), k.Paused(), k.Record(identity), k.QuarantineRun(identity))
	for _, queue := range queues {
		keys = append(keys, k.Quarantine(queue), k.Working(queue, identity))
	}
	args := append([]string{identity}, queues...)
	return Ask[TakenQuarantined]{Call: driver.Call{Script: takeQuarantinedScript, Keys: keys, Args: args}, read: readTakenQuarantined}
}

// AloneQueue asks for the queue of the suspect that identity took last.
func (k Keys) QuarantinedFrom(identity string) driver.Call {
	return driver.Command("HGET", k.Record(identity), "alone")
}

// QuarantinedFromOf reads the reply to AloneQueue.
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
