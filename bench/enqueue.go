package main

import (
	"context"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

var enqueueMeasure = measurement{
	name:  "enqueue",
	title: "Enqueueing",
	short: "How fast jobs are pushed, one a call from ten producers, and in bulk",
	what: "Ten concurrent producers of one process (goroutines, threads or async tasks) enqueue jobs, one a call, each waiting for its " +
		"reply. Then the same number of jobs is pushed by the system's bulk push. No worker runs.",
	read: "One by one, a job is a round trip, and Redis' own work for it is small: the floor, a bare LPUSH of the same bytes, is " +
		"what the machine allows. In bulk, the cost of building and storing a payload is measured; that floor is an LPUSH " +
		"of 1,000 elements a call. Redis' CPU is all that it used in that time, including the network.",
	unused: []string{"concurrency", "profile"},
	metrics: []report.Metric{
		{Name: "one by one", Unit: "jobs/s", Plot: true},
		{Name: "in bulk", Unit: "jobs/s", Plot: true},
		{Name: "redis, one by one", Unit: "µs CPU/job", Less: true},
		{Name: "redis, in bulk", Unit: "µs CPU/job", Less: true},
	},
	run: enqueue,
}

// producers is a web server's handful of requests at a time.
const producers = 10

func enqueue(ctx context.Context, b *bench, r *report.Result) error {
	const sample, full = 50_000, 200_000
	const bulkSample, bulkFull = 200_000, 500_000
	const peerSample, peerFull = 20_000, 100_000
	var turns []turn
	add := func(c contender, prefix string, jobs, bulk int) {
		turns = append(turns,
			b.enqueueTurn(r, c, "one by one", subject.Task{Measure: prefix + "enqueue", Jobs: jobs, Producers: producers}),
			b.enqueueTurn(r, c, "in bulk", subject.Task{Measure: prefix + "bulk", Jobs: bulk, Producers: producers}))
	}
	for _, c := range b.belays() {
		add(c, "", b.size(sample, full), b.size(bulkSample, bulkFull))
	}
	for _, c := range b.able(r) {
		// One by one, asynq is the fastest peer and needs less warm-up, so each peer gets the same number of
		// jobs.
		add(c, "", b.peerSize(contender{}, peerSample, peerFull), b.peerSize(c, peerSample, peerFull))
	}
	for _, c := range b.floors("bare LPUSH") {
		add(c, "floor-", b.size(sample, full), b.size(bulkSample, bulkFull))
	}
	return b.rounds(ctx, r, b.repeats(3, 7), turns)
}

// enqueueTurn is one contender's run of one of the two ways.
func (b *bench) enqueueTurn(r *report.Result, c contender, metric string, task subject.Task) turn {
	task.Best = true // no worker runs, so there is no concurrency to keep equal
	t := b.turn(r, c, "", task, func(f found) (map[string]float64, string) {
		jobs := float64(task.Jobs)
		figures := map[string]float64{metric: jobs / f.Seconds}
		if !c.postgres {
			figures["redis, "+metric] = f.us(subject.Ready, subject.Done, jobs)
		}
		return rate(figures, metric)
	})
	t.what = metric
	return t
}
