// Command deaf is a worker of the integration tests, in Go, because no program run by belay work --exec can
// ignore its end:
//
//	deaf -redis URL -prefix TEXT LEDGER RELEASE
//
// It runs jobs of the classes Deaf and Quick. Each run appends a line to LEDGER when it starts and one when it
// ends, as the program hand does. A run of Deaf ends when there is a file RELEASE, and heeds nothing else.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay"
)

func main() {
	url := flag.String("redis", "", "the URL of Redis")
	prefix := flag.String("prefix", "", "what stands before every key")
	flag.Parse()
	if err := work(*url, *prefix, flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "deaf:", err)
		os.Exit(70)
	}
}

func work(url, prefix, ledger, release string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := belay.Open(ctx, url, &belay.ClientConfig{Prefix: prefix})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	log := zerolog.New(os.Stderr)
	server, err := belay.NewServer(client, belay.ServerConfig{
		Heartbeat: 200 * time.Millisecond, TTL: time.Second, Concurrency: 4, ShutdownTimeout: time.Second,
		Logger: belay.Zerolog(log),
	})
	if err != nil {
		return err
	}
	server.OnStuck(func(run belay.StuckRun) {
		log.Info().Str("jid", run.Job.JID()).Bool("left", run.Left).
			AnErr("because", run.Cause).Msg("stuck run reported")
	})
	server.HandleRaw("Quick", func(_ context.Context, j *belay.Job) error {
		return errors.Join(note(ledger, "start", j), note(ledger, "end", j))
	})
	server.HandleRaw("Deaf", func(_ context.Context, j *belay.Job) error {
		started := note(ledger, "start", j)
		for !exists(release) {
			time.Sleep(10 * time.Millisecond)
		}
		return errors.Join(started, note(ledger, "end", j))
	})
	return server.Run(ctx)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// note appends a line with a single write, so that what several runs append never mixes.
func note(path, what string, j *belay.Job) error {
	line, err := json.Marshal(map[string]any{
		"what": what, "jid": j.JID(), "class": j.Class(), "worker": os.Getpid(),
		"pid": os.Getpid(), "at": time.Now().UnixNano(),
	})
	if err != nil {
		return err
	}
	ledger, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = ledger.Write(append(line, '\n'))
	return errors.Join(err, ledger.Close())
}
