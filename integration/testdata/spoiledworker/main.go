// Command spoiledworker is a worker for payloads that were spoiled on purpose. It knows the classes that the real
// ones had, and fails those of them that are named for it.
//
//	spoiledworker -redis URL -prefix P -q NAME... [-all] LEDGER
//
// With -all it runs every job of every class. Each run appends a line to LEDGER when it starts, with all bytes of
// its payload, and one when it has succeeded.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay"
	"github.com/belayq/belay/integration/program"
)

func main() {
	var f program.Flags
	f.Add()
	var queues []string
	flag.Func("q", "queue to work on", func(name string) error { queues = append(queues, name); return nil })
	all := flag.Bool("all", false, "run every class, and fail none")
	flag.Parse()
	program.Exit(work(&f, queues, *all))
}

func work(f *program.Flags, queues []string, all bool) error {
	client, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	server, err := belay.NewServer(client, belay.ServerConfig{
		Queues: belay.Queues(queues...), Concurrency: 8, Heartbeat: 200 * time.Millisecond, TTL: 2 * time.Second,
		Logger: belay.Zerolog(zerolog.New(os.Stderr)),
	})
	if err != nil {
		return err
	}
	run := func(_ context.Context, j *belay.Job) error {
		return errors.Join(note("start", j), note("done", j))
	}
	if all {
		server.HandleUnknown(run)
		return server.RunProcess(context.Background(), belay.ProcessConfig{})
	}
	for _, class := range []string{"Ran", "Letter", "Note", "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"} {
		server.HandleRaw(class, run)
	}
	for _, class := range []string{"Fails", "Raises"} {
		server.HandleRaw(class, func(_ context.Context, j *belay.Job) error {
			return errors.Join(note("start", j), errors.New("fails as it was told"))
		})
	}
	return server.RunProcess(context.Background(), belay.ProcessConfig{})
}

func note(what string, j *belay.Job) error {
	_, again := j.RetryCount()
	return program.Note(flag.Arg(0), map[string]any{"what": what, "jid": j.JID(), "raw": []byte(j.Raw()), "retried": again, "pid": os.Getpid()})
}
