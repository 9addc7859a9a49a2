package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/job"
)

var recoveryMeasure = measure{
	name:  "recovery",
	title: "Running a killed worker's jobs again",
	short: "How long after a kill -9 the jobs that a worker had in hand run again in another",
	what: fmt.Sprintf("A worker process has %d jobs in hand, another stands by with the library's default settings. The first is killed "+
		"with SIGKILL. What is counted is the time from the kill until the survivor's handler has each of the jobs.", jobsInHand),
	read: "These are waits for timeouts and not work: they hardly depend on the machine, and they vary with the moment of the kill, so " +
		"look at the spread over the kills. A job is lost if it has not run when the bench stops waiting, " + giveUp.String() +
		" after the kill unless a note says otherwise.",
	metrics: []report.Metric{
		{Name: "last job", Unit: "s", Less: true, Log: true, Plot: true},
		{Name: "first job", Unit: "s", Less: true, Log: true},
		{Name: "lost", Unit: "jobs", Less: true},
	},
	run: recovery,
}

const (
	// jobsInHand is how many jobs the victim has: more than one, for they come back in batches, one after the other, or not.
	jobsInHand = 10
	// standBy is how long the survivor has lived when the victim dies. In production it is not a moment old, and one that
	// is has not yet seen enough of the others to judge them.
	standBy = 15 * time.Second
	// anyPhase is over how long kills are spread: longer than the period of any heartbeat here.
	anyPhase = 5 * time.Second
	// giveUp is when a job counts as lost. asynq's recoverer looks once a minute for leases that expired half a minute ago,
	// and what it finds waits as a retry: nearly three minutes at worst.
	giveUp = 4 * time.Minute
	// atOnce is how many victims of one contender live at the same time, each in a store of its own. All of them wait.
	atOnce = 5
)

// unfetched are peers that know nothing any more of a job once it is fetched, and how long they are waited for all the same.
var unfetched = map[string]time.Duration{"sidekiq": time.Minute}

// A death is what one kill led to: when each job ran again, counted from the kill, and how many did not.
type death struct {
	who         contender
	first, last time.Duration
	lost        int
	err         error
}

func recovery(ctx context.Context, b *bench, r *report.Result) error {
	if err := b.empty(ctx); err != nil {
		return err
	}
	left := map[string]int{}
	var contenders []contender
	for _, who := range b.belays() {
		contenders = append(contenders, who)
		left[who.name] = b.repeats(3, 20)
	}
	for _, who := range b.able(r) {
		if who.postgres {
			b.leaveOut(r, who.name, "it takes a job for lost that has been running for an hour, its default; nobody waited")
			continue
		}
		contenders = append(contenders, who)
		left[who.name] = b.pick(0, 1, 5)
		if limit, known := unfetched[who.name]; known {
			r.Notes = append(r.Notes, fmt.Sprintf("%s forgets a job as it fetches it; it was waited for for %v.", who.name, limit))
		}
	}
	for more := true; more; {
		var wave []contender
		more = false
		for _, who := range contenders {
			for range min(left[who.name], atOnce) {
				wave = append(wave, who)
				left[who.name]--
			}
			more = more || left[who.name] > 0
		}
		if err := b.deaths(ctx, r, wave); err != nil {
			return err
		}
	}
	return nil
}

// deaths kills a worker of each, all at the same time.
func (b *bench) deaths(ctx context.Context, r *report.Result, wave []contender) error {
	b.say("  %d workers are killed, and waited for for %v at most", len(wave), giveUp)
	died := make(chan death)
	var dying sync.WaitGroup
	for _, who := range wave {
		dying.Go(func() { died <- b.kill(ctx, who) })
	}
	go func() {
		dying.Wait()
		close(died)
	}()
	var wrong error
	failed := map[string]bool{}
	for d := range died {
		switch {
		case d.err == nil:
			b.tell(r, d)
		case d.who.kind != report.Peer || ctx.Err() != nil:
			wrong = d.err
		case !failed[d.who.name]:
			failed[d.who.name] = true
			b.leaveOut(r, d.who.name, d.err.Error())
		}
	}
	return wrong
}

// tell adds a death's figures. A contender that lost everything has no times.
func (b *bench) tell(r *report.Result, d death) {
	row := d.who.row("")
	row.Settings = "default settings"
	row.Metric = "lost"
	r.Add(row, float64(d.lost))
	if d.lost < jobsInHand {
		row.Metric = "first job"
		r.Add(row, d.first.Seconds())
	}
	if d.lost == 0 {
		row.Metric = "last job"
		r.Add(row, d.last.Seconds())
	}
	b.say("  %-22s first again after %.1f s, last after %.1f s, lost %d of %d", d.who.name, d.first.Seconds(), d.last.Seconds(), d.lost, jobsInHand)
}

// kill has one worker of a contender killed, and waits for another of its to run the jobs.
func (b *bench) kill(ctx context.Context, who contender) (d death) {
	d = death{who: who}
	d.err = func() error {
		task := subject.Task{Measure: "victim", Jobs: jobsInHand, Concurrency: jobsInHand}
		if who.kind == report.Belay {
			task.Prefix = "kill:" + job.NewJID()
		} else {
			// Others have no keyspaces: each of their deaths has a Redis of its own.
			redis, err := startServer(ctx, "")
			if err != nil {
				return err
			}
			defer redis.stop()
			task.URL = redis.url
		}
		victim, err := b.start(ctx, who, task)
		if err != nil {
			return err
		}
		defer victim.Close()
		if err := victim.Go(); err != nil {
			return err
		}
		if _, err := victim.Expect(ctx, subject.Holding, startWithin); err != nil {
			return err
		}
		task.Measure, task.Jobs, task.Concurrency = "survivor", 0, 0
		survivor, err := b.start(ctx, who, task)
		if err != nil {
			return err
		}
		defer survivor.Close()
		if err := survivor.Go(); err != nil {
			return err
		}
		if err := pause(ctx, standBy+rand.N(anyPhase)); err != nil {
			return err
		}
		killedAt := time.Now()
		victim.Kill()
		return d.watch(ctx, survivor, killedAt)
	}()
	return d
}

// watch hears what the survivor runs until it has run everything, or is given up.
func (d *death) watch(ctx context.Context, survivor *subject.Process, killedAt time.Time) error {
	limit := giveUp
	if its, known := unfetched[d.who.name]; known {
		limit = its
	}
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
		case ran[e.JID]:
			continue
		}
		at := time.Unix(0, e.UnixNS).Sub(killedAt.Round(0))
		if at < 0 {
			return fmt.Errorf("%s ran a job in the survivor before the victim was killed", d.who.name)
		}
		if len(ran) == 0 {
			d.first = at
		}
		ran[e.JID] = true
		d.last = max(d.last, at)
	}
	return nil
}
