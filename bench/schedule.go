package main

import (
	"context"
	"fmt"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

// dueRate is how many jobs fall due a second, where they do so one by one.
const dueRate = 100

var scheduleMeasure = measure{
	name:  "schedule",
	title: "Running a job when it is due",
	short: "How late a job starts that was stored for an instant: one by one, and all at once",
	what: fmt.Sprintf("One worker process runs. First, jobs are stored that fall due one by one, %d a second. Then, in a fresh store, many "+
		"jobs that all fall due at the same instant, so far ahead that all of them are stored well before. What is counted is the time "+
		"from the instant at which a job is due to the first line of its handler.", dueRate),
	read: "\"earliest\" is the least lateness: below zero, jobs ran before they were due. The columns of the burst grow with the number " +
		"of jobs, and \"burst last\" is when the last of them had started.",
	metrics: []report.Metric{
		{Name: "p50", Unit: "ms", Less: true, Log: true, Plot: true},
		{Name: "p99", Unit: "ms", Less: true, Log: true},
		{Name: "max", Unit: "ms", Less: true, Log: true},
		{Name: "earliest", Unit: "ms"},
		{Name: "burst p50", Unit: "ms", Less: true, Log: true},
		{Name: "burst p99", Unit: "ms", Less: true, Log: true},
		{Name: "burst last", Unit: "ms", Less: true, Log: true, Plot: true},
	},
	run: schedule,
}

func schedule(ctx context.Context, b *bench, r *report.Result) error {
	concurrency := b.pick(b.concurrency, idleConcurrency, idleConcurrency)
	oneByOne := subject.Task{Measure: "schedule", Rate: dueRate, Seconds: float64(b.pick(0, 10, 60)), Concurrency: concurrency}
	burst := subject.Task{Measure: "burst", Jobs: b.size(20_000, 50_000), Concurrency: concurrency}
	var turns []turn
	for _, v := range b.variants(r, "asynq", "River", "Sidekiq") {
		oneByOne.Best, burst.Best = v.best, v.best
		turns = append(turns, b.dueTurn(r, v, oneByOne, fmt.Sprintf("%d/s", dueRate), func(add func(string, float64), late *report.Latency) {
			add("p50", late.At(50))
			add("p99", late.At(99))
			add("max", late.Max())
			add("earliest", late.Min())
		}), b.dueTurn(r, v, burst, report.Count(burst.Jobs)+" due", func(add func(string, float64), late *report.Latency) {
			add("burst p50", late.At(50))
			add("burst p99", late.At(99))
			add("burst last", late.Max())
		}))
	}
	r.Notes = append(r.Notes, fmt.Sprintf("The burst is %s jobs.", report.Count(burst.Jobs)))
	return b.rounds(ctx, r, b.repeats(1, 5), turns)
}

// dueTurn is one contender's run of that task; tell adds its figures.
func (b *bench) dueTurn(r *report.Result, v variant, task subject.Task, what string, tell func(add func(metric string, us float64), late *report.Latency)) turn {
	return turn{who: v.who, what: v.name + ", " + what, run: func(ctx context.Context) (string, error) {
		done, err := b.do(ctx, v.who, task, nil)
		if err != nil {
			return "", err
		}
		late := report.NewLatency(done.LatenciesUS)
		row := v.who.row(v.name)
		row.Settings = done.Settings
		tell(func(metric string, us float64) {
			row.Metric = metric
			r.Add(row, us/usPerMS)
		}, late)
		return fmt.Sprintf("late by %s ms (p50), %s ms (max)", report.Figure(late.At(50)/usPerMS), report.Figure(late.Max()/usPerMS)), nil
	}}
}
