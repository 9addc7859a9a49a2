package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

var shardsMeasure = measurement{
	name:  "shards",
	title: "Several servers as shards",
	short: "What a job costs each of several servers, next to a server alone",
	what: fmt.Sprintf("The drain by one worker process, on a server alone and on %d servers that are shards, in turn. Each server has the same "+
		"number of jobs. The processor time is that of all servers together, for each job.", shardServers),
	read: fmt.Sprintf("A take asks each shard for an equal part of the idle processors, so a worker gets smaller batches from each, and a smaller "+
		"batch costs more for each job. Compare the server alone with %d times the concurrency on %d servers: the batches are alike then, as they are in a "+
		"fleet that grows with the number of servers. jobs/s shows what one worker process and this machine allow, not what the servers would.", shardServers, shardServers),
	alone:   true,
	unused:  []string{"profile", "redis"},
	metrics: append(slices.Clone(serverMetrics), report.Metric{Name: busiestToServer, Unit: "times", Less: true}),
	run:     shardsCost,
}

const (
	shardServers = 3
	// busiestToServer is ratioToServer of the server that took most.
	busiestToServer = "the busiest of them"
)

func shardsCost(ctx context.Context, b *bench, r *report.Result) error {
	spread, stop, err := b.onShards(ctx)
	defer stop()
	if err != nil {
		return err
	}
	concurrency := b.pick(b.concurrency, defaultConcurrency, defaultConcurrency)
	task := subject.Task{Measure: "drain", Jobs: b.size(100_000, 200_000), Concurrency: concurrency}
	var turns []turn
	for _, who := range b.belays() {
		var alone map[string]float64 // of this round
		turns = append(turns, b.turn(r, who, fmt.Sprintf("a server alone, concurrency %d", concurrency), task,
			func(f found) (map[string]float64, string) {
				alone = clusterFigures(f.perJob(who, task))
				return rate(alone, "jobs/s")
			}))
		for _, times := range []int{1, shardServers} {
			task := at(task, spread.redis.url)
			task.Jobs, task.Concurrency = shardServers*task.Jobs, times*concurrency
			which := fmt.Sprintf("%d shards, concurrency %d", shardServers, task.Concurrency)
			turns = append(turns, spread.turn(r, who, which, task, func(f found) (map[string]float64, string) {
				figures := clusterFigures(f.perJob(who, task))
				figures[ratioToServer] = figures["redis run"] / alone["redis run"]
				figures[busiestToServer] = f.most(subject.Pushed, subject.Done, float64(task.Jobs)) / alone["redis run"]
				return rate(figures, "jobs/s")
			}))
		}
	}
	return b.rounds(ctx, r, b.repeats(5, 9), turns)
}

// onShards is the bench on servers of its own, which are the shards of one list. The caller calls stop, also
// after an error.
func (b *bench) onShards(ctx context.Context) (spread *bench, stop func(), err error) {
	other := *b
	other.look, other.others, other.owned = nil, nil, false
	var servers []*server
	stop = func() {
		if other.look != nil {
			other.closeLooks()
		}
		for _, s := range servers {
			s.stop()
		}
	}
	var list []string
	for n := range shardServers {
		s, err := startServer(ctx, "")
		if err != nil {
			return nil, stop, err
		}
		servers, list = append(servers, s), append(list, fmt.Sprintf("s%d=%s", n, s.url))
	}
	other.redis = &server{url: strings.Join(list, " ")}
	return &other, stop, other.openLooks(other.redis.url)
}
