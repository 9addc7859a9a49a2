package talk

// A Task is what one subject is asked to do in its lifetime. What a measure does not need is zero.
type Task struct {
	Measure     string  `json:"measure"`     // the measure's name
	URL         string  `json:"url"`         // the store: redis:// or postgres://
	Jobs        int     `json:"jobs"`        // how many jobs, where the measure counts them
	Concurrency int     `json:"concurrency"` // how many jobs may run at once, unless Best
	Best        bool    `json:"best"`        // the subject chooses the concurrency that is its fastest
	Producers   int     `json:"producers"`   // how many callers enqueue at once
	Rate        float64 `json:"rate"`        // jobs a second, where instants are fixed beforehand
	Seconds     float64 `json:"seconds"`     // for so long
}

// Timed reports whether the measure is how soon a job runs. There, Best asks for the settings under which it
// runs soonest; without it a system polls as often as it does by default.
func Timed(measure string) bool {
	return measure == "latency" || measure == "schedule" || measure == "burst"
}

// Stores says that the measure only stores jobs: no worker runs, and there is no concurrency to choose.
func Stores(measure string) bool {
	return measure == "enqueue" || measure == "bulk" || measure == "push"
}

// An Event is one thing that a subject tells the bench. Only the fields of its kind are set.
type Event struct {
	Event     string             `json:"event"`
	Seconds   float64            `json:"seconds,omitempty"`      // pushed, done: by the subject's monotonic clock
	Settings  string             `json:"settings,omitempty"`     // done: what was chosen, for a person to judge
	Latencies []int64            `json:"latencies_us,omitempty"` // done: microseconds, one a job, in the order of their numbers
	Extra     map[string]float64 `json:"extra,omitempty"`        // done: figures that not every subject has
	JID       string             `json:"jid,omitempty"`          // ran: the job's id
	UnixNano  int64              `json:"unix_ns,omitempty"`      // ran: when its handler began, by the wall clock
	Text      string             `json:"text,omitempty"`         // failed: what went wrong
}

// The kinds of event.
const (
	Ready   = "ready"   // connected, nothing done yet; waits
	Pushed  = "pushed"  // all jobs are stored; waits
	Holding = "holding" // every job has started; waits to be killed
	Ran     = "ran"     // a job's handler has begun
	Done    = "done"    // the last one: the figures
	Failed  = "failed"  // the last one: there are no figures
)
