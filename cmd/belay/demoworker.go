package main

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/logbook"
)

const (
	demoWorkerName = "demo-worker"
	demoPrefix     = "belay-demo-" // and random characters
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
	return &cobra.Command{
		Use: demoWorkerName, Hidden: true, Short: "A worker of belay demo", Args: noArgs,
		RunE: withRedis(at, func(cmd *cobra.Command, redis driver.Client, _ []string) error {
			if !strings.Contains(at.prefix, demoPrefix) {
				return usage("this command is a part of belay demo")
			}
			buffer := logbook.New(logbook.JSON(cmd.ErrOrStderr(), slog.LevelInfo))
			defer buffer.Flush(lastWords)
			client, err := belay.NewClient(redis, &belay.ClientConfig{Prefix: at.prefix})
			if err != nil {
				return err
			}
			server, err := belay.NewServer(client, belay.ServerConfig{
				Queues: belay.Queues(demoQueue), Concurrency: demoConcurrency, Heartbeat: demoBeat, TTL: demoTTL,
				ShutdownTimeout: demoShutdown, Logger: buffer.Logger(),
			})
			if err != nil {
				return err
			}
			server.HandleRaw(demoClass, demoHandler(cmd.OutOrStdout()))
			return server.RunProcess(context.Background(), belay.ProcessConfig{})
		}),
	}
}

// demoHandler reports the start of a job before it begins, and its end. Each line is one small write to a
// pipe: what was written before a SIGKILL is in the pipe, and no line is split.
func demoHandler(reports io.Writer) func(context.Context, *belay.Job) error {
	return func(ctx context.Context, j *belay.Job) error {
		if _, err := io.WriteString(reports, lineStart+j.JID()+"\n"); err != nil {
			return err
		}
		select {
		case <-time.After(demoJobTime/2 + rand.N(demoJobTime)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		_, err := io.WriteString(reports, lineEnd+j.JID()+"\n")
		return err
	}
}
