// Command fanout imports many rows, each in a job of its own, and adds up their results when all are done:
//
//	REDIS_URL=redis://localhost:6379/0 go run ./examples/fanout -rows 1000
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/belayq/belay"
)

// SumArgs name the rows of an import: belay.JIDOf(Import, 0) is the id of the first.
type SumArgs struct {
	Import string
	Rows   int
}

var (
	Row = belay.DefineResult[int, int]("Row", belay.Track(time.Hour), belay.Idempotent())
	Sum = belay.Define[SumArgs]("Sum", belay.Idempotent())
)

var name, rows = flag.String("import", "import 42", "name of the import"), flag.Int("rows", 0, "rows to import")

func main() {
	belay.Main(func(ctx context.Context, server *belay.Server) error {
		client := server.Client()
		Row.Handle(server, func(_ context.Context, row int) (int, error) { return 2 * row, nil })
		Sum.Handle(server, func(ctx context.Context, args SumArgs) error { return sum(ctx, client, args) })
		if *rows == 0 {
			return nil
		}
		finish := belay.BatchConfig{Description: *name, OnSuccess: Sum.Job(SumArgs{*name, *rows})}
		_, err := belay.NewBatch(ctx, client, finish, func(b *belay.Batch) error {
			_, err := client.PushMany(ctx, func(yield func(belay.RawJob) bool) {
				for n := 0; n < *rows && yield(Row.Job(n, belay.InBatch(b), belay.JID(belay.JIDOf(*name, n)))); n++ {
				}
			})
			return err
		})
		return err
	}, belay.MainConfig{})
}

func sum(ctx context.Context, client *belay.Client, args SumArgs) error {
	jids := make([]string, args.Rows)
	for n := range jids {
		jids[n] = belay.JIDOf(args.Import, n)
	}
	results, err := client.TrackedMany(ctx, jids...)
	total := 0
	for _, result := range results {
		var n int
		if _, err := fmt.Sscan(string(result.Result), &n); err != nil {
			return fmt.Errorf("row %s: %w", result.JID, err)
		}
		total += n
	}
	if err == nil {
		fmt.Printf("%s: %d rows, sum %d\n", args.Import, args.Rows, total)
	}
	return err
}
