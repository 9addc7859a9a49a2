// Command deploy is a worker that is replaced by its next release while it works. No job is lost, doubled or
// cut off:
//
//	go build -o worker ./examples/deploy
//	./worker -release v1 & old=$!
//	./worker -release v2 -health-addr 127.0.0.1:7422 &               the new one takes jobs, too
//	until curl -sf http://127.0.0.1:7422/readyz; do sleep 0.2; done
//	kill -TSTP $old                                                  quiet: the old one takes no more
//	kill -TERM $old; wait $old                                       stop: its jobs have 25 s to end
//
// What is not done by then goes back to the head of its queue, and the new one runs it from its beginning.
// Kubernetes and systemd send TERM alone, which does as much: a stop begins by being quiet. Send TSTP first
// to wait longer.
//
//	REDIS_URL=redis://localhost:6379/0 belay push Report '"2026-11"' 50      a job of five seconds to try it with
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/belayq/belay"
)

type ReportArgs struct {
	Month string
	Pages int
}

var Report = belay.Define[ReportArgs]("Report", belay.Idempotent())

var release = flag.String("release", "v1", "which one this is")

func main() {
	belay.Main(func(_ context.Context, server *belay.Server) error {
		Report.Handle(server, write)
		server.OnQuiet(func() { fmt.Println(*release, "takes no more") })
		server.OnExit(func() { fmt.Println(*release, "is done") })
		return nil
	}, belay.MainConfig{})
}

func write(ctx context.Context, args ReportArgs) error {
	fmt.Println(*release, "begins", args.Month)
	for page := range args.Pages {
		select {
		case <-ctx.Done():
			// The shutdown timeout is over. Whatever is returned now, the job goes back to its queue and
			// nothing is counted.
			fmt.Println(*release, "requeues", args.Month, "at page", page, "because of:", context.Cause(ctx))
			return ctx.Err()
		case <-time.After(100 * time.Millisecond): // a page
		}
	}
	fmt.Println(*release, "wrote", args.Month)
	return nil
}
