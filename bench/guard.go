package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

const longGuard = `Compares what a job costs with recorded bounds.

Speeds depend on what else the machine does, so no speed is compared. Compared are counts (script calls, round trips to Redis,
allocations), and Redis' processor time as a multiple of what the bare scripts took in the same run. The minimum of several
runs counts, because noise only adds. The work is fixed: --redis is the only flag that applies.

Exit status: 0; 1 if a bound is exceeded.`

// What is guarded, by the names that a drain gives them.
const (
	scriptCallsPerJob = "script calls"
	roundTripsPerJob  = "round trips"
	allocationsPerJob = "allocations"
	cpuToFloor        = "redis CPU, run, to the floor's"
)

// A guard is the most that a job may cost in a drain at a concurrency.
type guard struct {
	client      string
	concurrency int
	bounds      map[string]float64
}

// guards are a third to a half above what was measured when they were recorded: less than what the smallest
// regression worth the name adds (one more round trip for each batch, one more allocation for each job and
// field), more than runs differ. Lower them when Belay becomes cheaper.
var guards = []guard{
	{"go-redis", 100, map[string]float64{scriptCallsPerJob: 0.055, roundTripsPerJob: 0.035, allocationsPerJob: 10, cpuToFloor: 1.6}},
	{"go-redis", 25, map[string]float64{scriptCallsPerJob: 0.13, roundTripsPerJob: 0.075, allocationsPerJob: 13.5, cpuToFloor: 2.4}},
	{"rueidis", 100, map[string]float64{scriptCallsPerJob: 0.055, roundTripsPerJob: 0.035, allocationsPerJob: 9.5, cpuToFloor: 1.6}},
	{"rueidis", 25, map[string]float64{scriptCallsPerJob: 0.13, roundTripsPerJob: 0.075, allocationsPerJob: 12, cpuToFloor: 2.4}},
}

const (
	guardJobs    = 60_000
	guardRepeats = 3
	// guardMost is how often a drain that costs too much is measured before that counts: other work on the
	// machine adds to every figure, and may last for three rounds. A job that costs more does so in all of
	// them.
	guardMost = 9
)

// exceeded reports whether a figure is above its bound.
func (g guard) exceeded(found map[string]float64) bool {
	for name, most := range g.bounds {
		if found[name] > most {
			return true
		}
	}
	return false
}

// guardAll measures what is guarded and reports what is above its bound.
func guardAll(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	defer func() { err = o.hideError(err) }()
	o.peers = nil
	if err := o.check(); err != nil {
		return err
	}
	b, err := openBench(ctx, o, stderr)
	if err != nil {
		return err
	}
	defer b.close()
	least := make([]map[string]float64, len(guards))
	for round := range guardMost {
		measured := false
		for i, g := range guards {
			if round >= guardRepeats && !g.exceeded(least[i]) {
				continue
			}
			measured = true
			found, err := b.guarded(ctx, g)
			if err != nil {
				return fmt.Errorf("%s, concurrency %d: %w", g.client, g.concurrency, err)
			}
			least[i] = lesser(least[i], found)
		}
		if !measured {
			break
		}
		b.say("guard: round %d, of %d to %d", round+1, guardRepeats, guardMost)
	}
	return tellGuards(stdout, guards, least)
}

// guarded is what one drain costs, with its floor right after it.
func (b *bench) guarded(ctx context.Context, g guard) (map[string]float64, error) {
	b.client = g.client
	who, floor := b.belays()[0], b.floors("bare scripts")[0]
	task := subject.Task{Measure: "drain", Jobs: guardJobs, Concurrency: g.concurrency}
	cost, err := b.run(ctx, who, task)
	if err != nil {
		return nil, err
	}
	task.Measure, task.Concurrency = "floor-drain", floorOfGuard
	bare, err := b.run(ctx, floor, task)
	if err != nil {
		return nil, err
	}
	found := cost.perJob(who, task)
	found[cpuToFloor] = found["redis run"] / bare.perJob(floor, task)["redis run"]
	return found, nil
}

// floorOfGuard is the batch of the bare scripts, whatever the concurrency: one measure for all.
const floorOfGuard = 100

// lesser returns the minimum of each figure.
func lesser(known, found map[string]float64) map[string]float64 {
	for name, value := range known {
		found[name] = min(found[name], value)
	}
	return found
}

// tellGuards prints a line for each bound. Its error names those that are exceeded.
func tellGuards(to io.Writer, guards []guard, least []map[string]float64) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "drain\tper job\tmeasured\tat most\t")
	var exceeded []string // its writes fail in Flush
	for i, g := range guards {
		for _, name := range []string{scriptCallsPerJob, roundTripsPerJob, allocationsPerJob, cpuToFloor} {
			most, word := g.bounds[name], ""
			if least[i][name] > most {
				word = "EXCEEDED"
				exceeded = append(exceeded, fmt.Sprintf("%s, concurrency %d: %s", g.client, g.concurrency, name))
			}
			_, _ = fmt.Fprintf(table, "%s, concurrency %d\t%s\t%s\t%s\t%s\n", g.client, g.concurrency, name, report.Figure(least[i][name]), report.Figure(most), word)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(exceeded) > 0 {
		slices.Sort(exceeded)
		return errors.New("a job costs more than it may: " + strings.Join(exceeded, "; "))
	}
	return nil
}
