package main

import (
	"context"
	"fmt"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

var backlogMeasure = measurement{
	name:  "backlog",
	title: "Working off a long queue",
	short: "Whether a long queue slows a worker down",
	what: "A worker runs while the same program pushes, in bulk, as many jobs as have ended, so that the queue stays as long as it is. " +
		"The same number of jobs is worked off with a short queue and with a long one; interleaved.",
	read: "The two rates should be the same: a queue that slows down as it grows never catches up. They are lower than those of a drain, " +
		"because the pushing goes on meanwhile. Redis' CPU is that of pushing and running.",
	alone:  true,
	unused: []string{"profile"},
	metrics: []report.Metric{
		{Name: "jobs/s", Unit: "jobs/s", Plot: true},
		{Name: "redis", Unit: "µs CPU/job", Less: true, Plot: true},
	},
	run: backlog,
}

func backlog(ctx context.Context, b *bench, r *report.Result) error {
	const sample, full = 100_000, 200_000
	lengths := []int{10_000, b.pick(0, 500_000, 5_000_000)}
	var turns []turn
	for _, c := range b.belays() {
		for _, length := range lengths {
			turns = append(turns, b.backlogTurn(r, c, subject.Task{
				Measure: "backlog", Jobs: b.size(sample, full), Backlog: length, Concurrency: b.pick(b.concurrency, defaultConcurrency, defaultConcurrency),
			}))
		}
	}
	return b.rounds(ctx, r, b.repeats(3, 5), turns)
}

func (b *bench) backlogTurn(r *report.Result, c contender, task subject.Task) turn {
	which := fmt.Sprintf("%s waiting", report.Count(task.Backlog))
	return turn{who: c, what: which, run: func(ctx context.Context) (string, error) {
		cost := b.costs(c)
		done, err := b.do(ctx, c, task, func(e subject.Event) error { return cost.at(ctx, e) })
		if err != nil {
			return "", err
		}
		ended := done.Extra["ended"]
		row := c.row(which)
		row.Settings = fmt.Sprintf("%s; %s jobs worked off", done.Settings, report.Count(task.Jobs))
		row.Metric = "jobs/s"
		r.Add(row, ended/done.Seconds)
		row.Metric = "redis"
		r.Add(row, perJob(cost.cpu[subject.Done]-cost.cpu[subject.Pushed], int(ended)))
		return report.Figure(ended/done.Seconds) + " jobs/s", nil
	}}
}
