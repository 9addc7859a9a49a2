package main

import (
	"context"
	"math/rand/v2"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/launcher/service"
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
	worker, err := launcher.New(launcher.Config{
		Client: redis, Prefix: at.prefix, Queues: []fetch.Queue{{Name: demoQueue}}, Concurrency: demoConcurrency,
		Beat: demoBeat, TTL: demoTTL, ShutdownTimeout: demoShutdown, Log: &journal.Logger,
	})
	if err != nil {
		return err
	}
	worker.Handle(demoClass, demoHandler(file, journal.Logger), launcher.Class{})
	service.OutliveReaders()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	defer service.Signals{Worker: worker, Stop: stop, Reopen: journal.reopen, Log: journal.Logger}.Obey()()
	return worker.Run(ctx)
}

// demoHandler reports the start of a job before it begins, and its end. Each line is one small write to a
// pipe: what was written before a SIGKILL is in the pipe, and no line is split.
func demoHandler(file *os.File, log zerolog.Logger) launcher.Handler {
	write := func(word, jid string) error {
		if _, err := file.WriteString(word + jid + "\n"); err != nil {
			log.Error().Err(err).Msg("a report cannot be written")
			return err
		}
		return nil
	}
	return func(ctx context.Context, j *job.Job) error {
		if err := write(lineStart, j.JID()); err != nil {
			return err
		}
		select {
		case <-time.After(demoJobTime/2 + rand.N(demoJobTime)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return write(lineEnd, j.JID())
	}
}
