// Command nightly runs a job at the times of a schedule.
//
//	go run ./examples/nightly                       at three in the morning in Berlin, every day
//	go run ./examples/nightly -cron '@every 2s'     to watch it
//
// Start several, stop them, kill them: each time has one run. A run whose process was killed is repeated with
// the same time, so let the work be idempotent by that. `belay periodic` lists the schedule, and runs it now.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/belayq/belay"
)

type NightlyArgs struct{ Tenant string }

var Nightly = belay.Define[NightlyArgs]("Nightly", belay.Retries(5), belay.Idempotent())

var cron = flag.String("cron", "0 3 * * *", "when it runs")

func main() {
	belay.Main(func(_ context.Context, server *belay.Server) error {
		Nightly.Handle(server, func(ctx context.Context, args NightlyArgs) error {
			info, _ := belay.Info(ctx)
			fmt.Println("nightly", info.TickAt.Format(time.RFC3339), args.Tenant) // the work
			return nil
		})
		return server.Schedule(
			belay.Periodic{Name: "nightly", Cron: *cron, Zone: "Europe/Berlin", Job: Nightly.Job(NightlyArgs{Tenant: "acme"})})
	}, belay.MainConfig{})
}
