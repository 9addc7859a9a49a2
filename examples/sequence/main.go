// Command sequence runs three jobs one after the other, each with the result of the one before. Kill it at any
// moment and start it again: it goes on where it was, and begins no second sequence for the day.
//
//	REDIS_URL=redis://localhost:6379/0 go run ./examples/sequence -day 2026-11-26
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/belayq/belay"
)

var (
	day     = flag.String("day", time.Now().Format(time.DateOnly), "day to report")
	Extract = belay.DefineResult[string, []int]("Extract", belay.Track(time.Hour), belay.Idempotent())
	Load    = belay.DefineResult[string, int]("Load", belay.Track(time.Hour), belay.Idempotent())
	Report  = belay.Define[string]("Report", belay.Idempotent())
)

func main() {
	belay.Main(func(ctx context.Context, server *belay.Server) error {
		Extract.Handle(server, func(context.Context, string) ([]int, error) { return []int{3, 4, 5}, nil })
		Load.Handle(server, func(ctx context.Context, _ string) (int, error) {
			rows, err := Extract.Previous(ctx)
			return len(rows), err
		})
		Report.Handle(server, func(ctx context.Context, day string) error {
			loaded, err := Load.Previous(ctx)
			fmt.Printf("%s: %d rows\n", day, loaded)
			return err
		})
		once := belay.Key(*day, 24*time.Hour)
		_, err := server.Client().Push(ctx, belay.Sequence(Extract.Job(*day, once), Load.Job(*day), Report.Job(*day)))
		return err
	}, belay.MainConfig{})
}
