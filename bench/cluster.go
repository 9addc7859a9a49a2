package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest/cluster"
)

var clusterMeasure = measurement{
	name:  "cluster",
	title: "A node of a Redis Cluster",
	short: "What a job costs a node of a Redis Cluster, next to a server alone",
	what: fmt.Sprintf("The drain, on a server alone and right after it on a Redis Cluster of %d nodes, of which one serves the keyspace. The "+
		"processor time is that of the server, and of that node.", clusterNodes),
	read: "The last column is the node's processor time as a multiple of the server's, in the same round. A client that had to be " +
		"redirected, or a script with keys on two nodes, would show in it.",
	alone:   true,
	unused:  []string{"profile"},
	metrics: serverMetrics,
	run:     clusterCost,
}

// serverMetrics are those of a measure that compares other servers with one alone.
var serverMetrics = []report.Metric{
	{Name: "redis run", Unit: "µs CPU/job", Less: true, Plot: true},
	{Name: "redis push", Unit: "µs CPU/job", Less: true},
	{Name: "jobs/s", Unit: "jobs/s"},
	{Name: "script calls", Unit: "per job", Less: true},
	{Name: "round trips", Unit: "per job", Less: true},
	{Name: ratioToServer, Unit: "times", Less: true},
}

const (
	// ratioToServer is above one, because a node checks the slot of each command of a script. docs/scaling.md
	// has the count of instructions.
	ratioToServer = "run, to the server's"

	clusterNodes = 3
	// clusterPrefix has a hash tag, so that all keys are in one slot.
	clusterPrefix = "{bench}"
)

func clusterCost(ctx context.Context, b *bench, r *report.Result) error {
	nodes, address, err := startCluster(ctx)
	defer func() {
		for _, node := range nodes {
			node.stop()
		}
	}()
	if err != nil {
		return err
	}
	node, err := b.onNode(ctx, nodes)
	if err != nil {
		return err
	}
	defer func() { _ = node.look.Close() }()
	task := subject.Task{
		Measure: "drain", Prefix: clusterPrefix, Jobs: b.size(100_000, 200_000),
		Concurrency: b.pick(b.concurrency, defaultConcurrency, defaultConcurrency),
	}
	var turns []turn
	for _, who := range b.belays() {
		var alone map[string]float64 // of this round
		turns = append(turns,
			b.turn(r, who, "a server alone", task, func(f found) (map[string]float64, string) {
				alone = clusterFigures(f.perJob(who, task))
				return rate(alone, "jobs/s")
			}),
			node.turn(r, who, "a node of a Cluster", at(task, address), func(f found) (map[string]float64, string) {
				figures := clusterFigures(f.perJob(who, task))
				figures[ratioToServer] = figures["redis run"] / alone["redis run"]
				return rate(figures, "jobs/s")
			}))
	}
	return b.rounds(ctx, r, b.repeats(5, 9), turns)
}

// at is the task on another server.
func at(task subject.Task, address string) subject.Task {
	task.URL = address
	return task
}

// clusterFigures leaves out what only the worker's own process decides.
func clusterFigures(figures map[string]float64) map[string]float64 {
	delete(figures, "allocations")
	return figures
}

// startCluster starts a Redis Cluster on loopback, and returns its URL when each node knows all slots. The
// caller stops the nodes, also after an error.
func startCluster(ctx context.Context) (nodes []*server, address string, err error) {
	var joining []cluster.Node
	var hosts []string
	for range clusterNodes {
		bus, err := freePort(ctx)
		if err != nil {
			return nodes, "", err
		}
		node, err := startServer(ctx, "", cluster.Flags(bus)...)
		if err != nil {
			return nodes, "", err
		}
		nodes, hosts = append(nodes, node), append(hosts, node.host())
		joining = append(joining, cluster.Node{Addr: node.host(), Bus: bus, Do: node.ask})
	}
	ctx, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	return nodes, "redis+cluster://" + strings.Join(hosts, ","), cluster.Join(ctx, joining)
}

// onNode is the bench on the node that serves the keyspace.
func (b *bench) onNode(ctx context.Context, nodes []*server) (*bench, error) {
	for _, node := range nodes {
		look, err := goredisdriver.Open(node.url)
		if err != nil {
			return nil, err
		}
		if look.Do(ctx, driver.Command("TYPE", clusterPrefix))[0].Err == nil {
			other := *b
			other.redis, other.look, other.owned = node, look, true
			return &other, nil
		}
		_ = look.Close()
	}
	return nil, errors.New("no node of the Cluster serves the slot of " + clusterPrefix)
}

// host returns the address of a server that startServer started.
func (s *server) host() string {
	parsed, err := url.Parse(s.url)
	if err != nil {
		return ""
	}
	return parsed.Host
}

// ask sends one command on a connection of its own.
func (s *server) ask(ctx context.Context, words ...string) (any, error) {
	client, err := goredisdriver.Open(s.url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	reply := client.Do(ctx, driver.Command(words...))[0]
	return reply.Value, reply.Err
}
