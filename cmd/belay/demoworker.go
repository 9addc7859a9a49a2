package main

import (
	"context"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay"
)

const (
	demoWorkerName = "demo-worker"
	demoQueue      = "demo"
	demoClass      = "Demo"
	// demoJobTime is how long a job takes on average: long enough to be interrupted, short enough for
	// hundreds a second.
	demoJobTime = 40 * time.Millisecond
	// demoShutdown is longer than any job, so that at the end all of them finish.
	demoShutdown = time.Second
)

// newDemoWorker makes the hidden command that the demonstration's workers run.
func newDemoWorker(at *redisFlags) *cobra.Command {
	var fd int
	cmd := &cobra.Command{
		Use: demoWorkerName, Hidden: true, Short: "A worker of belay demo", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if fd == 0 {
				return usage("this command is a part of belay demo")
			}
			return demoWork(cmd, at, os.NewFile(uintptr(fd), "reports"))
		},
	}
	cmd.Flags().IntVar(&fd, "fd", 0, "open file for the reports of this worker")
	return cmd
}

func demoWork(cmd *cobra.Command, at *redisFlags, file *os.File) error {
	redis, err := at.open()
	if err != nil {
		return err
	}
	defer func() { _ = redis.Close() }()
	journal, err := openJournal(logFlags{level: "info", format: "json"}, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer journal.close()
	client, err := belay.NewClient(redis, &belay.ClientConfig{Prefix: at.prefix})
	if err != nil {
		return err
	}
	server, err := belay.NewServer(client, belay.ServerConfig{
		Queues: belay.Queues(demoQueue), Concurrency: demoConcurrency, Heartbeat: demoBeat, TTL: demoTTL,
		ShutdownTimeout: demoShutdown, Logger: journal.book.Slog(),
	})
	if err != nil {
		return err
	}
	server.HandleRaw(demoClass, demoHandler(file))
	return belay.Process{Server: server}.Run(context.Background())
}

// demoHandler reports the start of a job before it begins, and its end. Each line is one small write to a
// pipe: what was written before a SIGKILL is in the pipe, and no line is split.
func demoHandler(reports *os.File) func(context.Context, *belay.Job) error {
	return func(ctx context.Context, j *belay.Job) error {
		if _, err := reports.WriteString(lineStart + j.JID() + "\n"); err != nil {
			return err
		}
		select {
		case <-time.After(demoJobTime/2 + rand.N(demoJobTime)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		_, err := reports.WriteString(lineEnd + j.JID() + "\n")
		return err
	}
}
