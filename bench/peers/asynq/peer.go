// Command asynq is the subject that measures asynq, a job system on Redis written in Go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/subject"
)

// system is asynq. It takes part in every measure.
var system = measure.System{Name: "asynq", Module: "github.com/hibiken/asynq", Open: open}

func main() { measure.Main(system) }

// defaultQueue is asynq's own name for it.
const defaultQueue = "default"

// A peer is asynq, connected.
type peer struct {
	settings settings
	conn     redis.UniversalClient // shared by client, worker and the reading of the counter, as asynq allows
	client   *asynq.Client
	worker   *asynq.Server // nil until Start
	queue    string        // the queue that the worker takes from
	before   int           // the counter of completed tasks when the worker started
}

func open(ctx context.Context, task subject.Task) (measure.Peer, error) {
	options, err := redis.ParseURL(task.URL)
	if err != nil {
		return nil, err
	}
	p := &peer{settings: choose(task), queue: defaultQueue}
	options.PoolSize = p.settings.connections
	p.conn = redis.NewClient(options)
	if err := p.conn.Ping(ctx).Err(); err != nil {
		return nil, err
	}
	p.client = asynq.NewClientFromRedisClient(p.conn)
	return p, nil
}

// Enqueue stores one task.
func (p *peer) Enqueue(ctx context.Context, job measure.Job) error {
	payload, err := payload(job)
	if err != nil {
		return err
	}
	var options []asynq.Option
	if job.Queue != "" {
		options = append(options, asynq.Queue(job.Queue))
	}
	if !job.DueAt.IsZero() {
		options = append(options, asynq.ProcessAt(job.DueAt))
	}
	_, err = p.client.EnqueueContext(ctx, asynq.NewTask(job.Class, payload), options...)
	return err
}

func payload(job measure.Job) ([]byte, error) {
	args := []any{job.N}
	if job.Class == measure.Email {
		args = append(args, "welcome", map[string]string{"locale": "en"})
	}
	return json.Marshal(args)
}

// EnqueueAll stores tasks one by one from many goroutines: asynq has no call that stores several.
func (p *peer) EnqueueAll(ctx context.Context, count int, job func(n int) measure.Job) error {
	return measure.Share(count, bulkCallers, func(n int) error { return p.Enqueue(ctx, job(n)) })
}

// Rest does nothing: Redis is as it was.
func (p *peer) Rest(context.Context) error { return nil }

// Start starts one server.
func (p *peer) Start(ctx context.Context, queue string, handle measure.Handler) (err error) {
	if p.settings.alone {
		runtime.GOMAXPROCS(1)
	}
	config := asynq.Config{
		Concurrency:              p.settings.concurrency,
		LogLevel:                 asynq.FatalLevel,
		TaskCheckInterval:        p.settings.checkInterval,
		DelayedTaskCheckInterval: p.settings.checkInterval,
		// What the documentation says of a handler that got no permit: it is run again, and has not failed.
		IsFailure: func(err error) bool { return !errors.Is(err, measure.ErrBusy) },
		RetryDelayFunc: func(n int, err error, task *asynq.Task) time.Duration {
			if errors.Is(err, measure.ErrBusy) {
				return measure.Later()
			}
			return asynq.DefaultRetryDelayFunc(n, err, task)
		},
	}
	if queue != "" {
		p.queue = queue
		config.Queues = map[string]int{queue: 1}
	}
	if p.before, err = p.completed(ctx); err != nil {
		return err
	}
	p.worker = asynq.NewServerFromRedisClient(p.conn, config)
	return p.worker.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		var args []any
		if err := json.Unmarshal(task.Payload(), &args); err != nil {
			return err
		}
		n, ok := args[0].(float64)
		if !ok {
			return fmt.Errorf("task %s has no number", task.Payload())
		}
		return handle(int(n), task.ResultWriter().TaskID())
	}))
}

// completed reads asynq's counter, which it raises in the script that ends a task.
func (p *peer) completed(ctx context.Context) (int, error) {
	count, err := p.conn.Get(ctx, "asynq:{"+p.queue+"}:processed").Int()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return count, err
}

// WaitAcknowledged asks every 2 ms: that is little beside a worker's own commands, and little beside a drain.
func (p *peer) WaitAcknowledged(ctx context.Context, runs int) error {
	for {
		count, err := p.completed(ctx)
		if err != nil || count-p.before >= runs {
			return err
		}
		if err := measure.Pause(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// Settings are those in use.
func (p *peer) Settings() string { return p.settings.String() }

// Close stops the worker and deletes the queue.
func (p *peer) Close(context.Context) error {
	if p.worker != nil {
		p.worker.Shutdown()
	}
	err := asynq.NewInspectorFromRedisClient(p.conn).DeleteQueue(p.queue, true)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		err = nil
	}
	return errors.Join(err, p.conn.Close())
}
