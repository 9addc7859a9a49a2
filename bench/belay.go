package main

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"strconv"
	"time"

	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
)

// belaySubject is what Belay's subject does, by the task's measure.
func belaySubject() map[string]subject.Func {
	all := map[string]subject.Func{
		"version": belayVersion, "drain": pushing(belayDrain), "enqueue": pushing(belayEnqueue), "bulk": pushing(belayBulk),
		"push": pushing(belayPush), "backlog": pushing(belayBacklog),
	}
	maps.Copy(all, floorSubject())
	maps.Copy(all, timedSubject())
	return all
}

// openClient opens the client of that name.
func openClient(name, url string) (driver.Client, error) {
	switch name {
	case "", "go-redis":
		return goredisdriver.Open(url)
	case "rueidis":
		return rueidisdriver.Open(url)
	default:
		return nil, fmt.Errorf("client %q: it is go-redis or rueidis", name)
	}
}

func belayVersion(ctx context.Context, _ subject.Task, talk *subject.Talk) error {
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	return talk.Done(subject.Event{Settings: "this checkout, " + runtime.Version()})
}

// A pusher is Belay's client in a subject, its connection open.
type pusher struct {
	*client.Client
	conn driver.Client
}

// openPusher opens what the task names, and dials, so that no connection is opened while the clock runs.
func openPusher(ctx context.Context, task subject.Task) (*pusher, error) {
	conn, err := openClient(task.Client, task.URL)
	if err != nil {
		return nil, err
	}
	if err := conn.Do(ctx, driver.Command("PING"))[0].Err; err != nil {
		_ = conn.Close()
		return nil, err
	}
	c, err := client.New(conn, client.Config{Prefix: task.Prefix})
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &pusher{Client: c, conn: conn}, nil
}

// pushing is a subject that works with a pusher of its own.
func pushing(do func(ctx context.Context, task subject.Task, talk *subject.Talk, p *pusher) error) subject.Func {
	return func(ctx context.Context, task subject.Task, talk *subject.Talk) error {
		p, err := openPusher(ctx, task)
		if err != nil {
			return err
		}
		defer func() { _ = p.Close() }()
		return do(ctx, task, talk, p)
	}
}

// pushAll pushes the jobs in bulk and says how long that took.
func (p *pusher) pushAll(ctx context.Context, jobs iter.Seq[client.RawJob]) (time.Duration, error) {
	started := time.Now()
	for _, err := range p.PushSlices(ctx, jobs) {
		if err != nil {
			return 0, err
		}
	}
	return time.Since(started), nil
}

// fill is ready, pushes the jobs in bulk, says so, and holds still until the bench says go. It answers how
// long the push took.
func (p *pusher) fill(ctx context.Context, talk *subject.Talk, jobs iter.Seq[client.RawJob]) (took time.Duration, err error) {
	if err := talk.Ready(ctx); err != nil {
		return 0, err
	}
	if took, err = p.pushAll(ctx, jobs); err != nil {
		return 0, err
	}
	return took, talk.Pushed(ctx, took)
}

// noop is the job that does nothing and knows its number.
func noop(n int) client.RawJob {
	return client.RawJob{Class: "Noop", ArgsJSON: "[" + strconv.Itoa(n) + "]"}
}

func welcome(n int) client.RawJob {
	return client.RawJob{Class: "WelcomeEmail", ArgsJSON: "[" + strconv.Itoa(n) + `,"welcome",{"locale":"en"}]`}
}

// numbered are so many jobs, from 0.
func numbered(jobs int, make func(n int) client.RawJob) iter.Seq[client.RawJob] {
	return func(yield func(client.RawJob) bool) {
		for n := range jobs {
			if !yield(make(n)) {
				return
			}
		}
	}
}

// belayPush stores the jobs and holds still, for the bench to look at the store.
func belayPush(ctx context.Context, task subject.Task, talk *subject.Talk, p *pusher) error {
	took, err := p.fill(ctx, talk, numbered(task.Jobs, welcome))
	if err != nil {
		return err
	}
	return talk.Done(subject.Event{Seconds: took.Seconds(), Settings: "in bulk"})
}
