// Command fanout adds up the results of 1,000 jobs: REDIS_URL=redis://localhost:6379/0 go run ./examples/fanout
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/belayq/belay"
)

var Row = belay.DefineResult[int, int]("Row", belay.Track(time.Hour), belay.Idempotent())
var Sum = belay.Define[int]("Sum", belay.Idempotent()) // of so many rows

func main() {
	belay.Main(func(ctx context.Context, server *belay.Server) error {
		Row.Handle(server, func(_ context.Context, row int) (int, error) { return 2 * row, nil })
		Sum.Handle(server, func(ctx context.Context, rows int) error {
			batch, _ := belay.BatchOf(ctx)
			jids := make([]string, rows)
			for n := range jids {
				jids[n] = belay.JIDOf(batch.ID(), n)
			}
			results, err := server.Client().TrackedMany(ctx, jids...)
			sum, row := 0, 0
			for n := 0; n < len(results) && err == nil; n++ {
				err = json.Unmarshal(results[n].Result, &row)
				sum += row
			}
			fmt.Printf("%d rows, sum %d\n", len(results), sum)
			return err
		})
		_, err := belay.NewBatch(ctx, server.Client(), belay.BatchConfig{OnSuccess: Sum.Job(1000)}, func(b *belay.Batch) error {
			_, err := server.Client().PushMany(ctx, func(yield func(belay.RawJob) bool) {
				for n := 0; n < 1000 && yield(Row.Job(n, belay.InBatch(b), belay.JID(belay.JIDOf(b.ID(), n)))); n++ {
				}
			})
			return err
		})
		return err
	}, belay.MainConfig{})
}
