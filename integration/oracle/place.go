package oracle

// A Place is where a job can be.
type Place uint8

// The places. At every instant an accepted, unfinished job is in one of those from Queue to Waiting.
const (
	// Nowhere is where a job is before it is accepted and after it has ended.
	Nowhere Place = iota
	Queue
	Working
	QuarantineRun
	Quarantine
	Schedule
	Retry
	Dead
	Waiting // at a gate
	// Abroad is the hand of a program that is not Belay, between two steps of its own. There is such a place
	// only with the option Foreign.
	Abroad
	placeCount
)

var placeNames = [placeCount]string{"nowhere", "queue", "working", "quarantine run", "quarantine", "schedule", "retry", "dead", "waiting", "abroad"}

func (p Place) String() string { return placeNames[p] }

// sorted reports whether the place is a sorted set; the others are lists.
func (p Place) sorted() bool { return p == Schedule || p == Retry || p == Dead }

// A Move is what an edge means for the job.
type Move string

// The moves.
const (
	Accepted    Move = "accepted"
	Taken       Move = "taken"
	Ended       Move = "ended"      // done, or discarded
	Retried     Move = "retried"    // failed, to run again
	Died        Move = "died"       // failed for good, or crashed alone once too often
	Unreadable  Move = "unreadable" // cannot be read or is too large; its bytes are kept, with the reason
	Snoozed     Move = "snoozed"    // asked to run later
	Requeued    Move = "requeued"   // as if it had not been taken
	Recovered   Move = "recovered"  // from the dead, one interruption counted
	Found       Move = "found"      // with the dead, but in no process' hand
	Promoted    Move = "promoted"
	Sent        Move = "sent"        // to its queue, by an operator
	Killed      Move = "killed"      // to the dead, by an operator
	Deleted     Move = "deleted"     // by an operator
	Moved       Move = "moved"       // to another queue, or to another place of its queue, by an operator
	Rescheduled Move = "rescheduled" // to another time, by an operator
	Waits       Move = "waits"       // its gate lets it not start yet
	Admitted    Move = "admitted"    // to its queue, by its gate
	Trimmed     Move = "trimmed"     // dropped from a dead set that was full
	Emigrated   Move = "emigrated"   // into the hand of a foreign program
	Returned    Move = "returned"
	Allowed     Move = "allowed"  // not Belay's own; see Allow
	Flushed     Move = "flushed"  // gone with all data
	Restored    Move = "restored" // was there when the log began

	// What no law allows.
	Illegal  Move = "illegal"
	Missing  Move = "missing"
	Doubling Move = "doubling"
)

// An Edge is a way from one place to another, and what it means.
type Edge struct {
	From, To Place
	Move     Move
}

func (e Edge) String() string {
	return e.From.String() + "->" + e.To.String() + " (" + string(e.Move) + ")"
}
