package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// A timedWorker is Belay where times are measured: a client that puts jobs in, and a worker over the same
// connections.
type timedWorker struct {
	*pusher
	worker *launcher.Launcher
	ended  chan error // nil until the worker runs
}

// openTimed opens the connections. What config does not say is Belay's default. The caller closes it.
func openTimed(ctx context.Context, task subject.Task, config launcher.Config) (*timedWorker, error) {
	p, err := openPusher(ctx, task)
	if err != nil {
		return nil, err
	}
	config.Client, config.Prefix = p.conn, task.Prefix
	worker, err := launcher.New(config)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return &timedWorker{pusher: p, worker: worker}, nil
}

// start starts the worker.
func (w *timedWorker) start(ctx context.Context) {
	w.ended = make(chan error, 1)
	go func() { w.ended <- w.worker.Run(ctx) }()
}

// close stops the worker, if it was started, and closes the connections.
func (w *timedWorker) close() error {
	var stopped error
	if w.ended != nil {
		w.worker.Stop()
		stopped = <-w.ended
	}
	return errors.Join(stopped, w.Close())
}

// startWithin is how long a worker may take to run its first job. It takes milliseconds.
const startWithin = 30 * time.Second

// A belayPeer is Belay at the measures that package measure does.
type belayPeer struct {
	*timedWorker
	task subject.Task
}

// timed are the measures in which Belay is asked in the same way as its peers.
func timed() map[string]subject.Func {
	all := measure.Of(measure.System{Name: "Belay", Open: func(ctx context.Context, task subject.Task) (measure.Peer, error) {
		p, err := openPusher(ctx, task)
		return &belayPeer{timedWorker: &timedWorker{pusher: p}, task: task}, err
	}})
	maps.DeleteFunc(all, func(name string, _ subject.Func) bool {
		return !slices.Contains([]string{"latency", "schedule", "burst", "victim", "survivor"}, name)
	})
	return all
}

func (p *belayPeer) Enqueue(ctx context.Context, j measure.Job) error {
	_, err := p.Push(ctx, clientJob(j))
	return err
}

func (p *belayPeer) EnqueueAll(ctx context.Context, count int, of func(n int) measure.Job) error {
	_, err := p.pushAll(ctx, numbered(count, func(n int) client.RawJob { return clientJob(of(n)) }))
	return err
}

func clientJob(of measure.Job) client.RawJob {
	j := noop(of.N)
	j.Queue, j.At = of.Queue, of.DueAt
	return j
}

// Start starts a worker with Belay's defaults in everything but the queue and the concurrency. One that runs
// timed jobs has run a job before, so that its scripts are loaded.
func (p *belayPeer) Start(ctx context.Context, queue string, handle measure.Handler) (err error) {
	config := launcher.Config{Client: p.conn, Prefix: p.task.Prefix, Concurrency: p.task.Concurrency}
	if queue != "" {
		config.Queues = []fetch.Queue{{Name: queue}}
	}
	if p.worker, err = launcher.New(config); err != nil {
		return err
	}
	p.worker.Handle("Noop", func(_ context.Context, j *job.Job) error {
		n, err := numberOf(j)
		if err != nil {
			return err
		}
		return handle(n, j.JID())
	}, launcher.Class{})
	if queue != "" {
		p.start(ctx)
		return nil
	}
	return p.warm(ctx)
}

func (p *belayPeer) Rest(context.Context) error                  { return nil }
func (p *belayPeer) WaitAcknowledged(context.Context, int) error { return errors.ErrUnsupported } // for drains
func (p *belayPeer) Settings() string                            { return "default settings" }
func (p *belayPeer) Close(context.Context) error                 { return p.close() }

// warmUp is the class of the job that shows that the worker is up.
const warmUp = "WarmUp"

// warm starts the worker and returns when it has run a job.
func (w *timedWorker) warm(ctx context.Context) error {
	up := make(chan struct{}, 1)
	w.worker.Handle(warmUp, func(context.Context, *job.Job) error {
		up <- struct{}{}
		return nil
	}, launcher.Class{})
	w.start(ctx)
	if _, err := w.Push(ctx, client.RawJob{Class: warmUp}); err != nil {
		return err
	}
	if err := measure.Await(ctx, up, startWithin); err != nil {
		return fmt.Errorf("a worker that has just started ran no job: %w", err)
	}
	return nil
}
