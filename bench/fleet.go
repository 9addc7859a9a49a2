package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

var fleetMeasure = measurement{
	name:  "fleet",
	title: "A fleet that has nothing to do",
	short: "What 500 idle worker processes cost Redis",
	what: fmt.Sprintf("%d idle workers with default settings, each with a client and all the connections of its own, its own heartbeats, "+
		"background duties and wait for a job. They live in one process of the system, since 500 would measure its scheduler; Redis does not see the "+
		"difference. When all are up and have settled, Redis' processor time and commands are counted for %v.", fleetSize, watchFor),
	read: "The processor time is a share of one core, which is all that Redis' commands can have. Commands are counted as Redis counts " +
		"them: a script is one, and so is each command inside it.",
	unused: []string{"jobs", "concurrency", "profile"},
	metrics: []report.Metric{
		{Name: "redis CPU", Unit: "% of a core", Less: true, Plot: true},
		{Name: "commands/s", Unit: "per second", Less: true, Plot: true},
		{Name: "calls/s", Unit: "scripts a second", Less: true},
		{Name: "connections", Unit: "in all", Less: true},
		{Name: "fleet CPU", Unit: "% of a core", Less: true},
	},
	run: fleet,
}

const (
	fleetSize = 500
	// settleFor is how long the fleet is left alone after the last has registered: some heartbeats.
	settleFor = 5 * time.Second
	watchFor  = 30 * time.Second
)

func fleet(ctx context.Context, b *bench, r *report.Result) error {
	task := subject.Task{Measure: "fleet", Jobs: fleetSize}
	var turns []turn
	for _, who := range b.belays() {
		what := fmt.Sprintf("%d processes", task.Jobs)
		turns = append(turns, turn{who: who, what: what, run: func(ctx context.Context) (string, error) {
			var seen map[string]float64
			done, err := b.do(ctx, who, task, func(e subject.Event) (err error) {
				if e.Event == subject.Pushed {
					seen, err = b.watchIdle(ctx)
				}
				return err
			})
			if err != nil {
				return "", err
			}
			seen["fleet CPU"] = done.Extra["fleet_cpu_percent"]
			row := who.row("")
			row.Settings = done.Settings
			for name, value := range seen {
				row.Metric = name
				r.Add(row, value)
			}
			return fmt.Sprintf("Redis used %s %% of a core", report.Figure(seen["redis CPU"])), nil
		}})
	}
	return b.rounds(ctx, r, b.repeats(1, 3), turns)
}

// watchIdle looks at Redis for a while.
func (b *bench) watchIdle(ctx context.Context) (map[string]float64, error) {
	if err := measure.Pause(ctx, settleFor); err != nil {
		return nil, err
	}
	began := time.Now()
	before, err := b.spent(ctx)
	if err != nil {
		return nil, err
	}
	if err := measure.Pause(ctx, watchFor); err != nil {
		return nil, err
	}
	after, err := b.spent(ctx)
	if err != nil {
		return nil, err
	}
	seconds := time.Since(began).Seconds()
	return map[string]float64{
		"redis CPU":   100 * (after.cpu - before.cpu).Seconds() / seconds,
		"commands/s":  (after.commands - before.commands) / seconds,
		"calls/s":     float64(after.calls-before.calls) / seconds,
		"connections": after.connections,
	}, nil
}

// A spending is what Redis has done up to now.
type spending struct {
	cpu                   time.Duration
	commands, connections float64
	calls                 int64
}

func (b *bench) spent(ctx context.Context) (s spending, err error) {
	if s.cpu, err = redisCPU(ctx, b.look); err != nil {
		return s, err
	}
	if s.calls, err = scriptCalls(ctx, b.look); err != nil {
		return s, err
	}
	if s.commands, err = b.number(ctx, "stats", "total_commands_processed"); err != nil {
		return s, err
	}
	s.connections, err = b.number(ctx, "clients", "connected_clients")
	return s, err
}

// number is a field of INFO that is one.
func (b *bench) number(ctx context.Context, section, field string) (float64, error) {
	text, err := info(ctx, b.look, section, field)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}
