package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// recoverQueues are the queues that only victims and survivors take from.
var recoverQueues = []fetch.Queue{{Name: "recover"}}

// victimSubject takes jobs that do not end, and waits to be killed. Everything but the queue and the
// concurrency is Belay's default, because the measure is how soon jobs run again without tuning.
func victimSubject(ctx context.Context, task subject.Task, talk *subject.Talk) (err error) {
	w, err := openTimed(ctx, task, launcher.Config{Concurrency: task.Concurrency, Queues: recoverQueues})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var started atomic.Int64
	all := make(chan struct{})
	w.worker.Handle("Noop", func(ctx context.Context, _ *job.Job) error {
		if started.Add(1) == int64(task.Jobs) {
			close(all)
		}
		return pause(ctx, time.Minute)
	}, launcher.Class{})
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	for n := range task.Jobs {
		j := noop(n)
		j.Queue = recoverQueues[0].Name
		if _, err := w.Push(ctx, j); err != nil {
			return err
		}
	}
	w.start(ctx)
	if err := await(ctx, all, startWithin); err != nil {
		return err
	}
	return talk.SayAndWait(ctx, subject.Event{Event: subject.Holding})
}

// survivorSubject is a worker with default settings that tells at once what it runs, until it is asked to end.
func survivorSubject(ctx context.Context, task subject.Task, talk *subject.Talk) (err error) {
	w, err := openTimed(ctx, task, launcher.Config{Queues: recoverQueues})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.worker.Handle("Noop", func(_ context.Context, j *job.Job) error {
		return talk.Say(subject.Event{Event: subject.Ran, JID: j.JID(), UnixNS: time.Now().UnixNano()})
	}, launcher.Class{})
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	w.start(ctx)
	<-ctx.Done()
	return nil
}
