package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
)

// definition is the class of all jobs. Their delays are a second or so, for a run is minutes long.
var definition = belay.Define[Args](chaosplan.Class, belay.Backoff(func(int, error, *belay.Job) time.Duration {
	return chaosplan.MinBackoff + rand.N(chaosplan.MaxBackoff-chaosplan.MinBackoff)
}))

// work runs a worker to its end.
func work(ctx context.Context, f *flags, plan *chaosplan.Plan, book *history.Writer, client *belay.Client) error {
	s, queues := plan.Settings, chaosplan.Queues
	limited, err := f.limited()
	if err != nil {
		return err
	}
	if limited != nil {
		queues = append(queues, chaosplan.LimitedQueue)
	}
	server, err := belay.NewServer(client, belay.ServerConfig{
		Name: f.proc, Queues: belay.Queues(queues...), Concurrency: s.Concurrency,
		Heartbeat: s.Beat, TTL: s.TTL, ShutdownTimeout: s.ShutdownTimeout, SaveInterval: s.Save, MaxInterruptions: f.interruptions,
		Logger: belay.Zerolog(zerolog.New(os.Stderr).With().Timestamp().Logger()),
	})
	if err != nil {
		return err
	}
	h := &hand{dir: f.dir, book: book}
	server.Use("record", h.record)
	definition.Handle(server, h.obey)
	for _, class := range rivals {
		class.Handle(server, h.obey)
	}
	handleBatches(server, client, h)
	if limited != nil {
		belay.Define[Args](chaosplan.Limited, belay.Queue(chaosplan.LimitedQueue), limited).Handle(server, h.obey)
	}
	server.HandleRaw(chaosplan.TickClass, func(context.Context, *belay.Job) error { return nil })
	if len(plan.Jobs) > 0 {
		ticks := belay.Periodic{Name: chaosplan.Ticks, Cron: "@every 1s", Job: belay.RawJob{Class: chaosplan.TickClass, Queue: chaosplan.Queues[0]}}
		if err := server.Schedule(ticks); err != nil {
			return err
		}
	}
	ending, ended := context.WithCancel(ctx)
	defer ended()
	go watch(ending, server, book)
	err = server.RunProcess(ctx, belay.ProcessConfig{})
	book.Append(history.Event{Kind: history.Down})
	return err
}

// limited is the limit of limited jobs; nil for a worker that has none.
func (f *flags) limited() (belay.DefineOption, error) {
	switch {
	case f.limit > 0:
		return belay.Limited(belay.Limit{Name: "keys", Concurrency: f.limit}, func(args Args) string { return args.Spec.Kind }), nil
	case f.rate != "":
		number, span, _ := strings.Cut(f.rate, "/")
		starts, err := strconv.Atoi(number)
		per, perErr := time.ParseDuration(span)
		return belay.LimitedTo(belay.Limit{Name: "rate", Rate: belay.Window(starts, per)}), errors.Join(err, perErr)
	}
	return nil, nil
}

// watch records each new session, soon, and each second how the process fares.
func watch(ctx context.Context, server *belay.Server, book *history.Writer) {
	lives, seconds := time.NewTicker(20*time.Millisecond), time.NewTicker(time.Second)
	defer lives.Stop()
	defer seconds.Stop()
	identity := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-lives.C:
			if now := server.Identity(); now != identity {
				identity = now
				book.Append(history.Event{Kind: history.Up, Text: identity})
			}
		case <-seconds.C:
			book.Append(history.Event{Kind: history.Health, Goroutines: runtime.NumGoroutine(), Files: openFiles()})
		}
	}
}

// openFiles counts the file descriptors of this process, the one included by which it counts them.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(fmt.Sprintf("chaosworker: %v", err))
	}
	return len(entries)
}
