// Command periodicworker is a worker of the integration tests that schedules periodic jobs.
//
//	periodicworker -redis URL -prefix TEXT [-client rueidis] [-n 50] [-catch-up all] -version 1 LEDGER
//
// The jobs steady0, steady1 and so on are due every second in each version. The job changing is due every
// second in odd versions and every two seconds in even ones. Each run appends a line to LEDGER.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/integration/program"
)

type tickArgs struct{ Version int }

var tick = belay.Define[tickArgs]("Tick", belay.Idempotent())

func main() {
	var f program.Flags
	f.Add()
	count := flag.Int("n", 50, "how many jobs are due every second")
	version := flag.Int("version", 1, "which version of the program it is")
	catchUp := flag.String("catch-up", "all", "what becomes of ticks that passed")
	flag.Parse()
	config := belay.ServerConfig{Heartbeat: 200 * time.Millisecond, TTL: time.Second, ShutdownTimeout: time.Second, MaxInterruptions: 1000}
	program.Exit(f.Work(config, func(server *belay.Server) error {
		return schedule(server, *count, *version, belay.CatchUp(*catchUp))
	}))
}

func schedule(server *belay.Server, count, version int, catchUp belay.CatchUp) error {
	tick.Handle(server, func(ctx context.Context, args tickArgs) error {
		info, _ := belay.Info(ctx)
		return program.Note(flag.Arg(0), map[string]any{
			"what": info.Periodic, "jid": info.JID, "class": info.TickAt.UTC().Format(time.RFC3339), "worker": args.Version, "at": time.Now().UnixNano(),
		})
	})
	every := "@every 1s"
	if version%2 == 0 {
		every = "@every 2s"
	}
	periodic := func(name, cron string) belay.Periodic {
		return belay.Periodic{Name: name, Cron: cron, Job: tick.Job(tickArgs{version}), CatchUp: catchUp, Overlap: belay.OverlapAllow}
	}
	jobs := []belay.Periodic{periodic("changing", every)}
	for i := range count {
		jobs = append(jobs, periodic(fmt.Sprint("steady", i), "@every 1s"))
	}
	return server.Schedule(jobs...)
}
