package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const statusHelp = `Shows counters, the queues with their sizes and the wait of their oldest job, the sizes of the
sets, and the worker processes, including Sidekiq's, with the running jobs that they reported at most five seconds
ago. "no consumer" marks a queue from which no living process takes jobs.

With --history it shows how many runs ended and failed on each day (in UTC). These counts are kept for up to five
years.`

// statusTimeout limits a whole read. A healthy Redis answers in milliseconds.
const statusTimeout = 15 * time.Second

// minEvery keeps --watch from becoming a load of its own.
const minEvery = 100 * time.Millisecond

func newStatus(at *redisFlags) *cobra.Command {
	var watch bool
	var every time.Duration
	var history int
	cmd := withJSON(&cobra.Command{
		Use:   "status",
		Short: "Show counters, queues and workers",
		Long:  statusHelp,
		Example: `  belay status
  belay status --watch
  belay status --json | jq '.queues[] | select(.latency_seconds > 60)'
  belay status --redis redis://redis.example.com:6379/2`,
		Args: noArgs,
		RunE: withFleet(at, func(cmd *cobra.Command, f *inspect.Fleet, _ []string) error {
			if every < minEvery {
				return usage("--every %v: it must be at least %v", every, minEvery)
			}
			if cmd.Flags().Changed("history") {
				if history < 1 || history > inspect.MaxDays || watch {
					return usage("--history %d: it must be from 1 to %d days, without --watch", history, inspect.MaxDays)
				}
				return perShard(cmd, f.Shards(), func(shard inspect.Shard) error { return printHistory(cmd, shard.Inspector, history) })
			}
			switch {
			case watch && !asJSON(cmd) && isTerminal(cmd.OutOrStdout()):
				return runTop(cmd, f, every)
			case watch:
				ctx, stop := untilSignal()
				defer stop()
				read := func() (inspect.FleetStatus, error) { return readFleet(ctx, f) }
				return watchStatus(ctx, cmd, every, read)
			}
			status, err := readFleet(context.Background(), f)
			if err != nil {
				return err
			}
			return show(cmd, status, func(t *table) { printFleet(t, status) })
		}),
	})
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "repeat until interrupted; with --json one object a line; on a terminal the same as belay top")
	cmd.Flags().IntVar(&history, "history", 0, "show the runs of each of the last `DAYS` instead; with --json one object a line")
	cmd.AddCommand(newReset(at))
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "interval of --watch")
	return cmd
}

func readStatus(ctx context.Context, i *inspect.Inspector) (inspect.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	return i.Status(ctx)
}

func readFleet(ctx context.Context, f *inspect.Fleet) (inspect.FleetStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	return f.Status(ctx)
}

// printFleet prints the sums of all shards, and a line for each of them.
func printFleet(t *table, s inspect.FleetStatus) {
	printStatus(t, s.Status)
	if len(s.Shards) == 0 {
		return
	}
	t.row()
	t.row("SHARD", "PROCESSED", "FAILED", "ENQUEUED", "SCHEDULED", "RETRIES", "DEAD", "PROCESSES")
	for _, shard := range s.Shards {
		if shard.Problem != "" {
			t.row(shard.Name, "away", "-", "-", "-", "-", "-", "-")
			continue
		}
		t.row(shard.Name, shard.Processed, shard.Failed, shard.Enqueued, shard.Scheduled, shard.Retries, shard.Dead, shard.ProcessCount)
	}
}

// printStatus prints all tables of a status.
func printStatus(t *table, s inspect.Status) {
	t.row("PROCESSED", "FAILED", "ENQUEUED", "QUARANTINED", "SCHEDULED", "RETRIES", "DEAD", "DUPLICATES")
	t.row(s.Processed, s.Failed, s.Enqueued, s.Quarantined, s.Scheduled, s.Retries, s.Dead, s.Duplicates)
	if s.HeldByDead > 0 {
		t.section(heldByDead(s.HeldByDead))
	}
	printQueues(t, s)
	printProcesses(t, s)
	for _, problem := range s.Problems {
		t.row("problem: " + problem)
	}
}

// count returns a number, and how many of them are listed if not all are.
func count(all int64, listed int) string {
	if all > int64(listed) {
		return fmt.Sprintf("%d of %d", listed, all)
	}
	return fmt.Sprint(all)
}

// printHistory prints the counts of the last days.
func printHistory(cmd *cobra.Command, i *inspect.Inspector, days int) error {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	history, problems, err := i.History(ctx, days)
	for _, problem := range problems {
		printErr(cmd, problem)
	}
	if err != nil {
		return err
	}
	return showAll(cmd, history, func(t *table) {
		t.head("DAY (UTC)", "PROCESSED", "FAILED")
		for _, day := range history {
			t.row(day.Date, day.Processed, day.Failed)
		}
	})
}

// newReset makes the command that sets counters to zero.
func newReset(at *redisFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset [processed|failed|duplicates]...",
		Short: "Set counters to zero",
		Long: `Sets the named counters to zero; without a name, processed and failed, as Sidekiq's Ruby API does. The counts by day
(belay status --history) do not change.`,
		Example:   "  belay status reset --yes\n  belay status reset duplicates --yes",
		ValidArgs: []string{string(inspect.CounterProcessed), string(inspect.CounterFailed), string(inspect.CounterDuplicates)},
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.OnlyValidArgs(cmd, args); err != nil {
				return usage("the counters are processed, failed and duplicates: %w", err)
			}
			return nil
		},
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			var counters []inspect.Counter
			for _, name := range args {
				counters = append(counters, inspect.Counter(name))
			}
			if err := confirm(cmd, "set the counters to zero"); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
			defer cancel()
			return i.ResetCounters(ctx, counters...)
		}),
	}
	cmd.Flags().BoolP("yes", "y", false, "do not ask")
	return cmd
}

// watchStatus prints a page per interval until ctx ends, each in one write. It reports an outage once and
// continues.
func watchStatus(ctx context.Context, cmd *cobra.Command, every time.Duration, read func() (inspect.FleetStatus, error)) error {
	out, away := cmd.OutOrStdout(), false
	page := &bytes.Buffer{}
	cmd.SetOut(page)
	defer cmd.SetOut(out)
	var last inspect.Status
	for ctx.Err() == nil {
		status, err := read()
		switch {
		case err != nil && ctx.Err() != nil: // interrupted
		case err == nil:
			away = false
			_ = show(cmd, status, func(t *table) { // to a buffer
				t.row(localTime(&status.At) + speed(last, status.Status))
				t.row()
				printFleet(t, status)
				t.row()
			})
			if _, err := page.WriteTo(out); err != nil {
				return err
			}
			last = status.Status
		case !away:
			away = true
			cmd.PrintErrln("belay: status: " + oneLine(hidePasswords(err.Error())) + "; trying again")
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
	return nil
}

// speed returns how many jobs ended per second between two reads.
func speed(last, s inspect.Status) string {
	between := s.At.Sub(last.At).Seconds()
	if last.At.IsZero() || between <= 0 || s.Processed < last.Processed {
		return ""
	}
	return fmt.Sprintf("   %.0f jobs/s, %.0f of them failed",
		float64(s.Processed-last.Processed)/between, float64(s.Failed-last.Failed)/between)
}
