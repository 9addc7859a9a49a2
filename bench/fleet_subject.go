package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/launcher"
)

// startEvery is how far apart the fleet's workers are started, so that their periods are as little in step as
// those of processes that came up one after the other.
const startEvery = 20 * time.Millisecond

// fleetSubject is many idle workers in one process. Each is what a process of its own would be to Redis: it
// has a client of its own, and so all of the connections, its own heartbeat and duties, and its own wait for
// a job. What they share is Go's runtime, which Redis does not see. Pushed says that all are up.
func fleetSubject(ctx context.Context, task subject.Task, talk *subject.Talk) (err error) {
	var fleet []*timedWorker
	defer func() {
		for _, w := range fleet {
			w.worker.Stop() // all of them first: each takes a moment
		}
		for _, w := range fleet {
			err = errors.Join(err, w.close())
		}
	}()
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	began := time.Now()
	for n := range task.Jobs {
		w, err := openTimed(ctx, task, launcher.Config{Concurrency: 1})
		if err != nil {
			return err
		}
		fleet = append(fleet, w)
		w.start(ctx)
		if err := measure.Pause(ctx, time.Until(began.Add(time.Duration(n+1)*startEvery))); err != nil {
			return err
		}
	}
	if err := registered(ctx, fleet); err != nil {
		return err
	}
	took, used := time.Now(), ownCPU()
	if err := talk.Pushed(ctx, time.Since(began)); err != nil {
		return err
	}
	share := float64(ownCPU()-used) / float64(time.Since(took))
	return talk.Done(subject.Event{
		Settings: "default settings, concurrency 1", Extra: map[string]float64{"fleet_cpu_percent": 100 * share},
	})
}

// registered waits until each worker is known to Redis.
func registered(ctx context.Context, fleet []*timedWorker) error {
	deadline := time.Now().Add(startWithin)
	for n, w := range fleet {
		for w.worker.Identity() == "" {
			if time.Now().After(deadline) {
				return fmt.Errorf("worker %d of %d is not registered %v after the last was started", n+1, len(fleet), startWithin)
			}
			if err := measure.Pause(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownCPU is the processor time that this process has used so far.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
