package lua

import (
	"cmp"
	"context"
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
	// Revision counts the changes of Queues in its session; see Keys.Serve.
	Revision int64
	// Beat is its heartbeat interval, and TTL how long it counts as alive after a heartbeat.
	Beat, TTL   time.Duration
	Concurrency int
	// Formerly is the identity that this process had before it was declared dead or forgotten, if any.
	Formerly string
	// Successor is the identity that its process took after it, if any.
	Successor string
	// QuarantineQueue is the queue of the last quarantined job that it took, if any.
	QuarantineQueue string
	// Emptied reports that all its lists were once found empty after its end: jobs that are there now were
	// never running.
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
	former := cmp.Or(record.Formerly, identity)
	args := []string{
		identity, millis(record.TTL), former, "queues", queuesField(record.Queues), "revision", strconv.FormatInt(record.Revision, 10), "beat_ms", millis(record.Beat),
		"concurrency", strconv.Itoa(record.Concurrency), "formerly", record.Formerly, "protocol", strconv.Itoa(Protocol),
	}
	if record.QuarantineQueue != "" { // a process that has lost its record
		args = append(args, "quarantine_queue", record.QuarantineQueue)
	}
	return asking(registerScript, []string{k.Record(identity), k.Alive(), k.Tombstones(), k.Record(former), k.Up()}, args,
		func(r reader) (Registered, error) {
			return Registered{OK: r.text() == "registered", Now: r.time()}, r.end()
		})
}

// queuesField returns queues as the record has them.
func queuesField(queues []string) string {
	text, err := json.Marshal(append([]string{}, queues...)) // never null
	if err != nil {
		panic("lua: marshal strings: " + err.Error())
	}
	return string(text)
}

// ReadRecord reads the record of identity; nil if there is none.
func (k Keys) ReadRecord(identity string) Ask[*Record] {
	return Ask[*Record]{read: readRecord, Call: driver.Command("HMGET", k.Record(identity),
		"queues", "beat_ms", "ttl_ms", "concurrency", "formerly", "emptied", "quarantine_queue", "successor")}
}

// ReadRecords reads the records of these processes in one round trip. A process without a record is missing
// from the result. If the key of a record has a wrong type, unread has its error, so that it does not stop
// the others; err is an outage.
func (k Keys) ReadRecords(ctx context.Context, client driver.Client, identities []string) (records map[string]Record, unread map[string]error, err error) {
	if len(identities) == 0 {
		return nil, nil, nil
	}
	asks, calls := AskEach(identities, k.ReadRecord)
	records, unread = make(map[string]Record, len(identities)), make(map[string]error)
	for i, reply := range client.Do(ctx, calls...) {
		record, err := asks[i].Read(reply)
		switch {
		case driver.Outage(err):
			return nil, nil, err
		case err != nil:
			unread[identities[i]] = fmt.Errorf("read the record of %s: %w", identities[i], err)
		case record != nil:
			records[identities[i]] = *record
		}
	}
	return records, unread, nil
}

func readRecord(r reader) (*Record, error) {
	if r.more() && r.parts[0] == nil {
		return nil, nil
	}
	number := func() int { // 0 for a field that holds something else
		number, _ := strconv.Atoi(r.textOrNil())
		return number
	}
	queues := r.textOrNil()
	record := &Record{Beat: time.Duration(number()) * time.Millisecond, TTL: time.Duration(number()) * time.Millisecond, Concurrency: number(),
		Formerly: r.textOrNil(), Emptied: r.textOrNil() == "1", QuarantineQueue: r.textOrNil(), Successor: r.textOrNil()}
	if err := r.end(); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(queues), &record.Queues); err != nil {
		return nil, fmt.Errorf("read a record's queues: %w", err)
	}
	return record, nil
}
