// Command shop is a worker of the browser's tests, for Sidekiq's own pages.
//
//	shop -redis URL -name NAME -q "live rails" LEDGER GATE MENDED
//
// Each run that succeeds appends a line to LEDGER. Until there is a file MENDED, jobs of Panics, the ActiveJob
// ShopJob, and those with "fails" or "kills" for their second argument fail with the first for the error; the
// latter are dead at once, and all other retries are due in hours. Held, Import and jobs with "holds" for their
// second argument run until there is a file GATE; Import saves checkpoints.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"strings"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/activejob"
	"github.com/belayq/belay/integration/program"
)

// later is the delay of every retry: no test lasts that long.
const later = 2 * time.Hour

var (
	panics  = belay.Define[string]("Panics", belay.NotIdempotent("a test"), belay.Backoff(func(int, error, *belay.Job) time.Duration { return later }))
	wrapped = belay.Define[string]("ShopJob", belay.NotIdempotent("a test"), activejob.Unwrap())
	report  = belay.Define[string]("Report", belay.Queue("ticks"), belay.Idempotent())
)

func main() {
	var f program.Flags
	f.Add()
	name := flag.String("name", "", "the worker's name")
	queues := flag.String("q", "", "the queues, with spaces between them")
	flag.Parse()
	program.Exit(f.Work(belay.ServerConfig{
		Queues: belay.Queues(strings.Fields(*queues)...), Concurrency: 4, ShutdownTimeout: time.Second, SaveInterval: 100 * time.Millisecond,
		Name: *name, Tag: "shop", Labels: []string{"go"},
	}, handle))
}

func handle(server *belay.Server) error {
	panics.Handle(server, func(ctx context.Context, text string) error {
		if !program.Exists(flag.Arg(2)) {
			panic(text)
		}
		return note(ctx)
	})
	wrapped.Handle(server, func(ctx context.Context, text string) error { return fail(ctx, text) })
	server.HandleUnknown(func(ctx context.Context, j *belay.Job) error {
		var args []any
		_ = json.Unmarshal([]byte(j.ArgsJSON()), &args)
		text, act := "", ""
		if len(args) > 1 {
			text, _ = args[0].(string)
			act, _ = args[1].(string)
		}
		switch {
		case j.Class() == "Held" || j.Class() == "Import" || act == "holds":
			return hold(ctx, j.Class() == "Import")
		case act == "kills" && !program.Exists(flag.Arg(2)):
			return belay.Kill(errors.New(text))
		case act == "fails":
			return fail(ctx, text)
		}
		return note(ctx)
	})
	return server.Schedule(belay.Periodic{Name: "yearly", Cron: "0 0 1 1 *", Job: report.Job("all")})
}

func hold(ctx context.Context, saves bool) error {
	for n := 0; !program.Exists(flag.Arg(1)); n++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
		if saves {
			if err := belay.Checkpoint(ctx, n); err != nil {
				return err
			}
		}
	}
	return note(ctx)
}

func fail(ctx context.Context, text string) error {
	if !program.Exists(flag.Arg(2)) {
		return belay.RetryIn(later, errors.New(text))
	}
	return note(ctx)
}

func note(ctx context.Context) error {
	info, _ := belay.Info(ctx)
	return program.Note(flag.Arg(0), map[string]any{"jid": info.JID, "class": info.Class, "attempt": info.Attempt})
}
