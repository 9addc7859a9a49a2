package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
)

// belayBacklog fills the queue to its length, and then works jobs off while as many are pushed.
func belayBacklog(ctx context.Context, task subject.Task, talk *subject.Talk, p *pusher) error {
	worker, err := launcher.New(launcher.Config{Client: p.conn, Prefix: task.Prefix, Concurrency: task.Concurrency})
	if err != nil {
		return err
	}
	worker.Handle("Noop", func(context.Context, *job.Job) error { return nil }, launcher.Class{})
	if _, err := p.fill(ctx, talk, numbered(task.Backlog, noop)); err != nil {
		return err
	}
	started := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- worker.Run(ctx) }()
	ended, err := p.replace(ctx, lua.NewKeys(task.Prefix), task.Jobs)
	e := subject.Event{Seconds: time.Since(started).Seconds(), Extra: map[string]float64{"ended": float64(ended)}}
	// Said before the worker stops: what it still works off meanwhile is not in Seconds, and must not be in
	// Redis' CPU.
	e.Settings = fmt.Sprintf("concurrency %d", task.Concurrency)
	if err == nil {
		err = talk.Done(e)
	}
	worker.Stop()
	return errors.Join(err, <-stopped)
}

// replace pushes a job for each that has ended, until so many have, and says how many that were in the end.
func (p *pusher) replace(ctx context.Context, keys lua.Keys, jobs int) (ended int, err error) {
	pushed := 0
	for ended < jobs {
		reply := p.conn.Do(ctx, driver.Command("GET", keys.Processed()))[0]
		if reply.Err != nil {
			return ended, reply.Err
		}
		if text, ok := reply.Value.(string); ok {
			if ended, err = strconv.Atoi(text); err != nil {
				return ended, err
			}
		}
		if ended > pushed {
			if _, err := p.pushAll(ctx, numbered(ended-pushed, noop)); err != nil {
				return ended, err
			}
			pushed = ended
		}
		select {
		case <-ctx.Done():
			return ended, context.Cause(ctx)
		case <-time.After(2 * time.Millisecond):
		}
	}
	return ended, nil
}
