package inspect

import (
	"context"
	"fmt"

	"github.com/belayq/belay/driver"
)

// An Order is what a process can be told.
type Order string

const (
	// Quiet lets a process take nothing more, and finish what it has.
	Quiet Order = "quiet"
	// Stop lets a process end, within its shutdown timeout.
	Stop Order = "stop"
)

// signals are the names of orders on the wire.
var signals = map[Order]string{Quiet: "TSTP", Stop: "TERM"}

// Tell sends a process, of Belay or of Sidekiq, an order, and says whether there is such a process. It is obeyed at the
// process' next beat, within seconds; one that does not beat within a minute never hears of it.
func (i *Inspector) Tell(ctx context.Context, identity string, order Order) (bool, error) {
	name, known := signals[order]
	if !known {
		return false, fmt.Errorf("there is no order %q", order)
	}
	sent, err := i.keys.Signal(identity, name).Do(ctx, i.driver)
	if err != nil {
		return false, fmt.Errorf("tell %s to %s: %w", identity, order, err)
	}
	return sent, nil
}

// Pause lets workers of Belay (and of Sidekiq Pro) take nothing from a queue within a beat; what runs goes on, and pushes are
// accepted. It says whether the queue was not paused already. The queue need not exist.
func (i *Inspector) Pause(ctx context.Context, queue string) (changed bool, err error) {
	return i.changes(ctx, i.keys.Pause(queue), "pause", queue)
}

// Resume is the end of a Pause. It says whether the queue was paused.
func (i *Inspector) Resume(ctx context.Context, queue string) (changed bool, err error) {
	return i.changes(ctx, i.keys.Resume(queue), "resume", queue)
}

func (i *Inspector) changes(ctx context.Context, call driver.Call, what, queue string) (bool, error) {
	reply := i.driver.Do(ctx, call)[0]
	if reply.Err != nil {
		return false, fmt.Errorf("%s queue %s: %w", what, queue, reply.Err)
	}
	return reply.Value == int64(1), nil
}

// QueueExists says whether a job was ever pushed to a queue.
func (i *Inspector) QueueExists(ctx context.Context, queue string) (bool, error) {
	reply := i.driver.Do(ctx, driver.Command("SISMEMBER", i.keys.Queues(), queue))[0]
	if reply.Err != nil {
		return false, fmt.Errorf("look for queue %s: %w", queue, reply.Err)
	}
	return reply.Value == int64(1), nil
}
