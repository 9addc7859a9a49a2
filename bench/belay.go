package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/limit"
)

// belaySubject returns what Belay's subject does, by the task's measure: what its peers do too, what is
// measured with Belay alone, and the floors.
func belaySubject() map[string]subject.Func {
	all := measure.Of(measure.System{Name: "Belay", Open: func(ctx context.Context, task subject.Task) (measure.Peer, error) {
		return openBelay(ctx, task)
	}})
	all["backlog"], all["fleet"] = withBelay(belayBacklog), fleetSubject
	all["floor-drain"], all["pingpong"] = withBelay(floorDrain), withBelay(pingpong)
	floor := measure.Of(measure.System{Name: "bare commands", Open: openFloor})
	for _, name := range []string{"enqueue", "bulk", "push"} {
		all["floor-"+name] = floor[name]
	}
	return all
}

// openClient opens the client of that name.
func openClient(name, url string, options ...driver.Option) (driver.Client, error) {
	switch name {
	case "", "go-redis":
		return goredisdriver.Open(url, options...)
	case "rueidis":
		return rueidisdriver.Open(url, options...)
	default:
		return nil, fmt.Errorf("client %q: it is go-redis or rueidis", name)
	}
}

// A belayPeer is Belay in a subject: a client, and a worker over the same connections.
type belayPeer struct {
	*client.Client
	conn   driver.Client // of the first shard, if there are several
	task   subject.Task
	worker *launcher.Launcher
	ended  chan error // nil until the worker runs
}

// openBelay opens what the task names. It dials as many connections as there are producers, so that none is
// dialled while the clock runs. The caller closes it.
func openBelay(ctx context.Context, task subject.Task) (*belayPeer, error) {
	c, err := client.Open(task.URL, client.Config{Prefix: task.Prefix}, func(url string, options ...driver.Option) (driver.Client, error) {
		return openClient(task.Client, url, options...)
	})
	if err != nil {
		return nil, err
	}
	for _, space := range c.Spaces() {
		callers := max(1, task.Producers)
		if err := measure.Share(callers, callers, func(int) error { return space.Driver.Do(ctx, driver.Command("PING"))[0].Err }); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return &belayPeer{Client: c, conn: c.Driver(), task: task}, nil
}

// withBelay returns a subject that does one measure with Belay's client open.
func withBelay(do func(ctx context.Context, talk *subject.Talk, p *belayPeer) error) subject.Func {
	return func(ctx context.Context, task subject.Task, talk *subject.Talk) error {
		p, err := openBelay(ctx, task)
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, talk, p), p.Close(ctx))
	}
}

// Enqueue stores one job.
func (p *belayPeer) Enqueue(ctx context.Context, j measure.Job) error {
	_, err := p.Push(ctx, raw(j))
	return err
}

// EnqueueAll stores jobs in bulk.
func (p *belayPeer) EnqueueAll(ctx context.Context, count int, job func(n int) measure.Job) error {
	var batch *client.Batch
	if p.task.Batch {
		var err error
		if batch, err = p.NewBatch(ctx, client.BatchConfig{}); err != nil {
			return err
		}
	}
	for _, err := range p.PushSlices(ctx, rawJobs(count, job, batch)) {
		if err != nil {
			return err
		}
	}
	if batch == nil {
		return nil
	}
	return batch.Seal(ctx)
}

// rawJobs yields jobs, members of a batch unless that is nil.
func rawJobs(count int, job func(n int) measure.Job, batch *client.Batch) iter.Seq[client.RawJob] {
	return func(yield func(client.RawJob) bool) {
		for n := range count {
			j := raw(job(n))
			j.Batch = batch
			if !yield(j) {
				return
			}
		}
	}
}

func raw(j measure.Job) client.RawJob {
	args := "[" + strconv.Itoa(j.N) + "]"
	if j.Class == measure.Email {
		args = args[:len(args)-1] + `,"welcome",{"locale":"en"}]`
	}
	return client.RawJob{Class: j.Class, ArgsJSON: args, Queue: j.Queue, At: j.DueAt}
}

// fill reports that it is ready, stores the jobs in bulk, reports that, and waits until the bench says go.
func (p *belayPeer) fill(ctx context.Context, talk *subject.Talk, jobs int) error {
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := p.EnqueueAll(ctx, jobs, measure.Noops); err != nil {
		return err
	}
	return talk.Pushed(ctx, time.Since(began))
}

// bestConcurrency is what Belay chooses for itself when it is asked for its best: a batch is half of it, and
// more than a hundred in a batch bring little more.
const bestConcurrency = 200

// alone says that the worker leaves all cores but one to Redis. Jobs that do nothing are run by one of Go's
// processors as fast as by two. Jobs that compute want all of them, so this is no default.
func (p *belayPeer) alone() bool {
	return p.task.Best && p.task.Measure == "drain" && runtime.NumCPU() <= 2
}

