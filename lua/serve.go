package lua

import "strconv"

var serveScript = load("serve")

// Served is the result of Serve. With every word but ServeServed nothing was written.
type Served string

// The results of Serve.
const (
	ServeServed Served = "served"
	ServeGone   Served = "gone"  // the session has ended, or its record is lost
	ServeStale  Served = "stale" // a later change came first
	ServeBusy   Served = "busy"  // a list of a queue that would not be named any more has a job
)

// Serve makes the record of identity name these queues, at most MaxQueues. left are the queues that the record
// named before and names no more: none of their working lists may have a job. revision rises with each change
// of a session, so that a call that arrives late, after its reply was given up, changes nothing.
func (k Keys) Serve(identity string, queues, left []string, revision int64) Ask[Served] {
	keys := append([]string{k.Record(identity), k.Tombstones(), k.QuarantineRun(identity)}, k.WorkingLists(left, identity)...)
	return asking(serveScript, keys, []string{identity, queuesField(queues), strconv.FormatInt(revision, 10)},
		func(r reader) (Served, error) { return Served(r.text()), r.end() })
}
