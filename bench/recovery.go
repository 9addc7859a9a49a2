package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/belayq/belay/bench/report"
)

var recoveryMeasure = measurement{
	name:  "recovery",
	title: "Running a killed worker's jobs again",
	short: "How long after kill -9 of a worker its jobs run again in another",
	what: fmt.Sprintf("A worker process has %d jobs in hand, and another is idle, with the library's default settings. The first is killed "+
		"with SIGKILL. Measured is the time from the kill until the survivor's handler has each of the jobs.", jobsInHand),
	read: "These are waits for timeouts, not work: they hardly depend on the machine, but vary with the moment of the kill, so " +
		"look at the spread over the kills. A job is lost if it has not run when the bench stops waiting, " + giveUp.String() +
		" after the kill unless a note says otherwise.",
	unused: []string{"jobs", "concurrency", "profile"},
	metrics: []report.Metric{
		{Name: "last job", Unit: "s", Less: true, Log: true, Plot: true},
		{Name: "first job", Unit: "s", Less: true, Log: true},
		{Name: lostJobs, Unit: "jobs, all kills", Less: true, Of: jobsInHand},
	},
	run: recovery,
}

// lostJobs is the column of jobs that never ran again.
const lostJobs = "lost"

const (
	// jobsInHand is how many jobs the victim has: more than one, for they come back in batches, one after the
	// other, or not.
	jobsInHand = 10
	// standBy is how long the survivor has lived when the victim dies. In production it is not a moment old,
	// and one that is has not yet seen enough of the others to judge them.
	standBy = 15 * time.Second
	// anyPhase is over how long kills are spread: longer than the period of any heartbeat here.
	anyPhase = 5 * time.Second
	// giveUp is when a job counts as lost. asynq's recoverer looks once a minute for leases that expired half
	// a minute ago, and what it finds waits as a retry: nearly three minutes at worst.
	giveUp = 4 * time.Minute
	// atOnce is how many victims live at the same time, each in a store of its own. All of them wait.
	atOnce = 20
)

func recovery(ctx context.Context, b *bench, r *report.Result) error {
	if err := b.empty(ctx); err != nil {
		return err
	}
	var contenders []contender // each as often as it is killed
	add := func(who contender, kills int) {
		contenders = append(contenders, slices.Repeat([]contender{who}, kills)...)
	}
	for _, who := range b.belays() {
		add(who, b.repeats(3, 20))
	}
	for _, who := range b.able(r) {
		add(who, b.pick(0, 1, 5))
		if waited := patienceWith(who); waited < giveUp {
			r.Notes = append(r.Notes, fmt.Sprintf("%s takes a job out of Redis as it fetches it; the bench stopped waiting after %v.", who.name, waited))
		}
	}
	for wave := range slices.Chunk(contenders, atOnce) {
		if err := b.deaths(ctx, r, wave); err != nil {
			return err
		}
	}
	noteLosses(r)
	return nil
}

// noteLosses notes which systems lost jobs, and in how many kills. These kills have no last job, so its
// column contains only the others.
func noteLosses(r *report.Result) {
	for _, row := range r.Rows {
		kills := 0
		for _, lost := range row.Values {
			if row.Metric == lostJobs && lost > 0 {
				kills++
			}
		}
		if kills > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%s lost jobs in %d of %d kills, %d of %d at worst; \"last job\" is of the other kills alone.",
				row.Name(), kills, len(row.Values), int(slices.Max(row.Values)), jobsInHand))
		}
	}
}

// deaths kills a worker of each, all at the same time.
func (b *bench) deaths(ctx context.Context, r *report.Result, wave []contender) error {
	b.say("  %d workers are killed, and waited for for %v at most", len(wave), giveUp)
	died := make([]death, len(wave))
	var dying sync.WaitGroup
	for i, who := range wave {
		dying.Go(func() {
			died[i].who = who
			died[i].err = b.kill(ctx, &died[i], standBy+rand.N(anyPhase))
		})
	}
	dying.Wait()
	var err error
	failed := map[string]bool{}
	for _, d := range died {
		switch {
		case d.err == nil:
			b.tell(r, d)
		case d.who.kind != report.Peer || ctx.Err() != nil:
			err = d.err
		case !failed[d.who.name]:
			failed[d.who.name] = true
			b.leaveOut(r, d.who.name, d.err.Error())
		}
	}
	return err
}

// tell adds a death's figures. A contender that lost everything has no times.
func (b *bench) tell(r *report.Result, d death) {
	figures := map[string]float64{lostJobs: float64(d.lost)}
	if d.lost < jobsInHand {
		figures["first job"] = d.first.Seconds()
	}
	if d.lost == 0 {
		figures["last job"] = d.last.Seconds()
	}
	d.who.tell(r, "", "default settings", figures)
	b.say("  %-22s %s", d.who.name, d.said())
}
