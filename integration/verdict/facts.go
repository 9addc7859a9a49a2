package verdict

import (
	"encoding/json"
	"time"
)

// Facts are what a verdict needs besides the histories. The zero value of a setting is its default.
type Facts struct {
	// Beat and TTL are the workers'. 1.5 s and 6 s.
	Beat, TTL time.Duration
	// Recovery is within what time a killed process' jobs run again. 15 s.
	Recovery time.Duration
	// ShutdownTimeout is how long a worker that is asked to stop lets its handlers go on. 25 s; less than 0 is none at all.
	ShutdownTimeout time.Duration
	// Concurrency is each worker's. 25.
	Concurrency int
	// MaxRetries is for jobs that do not say. 25.
	MaxRetries int
	// MaxInterruptions is for how many crashes a job may be in hand. 3.
	MaxInterruptions int
	// MinBackoff is the least delay of a retry, MinLater and MinSnooze those that handlers ask for. 0.
	MinBackoff, MinLater, MinSnooze time.Duration
	// Repeatable says that a push that is sent again with the same jid puts no second job in.
	Repeatable bool
	// Settling is how long after a handler has returned its end may be unknown to Redis, with everything in order. 1 s.
	Settling time.Duration

	// Left is what lay in Redis at the end.
	Left []Remnant
	// Unreadable is how many texts were pushed that are no jobs of the histories, and lie among the dead.
	Unreadable int
	// Keys are the names of all keys at the end, without the prefix. nil is not looked at.
	Keys []string
	// Registered are the identities that Redis still counted among the processes, after all had ended. The record that
	// people read of a killed process lasts for a minute when nobody recovers anything of it.
	Registered []string
	// Processed and Failed are by how much the counters moved during the run; nil is not judged.
	Processed, Failed *int
	// Oracle is what the oracle counted; nil is not judged.
	Oracle *Oracle
}

// A Remnant is a job that lay in Redis at the end.
type Remnant struct {
	// Place is "queue", "working", "alone", "suspects", "schedule", "retry" or "dead".
	Place   string
	Payload string
}

// Oracle is what an oracle's report says, in numbers.
type Oracle struct {
	// Steps, Violations and Lost are the report's.
	Steps, Violations, Lost int
	// Ended, Retried and Failed are runs by how they ended in Redis: gone, failed to run again, failed and dead. Condemned are
	// the jobs that died of crashes, Buried those that could not be read: each of these counts as a failed run, too.
	Ended, Retried, Failed, Condemned, Buried int
}

const interruptedClass = "Belay::Interrupted"

func (f Facts) withDefaults() Facts {
	f.Beat = or(f.Beat, 1500*time.Millisecond)
	f.TTL = or(f.TTL, 6*time.Second)
	f.Recovery = or(f.Recovery, 15*time.Second)
	f.ShutdownTimeout = max(or(f.ShutdownTimeout, 25*time.Second), 0)
	f.Concurrency = or(f.Concurrency, 25)
	f.MaxRetries = or(f.MaxRetries, 25)
	f.MaxInterruptions = or(f.MaxInterruptions, 3)
	f.Settling = or(f.Settling, time.Second)
	return f
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// lease is how long a process may start jobs after a beat, and therefore for how long it must be out of sight at least before
// anybody may take it for dead.
func (f Facts) lease() time.Duration { return f.TTL - f.Beat }

// healing is how long after a fault's end its effects may last: a call that waits in vain for its deadline, of half a TTL and
// at least a second, and then a backoff of a quarter of the TTL.
func (f Facts) healing() time.Duration { return max(f.TTL/2, time.Second) + f.TTL/4 + time.Second/2 }

// A payload is what of a job's payload is judged.
type payload struct {
	JID         string            `json:"jid"`
	Args        []json.RawMessage `json:"args"`
	RetryCount  *int              `json:"retry_count"`
	Interrupted int               `json:"interrupted_count"`
	ErrorClass  string            `json:"error_class"`
}

// read answers what a remnant holds, and the token, which is the first of the arguments; it is empty for a text that is no
// job of the histories.
func (r Remnant) read() (held payload, token string) {
	if err := json.Unmarshal([]byte(r.Payload), &held); err != nil || len(held.Args) == 0 {
		return held, ""
	}
	_ = json.Unmarshal(held.Args[0], &token) // anything but a string is no token
	return held, token
}

// failures is how many runs of the job have failed, by its own word.
func (p payload) failures() int {
	if p.RetryCount == nil {
		return 0
	}
	return *p.RetryCount + 1
}
