package subject

// A Task is what a subject is to do. A field that does not concern the measure is zero.
type Task struct {
	// Measure is one of those in the package's comment.
	Measure string `json:"measure"`
	// URL is the store: "redis://127.0.0.1:PORT/0", or "postgres://…" of an empty database.
	URL string `json:"url"`
	// Client is the Redis client that Belay uses, "go-redis" or "rueidis".
	Client string `json:"client,omitempty"`
	// Prefix is Belay's keyspace.
	Prefix string `json:"prefix,omitempty"`
	// Jobs is how many in all.
	Jobs int `json:"jobs,omitempty"`
	// Backlog is how long the queue is kept, in backlog. Belay only.
	Backlog int `json:"backlog,omitempty"`
	// Concurrency is how many jobs run at once, unless Best is set.
	Concurrency int `json:"concurrency,omitempty"`
	// Best asks for the settings that the system's authors use in their own benchmarks, or whatever is
	// fastest here, the concurrency included.
	Best bool `json:"best,omitempty"`
	// Batch makes the jobs members of one batch. Belay only.
	Batch bool `json:"batch,omitempty"`
	// Keys is how many keys the jobs have, and Limit how many of one key may run at once; 0 is any number. See
	// KeyOf.
	Keys  int `json:"keys,omitempty"`
	Limit int `json:"limit,omitempty"`
	// Millis is how long a job takes.
	Millis float64 `json:"millis,omitempty"`
	// Producers is how many enqueue at once.
	Producers int `json:"producers,omitempty"`
	// Rate is in jobs a second, Seconds how long it is kept up.
	Rate    float64 `json:"rate,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	// Profile is a file for a CPU profile of what is measured. Belay only.
	Profile string `json:"profile,omitempty"`
}

// KeyOf is the key of the nth job. Those that are pushed after the task's Jobs have a key of their own.
func (t Task) KeyOf(n int) int {
	if n >= t.Jobs {
		return t.Keys
	}
	return n % t.Keys
}

// The events by name.
const (
	Ready   = "ready"   // connections are open, nothing is done yet; waits
	Pushed  = "pushed"  // all jobs are stored; waits
	Holding = "holding" // the worker is up, and nothing more is measured; waits to be killed, or to close
	Ran     = "ran"     // one job has run: JID and UnixNS
	Done    = "done"    // the last
	Failed  = "failed"  // Text says why; exit status 1
)

// An Event is what a subject says.
type Event struct {
	Event string `json:"event"`
	// Seconds is how long that took which is measured, by the subject's monotonic clock.
	Seconds float64 `json:"seconds,omitempty"`
	// Settings says in words what was chosen: "concurrency 50, 10,000 jobs a batch".
	Settings string `json:"settings,omitempty"`
	// LatenciesUS has one number a job, in microseconds.
	LatenciesUS []float64 `json:"latencies_us,omitempty"`
	// Extra are further figures by name, such as "allocs_per_job".
	Extra map[string]float64 `json:"extra,omitempty"`
	// JID is the job that ran, UnixNS when it did.
	JID    string `json:"jid,omitempty"`
	UnixNS int64  `json:"unix_ns,omitempty"`
	// Text is why it failed.
	Text string `json:"text,omitempty"`
}
