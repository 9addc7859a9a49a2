package main

import (
	"context"
	"fmt"
	"time"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/job"
)

// A death is the result of one kill: when each job ran again, counted from the kill, and how many did not.
type death struct {
	who         contender
	first, last time.Duration
	lost        int
	err         error
}

// said is a line of progress.
func (d *death) said() string {
	if d.lost == jobsInHand {
		return fmt.Sprintf("lost all %d jobs", d.lost)
	}
	return fmt.Sprintf("first again after %.1f s, last after %.1f s, lost %d of %d", d.first.Seconds(), d.last.Seconds(), d.lost, jobsInHand)
}

// patienceWith returns how long to wait for a contender's jobs. Sidekiq's own fetch pops a job from its list,
// so that only the process has it: none can run again, but the bench waits all the same.
func patienceWith(who contender) time.Duration {
	if who.name == "Sidekiq" {
		return time.Minute
	}
	return giveUp
}

// kill kills one worker some time after another was started, and waits for the other to run the jobs.
func (b *bench) kill(ctx context.Context, d *death, after time.Duration) error {
	task := subject.Task{Prefix: "kill:" + job.NewJID()}
	if d.who.kind != report.Belay {
		// Others have no keyspaces: each of their deaths has a Redis of its own.
		redis, err := startServer(ctx, "")
		if err != nil {
			return err
		}
		defer redis.stop()
		task.URL = redis.url
	}
	victim, err := b.hold(ctx, d.who, task)
	if err != nil {
		return err
	}
	defer victim.Close()
	task.Measure = "survivor"
	survivor, err := b.start(ctx, d.who, task)
	if err != nil {
		return err
	}
	defer survivor.Close()
	if err := survivor.Go(); err != nil {
		return err
	}
	if err := measure.Pause(ctx, after); err != nil {
		return err
	}
	killedAt := time.Now()
	victim.Kill()
	return d.watch(ctx, survivor, killedAt, patienceWith(d.who))
}

// hold starts a victim and returns when it has all its jobs in hand. The caller closes it.
func (b *bench) hold(ctx context.Context, who contender, task subject.Task) (*subject.Process, error) {
	task.Measure, task.Jobs, task.Concurrency = "victim", jobsInHand, jobsInHand
	victim, err := b.start(ctx, who, task)
	if err != nil {
		return nil, err
	}
	err = victim.Go()
	if err == nil {
		_, err = victim.Expect(ctx, subject.Holding, startWithin)
	}
	if err != nil {
		victim.Close()
		return nil, err
	}
	return victim, nil
}

// watch receives what the survivor runs, until it has run every job or the limit after the kill has passed.
func (d *death) watch(ctx context.Context, survivor *subject.Process, killedAt time.Time, limit time.Duration) error {
	ran := map[string]bool{}
	for len(ran) < jobsInHand {
		e, err := survivor.Next(ctx, time.Until(killedAt.Add(limit)))
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && time.Since(killedAt) >= limit:
			d.lost = jobsInHand - len(ran)
			return nil
		case err != nil:
			return err
		case e.Event != subject.Ran:
			return fmt.Errorf("%s said %q where only %q has a place", d.who.name, e.Event, subject.Ran)
		}
		at := time.Unix(0, e.UnixNS).Sub(killedAt.Round(0))
		if at < 0 {
			return fmt.Errorf("%s ran job %s in the survivor before the victim was killed", d.who.name, e.JID)
		}
		if len(ran) == 0 {
			d.first = at
		}
		if !ran[e.JID] {
			ran[e.JID], d.last = true, max(d.last, at)
		}
	}
	return nil
}
