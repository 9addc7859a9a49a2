package inspect

import (
	"context"
	"fmt"

	"github.com/belayq/belay/driver"
)

// A Signal tells a process to do something.
type Signal string

const (
	// Quiet makes a process take no more jobs and finish those it has.
	Quiet Signal = "quiet"
	// Stop makes a process end within its shutdown timeout.
	Stop Signal = "stop"
	// Dump makes a process log its running jobs and the stacks of all goroutines (of Ruby: threads).
	Dump Signal = "dump"
)

// signalNames are the names of signals in Sidekiq's signal list.
var signalNames = map[Signal]string{Quiet: "TSTP", Stop: "TERM", Dump: "TTIN"}

// Signal sends a signal to a process of Belay or of Sidekiq, and reports whether there is such a process. The
// process reads it with its next heartbeat, within seconds; the signal expires after a minute.
func (i *Inspector) Signal(ctx context.Context, identity string, signal Signal) (bool, error) {
	name, known := signalNames[signal]
	if !known {
		return false, fmt.Errorf("there is no signal %q", signal)
	}
	sent, err := i.keys.Signal(identity, name).Do(ctx, i.driver)
	if err != nil {
		return false, fmt.Errorf("signal %s to %s: %w", identity, signal, err)
	}
	return sent, nil
}

// Pause stops workers of Belay (and of Sidekiq Pro) from taking jobs from a queue, within one heartbeat.
// Running jobs continue, and pushes are accepted. It reports whether the queue was not paused before. The
// queue need not exist.
func (i *Inspector) Pause(ctx context.Context, queue string) (changed bool, err error) {
	return i.isOne(ctx, i.keys.Pause(queue), "pause", queue)
}

// Resume ends a Pause. It reports whether the queue was paused.
func (i *Inspector) Resume(ctx context.Context, queue string) (changed bool, err error) {
	return i.isOne(ctx, i.keys.Resume(queue), "resume", queue)
}

// isOne reports whether the reply to a call about a queue is 1.
func (i *Inspector) isOne(ctx context.Context, call driver.Call, what, queue string) (bool, error) {
	reply := i.driver.Do(ctx, call)[0]
	if reply.Err != nil {
		return false, fmt.Errorf("%s queue %s: %w", what, queue, reply.Err)
	}
	return reply.Value == int64(1), nil
}

// QueueExists reports whether a job was ever pushed to a queue.
func (i *Inspector) QueueExists(ctx context.Context, queue string) (bool, error) {
	return i.isOne(ctx, driver.Command("SISMEMBER", i.keys.Queues(), queue), "look for", queue)
}
