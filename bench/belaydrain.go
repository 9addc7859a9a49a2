package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
)

// bestConcurrency is what Belay chooses for itself when it is asked for its best: a batch is half of it, and
// more than a hundred in a batch bring little more.
const bestConcurrency = 200

// belayDrain pushes the jobs, holds still, and then empties the queue with one worker.
func belayDrain(ctx context.Context, task subject.Task, talk *subject.Talk, p *pusher) error {
	if task.Best {
		task.Concurrency = bestConcurrency
	}
	ran := make([]atomic.Int32, task.Jobs)
	worker, err := launcher.New(launcher.Config{Client: p.conn, Prefix: task.Prefix, Concurrency: task.Concurrency})
	if err != nil {
		return err
	}
	worker.Handle("Noop", func(_ context.Context, j *job.Job) error {
		n, err := numberOf(j)
		if err != nil {
			return err
		}
		ran[n].Add(1)
		return nil
	}, launcher.Class{})

	if _, err := p.fill(ctx, talk, numbered(task.Jobs, noop)); err != nil {
		return err
	}
	e, err := timeWorker(ctx, task, p.conn, worker)
	if err != nil {
		return err
	}
	for n := range ran {
		if times := ran[n].Load(); times != 1 {
			return fmt.Errorf("job %d ran %d times", n, times)
		}
	}
	return talk.Done(e)
}

// numberOf is the only argument of a Noop.
func numberOf(j *job.Job) (int, error) {
	args := j.ArgsJSON()
	return strconv.Atoi(args[1 : len(args)-1])
}

// timeWorker runs the worker until all jobs' ends are in Redis.
func timeWorker(ctx context.Context, task subject.Task, conn driver.Client, worker *launcher.Launcher) (e subject.Event, err error) {
	if task.Profile != "" {
		file, err := os.Create(task.Profile)
		if err != nil {
			return e, err
		}
		defer func() { _ = file.Close() }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return e, err
		}
		defer pprof.StopCPUProfile()
	}
	// Jobs that do nothing are run by one of Go's processors as fast as by two, and Redis has a core of its
	// own. Jobs that compute want all of them, so this is no default.
	alone := task.Best && runtime.NumCPU() <= 2
	if alone {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	started := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- worker.Run(ctx) }()
	err = waitProcessed(ctx, conn, lua.NewKeys(task.Prefix), task.Jobs)
	e.Seconds = time.Since(started).Seconds()
	runtime.ReadMemStats(&after)
	worker.Stop()
	if err := errors.Join(err, <-stopped); err != nil {
		return e, err
	}
	e.Settings = fmt.Sprintf("concurrency %d, default settings", task.Concurrency)
	if alone {
		e.Settings = fmt.Sprintf("concurrency %d, GOMAXPROCS 1", task.Concurrency)
	}
	e.Extra = map[string]float64{"allocs_per_job": float64(after.Mallocs-before.Mallocs) / float64(task.Jobs)}
	return e, nil
}

// waitProcessed waits until so many runs have been counted: a run is counted in the step that settles it.
func waitProcessed(ctx context.Context, conn driver.Client, keys lua.Keys, jobs int) error {
	last, moved := "", time.Now()
	for {
		reply := conn.Do(ctx, driver.Command("GET", keys.Processed()))[0]
		if reply.Err != nil {
			return reply.Err
		}
		text, _ := reply.Value.(string)
		if text == strconv.Itoa(jobs) {
			return nil
		}
		if text != last {
			last, moved = text, time.Now()
		} else if time.Since(moved) > 30*time.Second {
			return fmt.Errorf("stuck: %s of %d jobs done and nothing has moved for 30s", text, jobs)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