// Start starts a worker with Belay's defaults in everything but the queue and the concurrency. One that runs
// timed jobs has run a job before, so that its scripts are loaded.
func (p *belayPeer) Start(ctx context.Context, queue string, handle measure.Handler) error {
	config := launcher.Config{Concurrency: p.task.Concurrency}
	if queue != "" {
		config.Queues = []fetch.Queue{{Name: queue}}
	}
	if p.task.Measure == "drain" && p.task.Best {
		p.task.Concurrency, config.Concurrency = bestConcurrency, bestConcurrency
	}
	if err := p.employ(config); err != nil {
		return err
	}
	p.worker.Handle(measure.Noop, func(_ context.Context, j *job.Job) error {
		args := j.ArgsJSON()
		n, err := strconv.Atoi(args[1 : len(args)-1])
		if err != nil {
			return err
		}
		return handle(n, j.JID())
	}, p.class())
	if p.alone() {
		runtime.GOMAXPROCS(1)
	}
	if p.task.Profile != "" {
		file, err := os.Create(p.task.Profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil { // until Close; the process ends soon after
			return err
		}
	}
	if measure.Timed(p.task.Measure) {
		return p.warm(ctx)
	}
	p.run(ctx)
	return nil
}

// class is how the jobs are run: with the task's limit, if it has one.
func (p *belayPeer) class() launcher.Class {
	if p.task.Limit == 0 {
		return launcher.Class{}
	}
	return launcher.Class{Limit: &launcher.ClassLimit{
		Limit: limit.Limit{Name: "bench", Concurrency: p.task.Limit},
		Key: func(j *job.Job) (string, error) {
			args := j.ArgsJSON()
			n, err := strconv.Atoi(args[1 : len(args)-1])
			return strconv.Itoa(p.task.KeyOf(n)), err
		},
	}}
}

// employ makes the worker. Zero fields of the config mean Belay's defaults.
func (p *belayPeer) employ(config launcher.Config) (err error) {
	for _, space := range p.Spaces() {
		config.Shards = append(config.Shards, launcher.Shard{Name: space.Name, Client: space.Driver, Prefix: space.Prefix})
	}
	config.Home = p.Home()
	p.worker, err = launcher.New(config)
	return err
}

// run starts the worker.
func (p *belayPeer) run(ctx context.Context) {
	p.ended = make(chan error, 1)
	go func() { p.ended <- p.worker.Run(ctx) }()
}

// startWithin is how long a worker may take to run its first job. It takes milliseconds.
const startWithin = 30 * time.Second

// warm starts the worker and returns when it has run a job.
func (p *belayPeer) warm(ctx context.Context) error {
	const warmUp = "WarmUp"
	up := make(chan struct{}, 1)
	p.worker.Handle(warmUp, func(context.Context, *job.Job) error {
		up <- struct{}{}
		return nil
	}, launcher.Class{})
	p.run(ctx)
	if _, err := p.Push(ctx, client.RawJob{Class: warmUp}); err != nil {
		return err
	}
	if err := measure.Await(ctx, up, startWithin); err != nil {
		return fmt.Errorf("a worker that has just started ran no job: %w", err)
	}
	return nil
}

// Rest does nothing: Redis is as it was.
func (p *belayPeer) Rest(context.Context) error { return nil }

// WaitAcknowledged waits until so many runs have been counted: a run is counted in the step that settles it.
func (p *belayPeer) WaitAcknowledged(ctx context.Context, runs int) error {
	last, moved := 0, time.Now()
	for {
		processed, err := p.processed(ctx)
		switch {
		case err != nil || processed == runs:
			return err
		case processed != last:
			last, moved = processed, time.Now()
		case time.Since(moved) > startWithin:
			return fmt.Errorf("stuck: %d of %d jobs done and nothing has moved for %v", processed, runs, startWithin)
		}
		if err := measure.Pause(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// processed returns how many runs have been counted.
func (p *belayPeer) processed(ctx context.Context) (sum int, err error) {
	for _, space := range p.Spaces() {
		reply := space.Driver.Do(ctx, driver.Command("GET", space.Keys.Processed()))[0]
		if reply.Err != nil {
			return 0, reply.Err
		}
		text, counted := reply.Value.(string)
		if !counted {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Settings returns the settings in use.
func (p *belayPeer) Settings() string {
	switch {
	case p.task.Measure == "enqueue":
		return fmt.Sprintf("%d goroutines, one client", p.task.Producers)
	case measure.Stores(p.task.Measure):
		return "PushSlices, called by one goroutine"
	case p.alone():
		return fmt.Sprintf("concurrency %d, GOMAXPROCS 1", p.task.Concurrency)
	case p.task.Measure == "drain":
		return fmt.Sprintf("concurrency %d, default settings", p.task.Concurrency)
	}
	return "default settings"
}

// Close stops the worker, if there is one, and closes the connections.
func (p *belayPeer) Close(context.Context) error {
	var stopped error
	if p.ended != nil {
		p.worker.Stop()
		stopped = <-p.ended
		p.ended = nil
	}
	pprof.StopCPUProfile()
	return errors.Join(stopped, p.Client.Close())
}
