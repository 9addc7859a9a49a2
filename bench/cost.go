package main

import (
	"context"
	"time"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

// A cost is what a run costs Redis, seen from outside at each event.
type cost struct {
	b     *bench
	who   contender
	cpu   map[string]time.Duration
	calls map[string]int64
	trips map[string]int64
}

func (b *bench) costs(c contender) *cost {
	return &cost{b: b, who: c, cpu: map[string]time.Duration{}, calls: map[string]int64{}, trips: map[string]int64{}}
}

// at looks at Redis. The subject waits meanwhile, or has just ended.
func (c *cost) at(ctx context.Context, e subject.Event) (err error) {
	if c.who.postgres {
		return nil
	}
	if c.cpu[e.Event], err = redisCPU(ctx, c.b.look); err != nil {
		return err
	}
	if c.calls[e.Event], err = scriptCalls(ctx, c.b.look); err != nil {
		return err
	}
	c.trips[e.Event], err = roundTrips(ctx, c.b.look)
	return err
}

// perJob are the figures of one job, by metric. Script calls are those of Belay: what another system calls
// scripts may do any part of the work.
func (c *cost) perJob(jobs int) map[string]float64 {
	if c.who.postgres {
		return nil
	}
	figures := map[string]float64{
		"redis push": perJob(c.cpu[subject.Pushed]-c.cpu[subject.Ready], jobs),
		"redis run":  perJob(c.cpu[subject.Done]-c.cpu[subject.Pushed], jobs),
	}
	if c.who.kind != report.Peer {
		figures["script calls"] = float64(c.calls[subject.Done]-c.calls[subject.Pushed]) / float64(jobs)
		figures["round trips"] = float64(c.trips[subject.Done]-c.trips[subject.Pushed]) / float64(jobs)
	}
	return figures
}
