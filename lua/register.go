package lua

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

var registerScript = load("register")

// Record has the facts about a process that its recovery needs, and some for operators.
type Record struct {
	// Queues are all queues it takes from, which name all lists that may hold its jobs.
	Queues []string
	// Beat is how often it beats, TTL how long it counts as alive after one.
	Beat, TTL   time.Duration
	Concurrency int
	// Formerly is the identity that this process had before it was declared dead or forgotten, if any.
	Formerly string
	// Heir is the identity that its process took after it, if any.
	Heir string
	// QuarantineQueue is the queue of the last quarantined job that it took, if any.
	QuarantineQueue string
	// Emptied says that all its lists were once found empty after its end: what lies there now was never
	// running.
	Emptied bool
}

// Registered is the result of a registration.
type Registered struct {
	// OK is false for an identity that exists or existed.
	OK bool
	// Now is Redis' time.
	Now time.Time
}

// Register begins the session of identity, with its record.
func (k Keys) Register(identity string, record Record) Ask[Registered] {
	queues, err := json.Marshal(record.Queues)
	if err != nil {
		panic("lua: marshal strings: " + err.Error())
	}
	former := cmp.Or(record.Formerly, identity)
	ask := Ask[Registered]{
		Call: driver.Call{
			Script: registerScript,
			Keys:   []string{k.Record(identity), k.Alive(), k.Tombstones(), k.Record(former)},
			Args: []string{
				identity, millis(record.TTL), former, "queues", string(queues), "beat_ms", millis(record.Beat),
				"concurrency", strconv.Itoa(record.Concurrency), "formerly", record.Formerly,
				"protocol", strconv.Itoa(Protocol),
			},
		},
		read: readRegistered,
	}
	if record.QuarantineQueue != "" { // a process that has lost its record
		ask.Call.Args = append(ask.Call.Args, "alone", record.QuarantineQueue)
	}
	return ask
}

func readRegistered(value any) (answer Registered, err error) {
	word, rest, err := partsOf(value)
	if err != nil {
		return answer, err
	}
	answer.OK = word == "registered"
	answer.Now, err = timeOf(rest)
	return answer, err
}

// ReadRecord asks for the record of identity; ok is false when there is none.
func (k Keys) ReadRecord(identity string) driver.Call {
	return driver.Command("HMGET", k.Record(identity), "queues", "beat_ms", "ttl_ms", "concurrency", "formerly", "emptied", "alone", "heir")
}

// RecordOf reads the reply to ReadRecord.
func RecordOf(reply driver.Reply) (record Record, ok bool, err error) {
	if reply.Err != nil {
		return record, false, reply.Err
	}
	fields, isArray := reply.Value.([]any)
	if !isArray || len(fields) != 8 {
		return record, false, errShape(reply.Value)
	}
	texts := make([]string, len(fields))
	for i, field := range fields {
		texts[i], _ = field.(string)
	}
	if fields[0] == nil {
		return record, false, nil
	}
	if err := json.Unmarshal([]byte(texts[0]), &record.Queues); err != nil {
		return record, false, fmt.Errorf("read a record's queues: %w", err)
	}
	beat, _ := strconv.Atoi(texts[1])
	ttl, _ := strconv.Atoi(texts[2])
	record.Beat, record.TTL = time.Duration(beat)*time.Millisecond, time.Duration(ttl)*time.Millisecond
	record.Concurrency, _ = strconv.Atoi(texts[3])
	record.Formerly, record.Emptied, record.QuarantineQueue = texts[4], texts[5] == "1", texts[6]
	record.Heir = texts[7]
	return record, true, nil
}

// timeOf reads the seconds and microseconds with which a reply's rest begins.
func timeOf(parts []any) (time.Time, error) {
	if len(parts) < 2 {
		return time.Time{}, errShape(parts)
	}
	numbers, err := numbersOf(parts[:2])
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(int64(numbers[0]), int64(numbers[1])*1000), nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
