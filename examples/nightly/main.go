// Command nightly runs a job at regular times without cron: each run pushes the next one.
//
//	go run ./examples/nightly               midnight by UTC, every day
//	go run ./examples/nightly -every 2s     to watch it
//
// Start several, stop them, kill them: each scheduled time has one run. Each process pushes the next run when
// it starts, and a run that is repeated after a crash pushes its successor again. The job is unique even
// while it is scheduled, so all but the first of these pushes are refused.
//
// A late push, such as from a machine whose clock is behind, may still schedule a time whose run has ended.
// So the first run claims the time with its jid. A repeated run has the same jid and continues; other runs
// stop.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
)

type NightlyArgs struct{ Time time.Time }

var Nightly = belay.Define[NightlyArgs]("Nightly", belay.Retries(5), belay.Idempotent(),
	belay.Unique(belay.UntilExecuted, belay.IncludingScheduled()))

var every = flag.Duration("every", 24*time.Hour, "time between two runs")

func main() {
	belay.Main(func(ctx context.Context, app *belay.App) error {
		Nightly.Handle(app.Server, func(ctx context.Context, args NightlyArgs) error {
			return run(ctx, app.Client, args.Time)
		})
		return pushNext(ctx, app.Client, time.Now())
	}, belay.MainConfig{})
}

func run(ctx context.Context, client *belay.Client, at time.Time) error {
	info, _ := belay.Info(ctx)
	// A table of your own database, with the time as its key, serves as well.
	claim := driver.Command("SET", "nightly:"+at.Format(time.RFC3339), info.JID, "NX", "GET", "EX", "604800")
	switch holder := client.Driver().Do(ctx, claim)[0]; {
	case holder.Err != nil:
		return holder.Err
	case holder.Value != nil && holder.Value != info.JID:
		return belay.Discard(nil) // another job has this time; without a cause it counts as no failure
	}
	// The next one first: should this one fail for good, the chain goes on. Times that passed while no worker
	// ran are skipped.
	after := at
	if now := time.Now(); now.After(at) {
		after = now
	}
	if err := pushNext(ctx, client, after); err != nil {
		return err
	}
	fmt.Println("nightly", at.Format(time.RFC3339)) // the work; it may be repeated, so let it be idempotent
	return nil
}

// pushNext pushes the run for the next time after an instant. If it is scheduled already, that is not an
// error: the receipt reports it.
func pushNext(ctx context.Context, client *belay.Client, after time.Time) error {
	next := after.UTC().Truncate(*every).Add(*every)
	_, err := Nightly.Enqueue(ctx, client, NightlyArgs{Time: next}, belay.At(next))
	return err
}
