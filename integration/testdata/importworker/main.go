// Command importworker works on imports: long jobs that save a cursor.
//
//	importworker -redis URL -prefix P -ledger FILE [-client rueidis] -items N -each 2ms -save 300ms
//
// Each item takes so long, and is appended to the ledger when it is done.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/integration/program"
)

// page is how many items are read at once.
const page = 50

var imports = belay.Define[struct{}]("Import")

func main() {
	var f program.Flags
	f.Add()
	ledger := flag.String("ledger", "", "file to append to")
	items, each := flag.Int("items", 1000, "items of an import"), flag.Duration("each", time.Millisecond, "time for an item")
	save := flag.Duration("save", 0, "save interval")
	flag.Parse()
	_, client, err := f.Open()
	if err != nil {
		program.Exit(err)
	}
	server, err := belay.NewServer(client, belay.ServerConfig{
		Heartbeat: 100 * time.Millisecond, TTL: 400 * time.Millisecond, SaveInterval: *save, Concurrency: 2,
	})
	if err != nil {
		program.Exit(err)
	}
	imports.Handle(server, func(ctx context.Context, _ struct{}) error {
		return belay.Pages(ctx, func(_ context.Context, after int) (found []int, _ error) {
			for n := after + 1; n <= *items && len(found) < page; n++ {
				found = append(found, n)
			}
			return found, nil
		}, func(n int) int { return n }, func(_ context.Context, n int) error {
			time.Sleep(*each)
			return program.Note(*ledger, map[string]any{"n": n, "pid": os.Getpid(), "at": time.Now().UnixNano()})
		})
	})
	program.Exit(belay.Process{Server: server}.Run(context.Background()))
}
