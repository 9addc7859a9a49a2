package main

import (
	"context"
	"fmt"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

var drainMeasure = measurement{
	name:  "drain",
	title: "Draining a full queue",
	short: "How fast one worker process empties a full queue of jobs that do nothing",
	what: "Jobs that do nothing are pushed first, in bulk. The clock then runs from the start of one worker process until the end " +
		"of the last job has been acknowledged: not until the queue is empty, which comes earlier. Each job must have run exactly once.",
	read: "Jobs that do nothing are the worst case for a queue: only the queue itself is measured. \"its best\" are the settings " +
		"that the system's authors use in their own benchmarks, or what was fastest here. The floor is what Redis allows when no worker " +
		"reads a job or runs it: the same scripts, a batch in a round trip, one after the other.",
	metrics: []report.Metric{
		{Name: "jobs/s", Unit: "jobs/s", Plot: true},
		{Name: "redis push", Unit: "µs CPU/job", Less: true},
		{Name: "redis run", Unit: "µs CPU/job", Less: true, Plot: true},
		{Name: "script calls", Unit: "per job", Less: true},
		{Name: "round trips", Unit: "per job", Less: true},
		{Name: "allocations", Unit: "per job", Less: true},
	},
	run: drain,
}

func drain(ctx context.Context, b *bench, r *report.Result) error {
	return b.rounds(ctx, r, b.repeats(3, 7), b.drainTurns(r))
}

// drainTurns returns the drains of all contenders in all cases.
func (b *bench) drainTurns(r *report.Result) []turn {
	const sample, full = 100_000, 200_000
	const peerSample, peerFull = 20_000, 100_000
	var turns []turn
	cases := []int{100, 25}
	if b.concurrency > 0 {
		cases = []int{b.concurrency}
	}
	for _, c := range b.belays() {
		if b.concurrency == 0 {
			turns = append(turns, b.drainTurn(r, c, subject.Task{Jobs: b.size(sample, full), Best: true}))
		}
		for _, concurrency := range cases {
			turns = append(turns, b.drainTurn(r, c, subject.Task{Jobs: b.size(sample, full), Concurrency: concurrency}))
		}
	}
	for _, c := range b.able(r) {
		jobs := b.peerSize(c, peerSample, peerFull)
		if b.concurrency == 0 { // peers at their best are compared with Belay at its best only
			turns = append(turns, b.drainTurn(r, c, subject.Task{Jobs: jobs, Best: true}))
		}
		for _, concurrency := range cases {
			turns = append(turns, b.drainTurn(r, c, subject.Task{Jobs: jobs, Concurrency: concurrency}))
			if !b.full {
				break
			}
		}
	}
	for _, c := range b.floors("bare scripts") {
		turns = append(turns, b.drainTurn(r, c, subject.Task{Jobs: b.size(sample, full), Concurrency: cases[0]}))
	}
	return turns
}

// drainTurn is one contender's drain with that task.
func (b *bench) drainTurn(r *report.Result, c contender, task subject.Task) turn {
	task.Measure = "drain"
	if c.kind == report.Floor {
		task.Measure = "floor-drain"
	}
	which := "its best"
	switch {
	case c.kind == report.Floor:
		which = fmt.Sprintf("batches of %d", task.Concurrency)
	case !task.Best:
		which = fmt.Sprintf("concurrency %d", task.Concurrency)
	}
	if c.kind == report.Belay {
		task.Profile = b.profile
	}
	return b.turn(r, c, which, task, func(f found) (map[string]float64, string) {
		return rate(f.perJob(c, task), "jobs/s")
	})
}
