package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

var limitsMeasure = measurement{
	name:  "limits",
	title: "Limited jobs",
	short: "What a limit by key costs, how well it uses its slots, and what a busy key does to others",
	what: "Drains of jobs with and without a limit, in turn. For the occupancy, Redis is a millisecond away. For the starvation, five keys " +
		"have all jobs, at most five of each run at once, on 25 processors, and a job takes 50 ms. After 15 seconds three jobs of another " +
		"key are pushed, and timed until the last of them starts. The peers have no limits by key, so they do what their documentation " +
		"says: a handler that may not run returns an error, and runs again after up to ten seconds. Without --full they have fewer " +
		"jobs, because they try all of them before those of another key. The count of what runs is a variable " +
		"in their process here, so they need no command for it.",
	read: "The share is that of the jobs a second without a limit, in the same round. The occupancy is the share of the time in which a " +
		"slot is used. The processor time is what Redis needs for a job more than for a plain one. A refused run is one that a worker " +
		"began in vain, by runs that were not. The last columns include what it takes to let the jobs wait.",
	unused: []string{"profile", "concurrency"},
	metrics: []report.Metric{
		{Name: "jobs/s", Unit: "jobs/s"},
		{Name: ofUnlimited, Unit: "%"},
		{Name: occupancy, Unit: "%"},
		{Name: "redis run", Unit: "µs CPU/job", Less: true},
		{Name: moreThanPlain, Unit: "µs CPU/job", Less: true},
		{Name: "refused", Unit: "per run", Less: true},
		{Name: "round trips", Unit: "per run", Less: true},
		{Name: "another key", Unit: "ms to start", Less: true, Plot: true, Log: true},
	},
	run: limits,
}

const (
	// ofUnlimited is wanted to be at least 60, and occupancy at least 80.
	ofUnlimited = "of no limit"
	occupancy   = "occupancy"
)

func limits(ctx context.Context, b *bench, r *report.Result) error {
	far, back, err := b.moveAway(ctx)
	if err != nil {
		return err
	}
	defer back()
	var turns []turn
	for _, who := range b.belays() {
		turns = append(turns, b.limitedDrains(r, who)...)
		turns = append(turns, b.occupancyTurn(r, who, far))
	}
	for _, who := range append(b.belays(), b.able(r)...) {
		turns = append(turns, b.starveTurn(r, who))
	}
	return b.rounds(ctx, r, b.repeats(3, 7), turns)
}

// limitedDrains are drains of jobs that take a while, and of jobs that do nothing, each after one without a
// limit.
func (b *bench) limitedDrains(r *report.Result, who contender) []turn {
	drain := func(millis float64, jobs, keys, most int) subject.Task {
		return subject.Task{Measure: "drain", Jobs: jobs, Concurrency: defaultConcurrency, Millis: millis, Keys: keys, Limit: most}
	}
	slow, fast := b.size(20_000, 100_000), b.size(50_000, 200_000)
	var plain map[string]float64 // the figures of the jobs without a limit that were drained last
	unlimited := func(which string, task subject.Task) turn {
		return b.turn(r, who, which, task, func(f found) (map[string]float64, string) {
			plain = f.perJob(who, task)
			return rate(map[string]float64{"jobs/s": plain["jobs/s"], "redis run": plain["redis run"]}, "jobs/s")
		})
	}
	limited := func(which string, task subject.Task) turn {
		return b.turn(r, who, which, task, func(f found) (map[string]float64, string) {
			figures := f.perJob(who, task)
			share, more := 100*figures["jobs/s"]/plain["jobs/s"], figures["redis run"]-plain["redis run"]
			return map[string]float64{"jobs/s": figures["jobs/s"], "redis run": figures["redis run"], ofUnlimited: share, moreThanPlain: more},
				fmt.Sprintf("%s %% of no limit, %s µs more", report.Figure(share), report.Figure(more))
		})
	}
	return []turn{
		unlimited("5 ms, no limit", drain(5, slow, 0, 0)),
		limited("5 ms, 1,000 keys × 3", drain(5, slow, 1000, 3)),
		unlimited("0 ms, no limit", drain(0, fast, 0, 0)),
		limited("0 ms, starts at once", drain(0, fast, 1000, 1000)),
		limited("0 ms, nearly all wait", drain(0, fast, 10, 3)),
	}
}

// occupancyTurn is a drain of which as many jobs run at once as there are processors.
func (b *bench) occupancyTurn(r *report.Result, who contender, far string) turn {
	const millis, keys, most = 50, 5, 5
	task := subject.Task{Measure: "drain", URL: far, Jobs: b.size(2000, 10_000), Concurrency: keys * most, Millis: millis, Keys: keys, Limit: most}
	return b.turn(r, who, "50 ms, 5 keys × 5, 1 ms away", task, func(f found) (map[string]float64, string) {
		used := 100 * float64(task.Jobs) * millis / 1000 / (f.Seconds * keys * most)
		return map[string]float64{"jobs/s": float64(task.Jobs) / f.Seconds, occupancy: used}, report.Figure(used) + " % occupied"
	})
}

// starveTurn is a few keys with many jobs, and one that comes later.
func (b *bench) starveTurn(r *report.Result, who contender) turn {
	jobs := b.size(100_000, 100_000)
	if who.kind == report.Peer {
		jobs = b.peerSize(who, 20_000, 100_000)
	}
	task := subject.Task{Measure: "starve", Jobs: jobs, Concurrency: 25, Millis: 50, Keys: 5, Limit: 5, Seconds: 30}
	return b.turn(r, who, "5 busy keys", task, func(f found) (map[string]float64, string) {
		last := slices.Max(f.LatenciesUS) / 1000
		figures := map[string]float64{"another key": last, "refused": f.Extra["refused"] / f.Extra["runs"]}
		if !who.postgres {
			figures["redis run"] = f.us(subject.Pushed, subject.Holding, f.Extra["runs"])
			figures["round trips"] = (f.redis[subject.Holding].trips - f.redis[subject.Pushed].trips) / f.Extra["runs"]
		}
		return figures, report.Figure(last) + " ms until another key's jobs start"
	})
}
