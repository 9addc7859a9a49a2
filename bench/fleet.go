package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/launcher"
)

var fleetMeasure = measurement{
	name:  "fleet",
	title: "A fleet that has nothing to do",
	short: fmt.Sprintf("What %d idle worker processes cost Redis", fleetSize),
	what: fmt.Sprintf("%d idle workers with default settings, each with a client and all the connections of its own, its own heartbeats, "+
		"background duties and wait for a job. They share one operating system process, because so many would measure its scheduler; for Redis there is no "+
		"difference. When all have started and are idle, Redis' processor time, round trips and commands are counted for %v.", fleetSize, watchFor),
	read: "The processor time is a share of one core, which is all that Redis' commands can have. A round trip is one read of Redis from a " +
		"connection. Commands are counted as Redis counts them: a script is one, and so is each command inside it.",
	unused: []string{"jobs", "concurrency", "profile"},
	metrics: []report.Metric{
		{Name: "redis CPU", Unit: "% of a core", Less: true, Plot: true},
		{Name: "round trips/s", Unit: "per second", Less: true, Plot: true},
		{Name: "commands/s", Unit: "per second", Less: true},
		{Name: "calls/s", Unit: "scripts a second", Less: true},
		{Name: "connections", Unit: "of each worker", Less: true},
		{Name: "fleet CPU", Unit: "% of a core", Less: true},
	},
	run: fleet,
}

const (
	fleetSize = 1000
	// watchFor is for how long the fleet is watched, after a sixth of that in which it is left alone.
	watchFor = 30 * time.Second
)

func fleet(ctx context.Context, b *bench, r *report.Result) error {
	task := subject.Task{Measure: "fleet", Concurrency: fleetSize, Seconds: watchFor.Seconds()}
	var turns []turn
	for _, who := range b.belays() {
		turns = append(turns, b.turn(r, who, "", task, func(f found) (map[string]float64, string) {
			before, after := f.redis[subject.Pushed], f.redis[subject.Done]
			seconds := after.at.Sub(before.at).Seconds()
			share := f.share(subject.Pushed, subject.Done)
			return map[string]float64{
				"redis CPU":     share,
				"round trips/s": (after.trips - before.trips) / seconds,
				"commands/s":    (after.commands - before.commands) / seconds,
				"calls/s":       (after.calls - before.calls) / seconds,
				"connections":   after.connections / fleetSize,
				"fleet CPU":     f.Extra["fleet_cpu_percent"],
			}, fmt.Sprintf("Redis used %s %% of a core", report.Figure(share))
		}))
	}
	return b.rounds(ctx, r, b.repeats(1, 3), turns)
}

// startEvery is how far apart the fleet's workers are started, so that their periods are as little in step as
// those of processes that came up one after the other.
const startEvery = 20 * time.Millisecond

// fleetSubject runs many idle workers in one process. For Redis each is like a process of its own: it has its
// own client with all connections, its own heartbeat and duties, and its own wait for a job. The workers
// share only Go's runtime. The event Pushed means that all have started.
func fleetSubject(ctx context.Context, task subject.Task, talk *subject.Talk) (err error) {
	var fleet []*belayPeer
	defer func() {
		for _, w := range fleet {
			w.worker.Stop() // all of them first: each takes a moment
		}
		for _, w := range fleet {
			err = errors.Join(err, w.Close(ctx))
		}
	}()
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	began := time.Now()
	for n := range task.Concurrency {
		w, err := openBelay(ctx, task)
		if err != nil {
			return err
		}
		if err := w.employ(launcher.Config{Concurrency: 1}); err != nil {
			return errors.Join(err, w.Close(ctx))
		}
		fleet = append(fleet, w)
		w.run(ctx)
		if err := measure.Pause(ctx, time.Until(began.Add(time.Duration(n+1)*startEvery))); err != nil {
			return err
		}
	}
	if err := registered(ctx, fleet); err != nil {
		return err
	}
	watch := time.Duration(task.Seconds * float64(time.Second))
	if err := measure.Pause(ctx, watch/6); err != nil {
		return err
	}
	if err := talk.Pushed(ctx, time.Since(began)); err != nil {
		return err
	}
	took, used := time.Now(), ownCPU()
	if err := measure.Pause(ctx, watch); err != nil {
		return err
	}
	share := float64(ownCPU()-used) / float64(time.Since(took))
	err = talk.Done(subject.Event{
		Settings: "default settings, concurrency 1", Extra: map[string]float64{"fleet_cpu_percent": 100 * share},
	})
	<-ctx.Done() // the bench looks at Redis while all are up
	return err
}

// registered waits until each worker is known to Redis.
func registered(ctx context.Context, fleet []*belayPeer) error {
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

// ownCPU returns the processor time that this process has used so far.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
