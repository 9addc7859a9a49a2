package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/bench/subject"
)

// belayEnqueue enqueues one job a call, from several goroutines that share one client, as handlers of
// requests would.
func belayEnqueue(ctx context.Context, task subject.Task, talk *subject.Talk, p *pusher) error {
	// One push each beforehand: a client's connections are dialled when they are first needed.
	if err := p.enqueueAll(ctx, task.Producers, task.Producers); err != nil {
		return err
	}
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	started := time.Now()
	if err := p.enqueueAll(ctx, task.Producers, task.Jobs); err != nil {
		return err
	}
	return talk.Done(subject.Event{
		Seconds: time.Since(started).Seconds(), Settings: fmt.Sprintf("%d goroutines, one client", task.Producers),
	})
}

func (p *pusher) enqueueAll(ctx context.Context, producers, jobs int) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, producers)
	for i := range producers {
		group.Go(func() {
			for errs[i] == nil {
				n := int(next.Add(1)) - 1
				if n >= jobs {
					return
				}
				_, errs[i] = p.Push(ctx, noop(n))
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// belayBulk pushes the same jobs in bulk, from one goroutine.
func belayBulk(ctx context.Context, task subject.Task, talk *subject.Talk, p *pusher) error {
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	took, err := p.pushAll(ctx, numbered(task.Jobs, noop))
	if err != nil {
		return err
	}
	return talk.Done(subject.Event{Seconds: took.Seconds(), Settings: "PushSlices, one goroutine"})
}
