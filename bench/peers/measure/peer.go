package measure

import (
	"context"
	"time"

	"github.com/belayq/belay/bench/subject"
)

// A Job is one job that a measure stores.
type Job struct {
	N     int       // its number, from zero, and its first argument
	DueAt time.Time // zero: at once
	Queue string    // empty: the default queue
	Class string    // Noop or Email
}

// A Handler is what a job's run calls, with the job's number and the system's own id for it.
type Handler func(n int, id string) error

// A Peer is a job system, connected and set up for one task.
type Peer interface {
	// Enqueue stores one job with one call and returns when the store has confirmed it. It is called by many
	// at once.
	Enqueue(ctx context.Context, job Job) error
	// EnqueueAll stores count jobs in the system's fastest way.
	EnqueueAll(ctx context.Context, count int, job func(n int) Job) error
	// Rest lets the store do, untimed, what it does by itself some time after many jobs have come.
	Rest(ctx context.Context) error
	// Start starts one worker, as a process of the system's users has one. It returns when the worker has
	// begun.
	Start(ctx context.Context, queue string, handle Handler) error
	// WaitAcknowledged waits until the store holds the completion of so many runs since Start.
	WaitAcknowledged(ctx context.Context, runs int) error
	// Settings are those in use, in words.
	Settings() string
	// Close stops the worker, lets running jobs end, and leaves none of this task's jobs in the store.
	Close(ctx context.Context) error
}

// A System is a job system that is yet to be connected.
type System struct {
	Name   string // as its authors write it
	Module string // the Go module whose version is measured
	// Open connects, and sets up what the task asks for. It starts no worker.
	Open func(ctx context.Context, task subject.Task) (Peer, error)
}
