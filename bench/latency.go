package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
)

// idleRate is how many jobs a second come to an idle worker. They come one by one: the gaps, 25 ms on
// average, are many times what a job takes with any system that waits for jobs. With one that looks for them
// from time to time, asynq above all, which by default looks at an empty queue once a second, the rate
// changes little: a look takes all that is there, so that a job that comes at any moment finds the same sleep
// before it as on a queue where nothing has come for hours.
const idleRate = 40

// idleConcurrency is how many jobs the idle worker could run at once: Belay's default. There is never more
// than one or two.
const idleConcurrency = 25

var latencyMeasure = measurement{
	name:  "latency",
	title: "Picking up a job on an idle queue",
	short: "How soon after its push a job starts in a worker that has nothing else to do",
	what: fmt.Sprintf("A worker is idle. Jobs come one by one, %d a second, at instants that were drawn before the first of them. "+
		"What is counted is the time from the intended instant, not from the call, to the first line of the handler: if a system stalls, "+
		"all jobs that come in that time are late. Enqueuing and running happen in the same process, over the same Redis.", idleRate),
	read: "The floor is a bare BLMOVE that another connection's LPUSH ends: no system on Redis can be faster over that client on this " +
		"machine. The rest is scripts, JSON and goroutines. Each percentile is computed for each run, and the median of the runs is shown. If a run has " +
		"fewer than a thousand jobs, its p99.9 is its slowest job. Redis' processor time shows the price: a worker that polls often " +
		"finds jobs soon, but polls all day.",
	unused:  []string{"jobs", "profile"},
	metrics: append(report.LatencyMetrics("ms"), report.Metric{Name: "redis CPU", Unit: "% of a core", Less: true}),
	run:     latency,
}

func latency(ctx context.Context, b *bench, r *report.Result) error {
	seconds := 6.0
	if b.full {
		seconds = 60
	}
	task := subject.Task{Measure: "latency", Rate: idleRate, Seconds: seconds, Concurrency: b.pick(b.concurrency, idleConcurrency, idleConcurrency)}
	var turns []turn
	for _, v := range b.variants(r, "asynq", "River") {
		task.Best = v.best
		turns = append(turns, b.latencyTurn(r, v.who, v.name, task))
	}
	task.Measure, task.Best = "pingpong", false
	for _, who := range b.floors("bare BLMOVE") {
		turns = append(turns, b.latencyTurn(r, who, "", task))
	}
	return b.rounds(ctx, r, b.repeats(2, 5), turns)
}

func (b *bench) latencyTurn(r *report.Result, who contender, which string, task subject.Task) turn {
	return b.turn(r, who, which, task, func(f found) (map[string]float64, string) {
		latency := report.NewLatency(f.LatenciesUS)
		figures := latency.Percentiles(usPerMS)
		if !who.postgres {
			figures["redis CPU"] = f.share(subject.Ready, subject.Done)
		}
		return figures, saidLatency(latency, f.Extra)
	})
}

// saidLatency returns a line of progress. It includes how late jobs were sent if the subject reports that.
func saidLatency(latency *report.Latency, extra map[string]float64) string {
	text := fmt.Sprintf("p50 %s ms, p99 %s ms", report.Figure(latency.At(50)/usPerMS), report.Figure(latency.At(99)/usPerMS))
	if late, known := extra["sent_late_us"]; known {
		text += fmt.Sprintf(", sent %s µs late", report.Figure(late))
	}
	return text
}

const usPerMS = 1000

// The lists of the pingpong.
const pingList, pongList = "ping", "pong"

// pingpong is the floor of latency, the minimum for an idle queue on Redis: the same open loop, in which one
// connection blocks in BLMOVE and another sends LPUSH, without scripts.
func pingpong(ctx context.Context, talk *subject.Talk, p *belayPeer) error {
	waiter, err := p.conn.Waiter()
	if err != nil {
		return err
	}
	defer func() { _ = waiter.Close() }()
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	timing := measure.NewTiming(measure.Count(p.task))
	taking, stop := context.WithCancel(ctx)
	taken := make(chan error, 1)
	go func() { taken <- takeAll(taking, waiter, timing) }()
	sent, err := measure.OpenLoop(ctx, p.task, timing.Due, func(n int) error {
		return p.conn.Do(ctx, driver.Command("LPUSH", pingList, strconv.Itoa(n)))[0].Err
	})
	if err != nil {
		stop()
		return errors.Join(err, <-taken)
	}
	e, err := timing.Finish(ctx)
	stop()
	if err := errors.Join(err, <-taken); err != nil {
		return err
	}
	e.Settings, e.Extra = "a blocked BLMOVE and an LPUSH", sent
	return talk.Done(e)
}

// takeAll takes values until all have come or ctx ends.
func takeAll(ctx context.Context, waiter driver.Waiter, timing *measure.Timing) error {
	for ctx.Err() == nil && timing.Left() > 0 {
		value, ok, err := waiter.Wait(ctx, pingList, pongList, time.Second)
		now := time.Now()
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err != nil || !ok {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		if err := timing.Starts(n, now); err != nil {
			return err
		}
	}
	return nil
}
