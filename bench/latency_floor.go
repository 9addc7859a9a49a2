package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
)

// The lists of the pingpong.
const pingList, pongList = "ping", "pong"

// pingpong is the floor of latency, the least that an idle queue on Redis can be: the same open loop, in which
// one connection blocks in BLMOVE and another sends LPUSH. No script is in it.
func pingpong(ctx context.Context, task subject.Task, talk *subject.Talk, p *pusher) error {
	waiter, err := p.conn.Waiter()
	if err != nil {
		return err
	}
	defer func() { _ = waiter.Close() }()
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	timing := measure.NewTiming(measure.Count(task))
	taking, stop := context.WithCancel(ctx)
	taken := make(chan error, 1)
	go func() { taken <- takeAll(taking, waiter, timing) }()
	sent, err := measure.OpenLoop(ctx, task, timing.Due, func(n int) error {
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
