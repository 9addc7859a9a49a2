package history

import (
	"encoding/json"
	"time"
)

// A Kind says what happened.
type Kind string

// What pushers record.
const (
	// Invoke: a push is about to be sent. Token, JID and Spec are set.
	Invoke Kind = "invoke"
	// Accepted: the push was acknowledged.
	Accepted Kind = "accepted"
	// Refused: the push is certainly not in Redis; Text says why. The same token may be invoked again.
	Refused Kind = "refused"
	// Duplicate: the push was refused because another job has its lock; Text is that one's jid.
	Duplicate Kind = "duplicate"
	// Marked: an accepted job is about to be marked as cancelled.
	Marked Kind = "marked"
	// Unknown: Redis may or may not have it. Without any of these three the pusher died meanwhile.
	Unknown Kind = "unknown"
)

// What workers write down.
const (
	// Up: the process works: its first beat is confirmed. Text is its identity. It is written again after a
	// rebirth.
	Up Kind = "up"
	// Start: a handler has begun; nothing else of the run has happened yet. Token, JID, Run, Queue, Failures
	// and Interrupted are set, and Spec as it stood in the arguments.
	Start Kind = "start"
	// Resumed: the handler has read its cursor and goes on after Item; 0 is from the beginning.
	Resumed Kind = "resumed"
	// ItemDone: the handler has done Item, and saves the next one as its cursor.
	ItemDone Kind = "item"
	// Cancelled: the context of the run ended before the handler did. Text is the cause.
	Cancelled Kind = "cancelled"
	// Finish: the handler returns with Outcome, which is the last thing that it does.
	Finish Kind = "finish"
	// Health: once a second. Goroutines and Files are set.
	Health Kind = "health"
	// Called is a run of a callback (Text) of a batch (Token).
	Called Kind = "called"
	// Down: the process ends of its own will, after its deregistration or without Redis.
	Down Kind = "down"
)

// What the nemesis writes down. Proc is the process concerned, empty for Redis; Fault names what was done. A
// fault that lasts has two events with the same Fault and Proc.
const (
	// Launch: Proc was started. Signalled: it was sent the signal named in Fault ("KILL", "TERM", "TSTP").
	// Gone: it has been waited for; Text is how it ended.
	Launch    Kind = "launch"
	Signalled Kind = "signalled"
	Gone      Kind = "gone"
	// Begin and End enclose a fault that lasts; an instantaneous one is an End alone. Shift is by how much a
	// clock was set.
	Begin Kind = "begin"
	End   Kind = "end"
	// Phase: the run has come to where Text says: "chaos", "drain", "drained" or "undrained".
	Phase Kind = "phase"
)

// The outcomes with which a handler finishes.
const (
	OK      = "ok"
	Failed  = "fail"
	Panics  = "panic"
	Exits   = "goexit"
	Snoozed = "snooze"
	// Later is a failure whose delay the handler chooses.
	Later = "retryin"
	// Discarded and Killed end the job though it has retries left.
	Discarded = "discard"
	Killed    = "kill"
	// Stopped is a handler that gave up because its context ended.
	Stopped = "stopped"
	// Interrupted is a handler that gives its job back, because a checkpoint says that its process stops, or on
	// its own account.
	Interrupted = "interrupted"
)

// A Spec is what a job must do, as it stands in its arguments: ["token", spec].
type Spec struct {
	// Kind is the sort of job, by which it is counted: "plain", "long", "fails", "dies", "scheduled", and so
	// on.
	Kind string `json:"kind"`
	// Millis is how long each run takes, or each item.
	Millis int `json:"ms,omitempty"`
	// Items is how many items the job goes over, in order, and saves the number of each as its cursor before it
	// begins with it. A run whose outcome is no success does half of the rest. 0 is a job without a cursor.
	Items int `json:"items,omitempty"`
	// Outcomes are those of its first runs that finish, in order; all later ones finish with OK unless Always
	// is set, which is then the outcome of all later runs.
	Outcomes []string `json:"outcomes,omitempty"`
	Always   string   `json:"always,omitempty"`
	// Kills is how many of its first starts kill their own process (SIGKILL); -1 is all of them.
	Kills int `json:"kills,omitempty"`
	// Retries is its max_retries; -1 is the worker's default.
	Retries int `json:"retries"`
	// DelayMillis is how long from its push it is not to start: 0 is at once.
	DelayMillis int `json:"delay,omitempty"`
	// Odds is of how many runs one fails; 0 is as Outcomes says.
	Odds int `json:"odds,omitempty"`
	// Deaf jobs do not heed the end of their context.
	Deaf bool `json:"deaf,omitempty"`
	// Ballast is carried along, to be found unchanged.
	Ballast json.RawMessage `json:"ballast,omitempty"`
}

// An Event is one line. What a kind does not need is left out.
type Event struct {
	Kind Kind   `json:"ev"`
	Proc string `json:"proc,omitempty"`
	// At is when, in nanoseconds of CLOCK_BOOTTIME, which no clock step changes and all processes share.
	At time.Duration `json:"at"`

	Token string `json:"tok,omitempty"`
	JID   string `json:"jid,omitempty"`
	Queue string `json:"queue,omitempty"`
	// Run is drawn for each start.
	Run         string `json:"run,omitempty"`
	Spec        *Spec  `json:"spec,omitempty"`
	Failures    int    `json:"failures,omitempty"`
	Interrupted int    `json:"interrupted,omitempty"`
	Outcome     string `json:"outcome,omitempty"`
	Item        int    `json:"item,omitempty"`

	Fault string        `json:"fault,omitempty"`
	Shift time.Duration `json:"shift,omitempty"`
	Text  string        `json:"text,omitempty"`

	Goroutines int `json:"goroutines,omitempty"`
	Files      int `json:"files,omitempty"`
}
