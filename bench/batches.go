package main

import (
	"context"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

var batchesMeasure = measurement{
	name:  "batches",
	title: "Members of a batch",
	short: "What a member of a batch costs Redis, next to a plain job",
	what: "The drain, of plain jobs and right after it of as many members of one batch, without callbacks. The push of members includes " +
		"that of making and sealing the batch.",
	read:   "The last column is Redis' processor time for a member, pushed and run, less that for a plain job in the same round.",
	alone:  true,
	unused: []string{"profile"},
	metrics: []report.Metric{
		{Name: moreThanPlain, Unit: "µs CPU/job", Less: true},
		{Name: "redis push", Unit: "µs CPU/job", Less: true},
		{Name: "redis run", Unit: "µs CPU/job", Less: true, Plot: true},
		{Name: "jobs/s", Unit: "jobs/s"},
		{Name: "script calls", Unit: "per job", Less: true},
		{Name: "round trips", Unit: "per job", Less: true},
		{Name: "allocations", Unit: "per job", Less: true},
	},
	run: batchesCost,
}

// moreThanPlain is wanted to be at most 3.
const moreThanPlain = "more than a plain job"

func batchesCost(ctx context.Context, b *bench, r *report.Result) error {
	task := subject.Task{
		Measure: "drain", Jobs: b.size(50_000, 1_000_000), Concurrency: b.pick(b.concurrency, defaultConcurrency, defaultConcurrency),
	}
	members := task
	members.Batch = true
	var turns []turn
	for _, who := range b.belays() {
		var plain map[string]float64 // of this round
		turns = append(turns,
			b.turn(r, who, "plain jobs", task, func(f found) (map[string]float64, string) {
				plain = f.perJob(who, task)
				return rate(plain, "jobs/s")
			}),
			b.turn(r, who, "members", members, func(f found) (map[string]float64, string) {
				figures := f.perJob(who, members)
				figures[moreThanPlain] = figures["redis push"] + figures["redis run"] - plain["redis push"] - plain["redis run"]
				return figures, report.Figure(figures[moreThanPlain]) + " µs more"
			}))
	}
	return b.rounds(ctx, r, b.repeats(5, 7), turns)
}
