package lua

import "github.com/belayq/belay/driver"

var takeAloneScript = load("takealone")

// AloneWord is the status of a TakeAlone.
type AloneWord string

// The statuses of a TakeAlone.
const (
	AloneTaken  AloneWord = "taken"  // it is in the process' alone list
	AloneEmpty  AloneWord = "empty"  // no queue that is not paused has one
	AloneBusy   AloneWord = "busy"   // the process has jobs, according to Redis
	AloneFenced AloneWord = "fenced" // the process is not alive
)

// TakenAlone is the result of a TakeAlone.
type TakenAlone struct {
	Word AloneWord
	// Queue is the position (from 0) of the job's queue in the request, Bytes the job, whatever its size.
	Queue int
	Bytes string
}

// TakeAlone moves one quarantined job of the first of these queues that has any into the alone list of
// identity, whose queues these must all be.
func (k Keys) TakeAlone(identity string, queues []string) Ask[TakenAlone] {
	keys := make([]string, 0, 4+2*len(queues))
	keys = append(keys, k.Alive(), k.Paused(), k.Record(identity), k.Alone(identity))
	for _, queue := range queues {
		keys = append(keys, k.Suspects(queue), k.Working(queue, identity))
	}
	args := append([]string{identity}, queues...)
	return Ask[TakenAlone]{Call: driver.Call{Script: takeAloneScript, Keys: keys, Args: args}, read: readTakenAlone}
}

// AloneQueue reads the queue of the quarantined job that identity took last.
func (k Keys) AloneQueue(identity string) driver.Call {
	return driver.Command("HGET", k.Record(identity), "alone")
}

// AloneQueueOf reads the reply to AloneQueue.
func AloneQueueOf(reply driver.Reply) (string, error) {
	queue, ok := reply.Value.(string)
	if reply.Err == nil && !ok {
		return "", errShape(reply.Value)
	}
	return queue, reply.Err
}

func readTakenAlone(value any) (taken TakenAlone, err error) {
	word, rest, err := partsOf(value)
	if err != nil {
		return taken, err
	}
	taken.Word = AloneWord(word)
	if taken.Word != AloneTaken {
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
