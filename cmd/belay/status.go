package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const statusHelp = `Shows counters, the queues with their sizes and the wait of their oldest job, the sizes of the
sets, and the worker processes, including Sidekiq's, with the running jobs that they reported at most five seconds
ago. "no consumer" marks a queue from which no living process takes jobs.

With --json it prints one JSON object, with these stable fields:
  at, processed, failed, duplicates, enqueued, quarantined, in_dead_hands, scheduled, retries, dead, queue_count, process_count,
  problems [text]
  queues     [{name, size, latency_seconds, paused, quarantined, quarantined_seconds, in_dead_hands, no_consumer}]
  processes  [{identity, state, belay, hostname, pid, tag, labels, version, queues, concurrency,
               capsules [{name, concurrency, mode, queues, weights {queue: weight}}], busy, quiet, rss_kb, started_at,
               beat_age_seconds, running [{thread, class, jid, queue, since, elapsed_seconds, overdue_seconds}]}]
duplicates are pushes that were refused because another job held their lock. quarantined are jobs whose workers died
too often while they ran, so they run alone. in_dead_hands are jobs of workers whose heartbeats have stopped; a living
worker recovers them. state is that of a process: alive, lapsed (its heartbeats have stopped) or gone. At most 1,000
queues, processes and running jobs are listed; the counts are of all. problems are keys with unexpected contents.

With --history it shows how many runs ended and failed on each day (in UTC). These counts are kept for up to five
years. With --json it prints {date, processed, failed}, one object a line.

Exit status: 0, also with problems; 1 if nothing can be read from Redis; 2 for a wrong command line.`

// statusTimeout limits a whole read. A healthy Redis answers in milliseconds.
const statusTimeout = 15 * time.Second

// leastEvery keeps --watch from becoming a load of its own.
const leastEvery = 100 * time.Millisecond

func newStatus(at *redisFlags) *cobra.Command {
	var asJSON, watch bool
	var every time.Duration
	var history int
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show counters, queues and workers",
		Long:  statusHelp,
		Example: `  belay status
  belay status --watch
  belay status --json | jq '.queues[] | select(.latency_seconds > 60)'
  belay status --redis redis://redis.example.com:6379/2`,
		Args: noArgs,
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			if every < leastEvery {
				return usage("--every %v: it must be at least %v", every, leastEvery)
			}
			if cmd.Flags().Changed("history") {
				if history < 1 || history > inspect.MostDays || watch {
					return usage("--history %d: it is from 1 to %d days, without --watch", history, inspect.MostDays)
				}
				return printHistory(cmd, i, history, asJSON)
			}
			switch {
			case watch && !asJSON && isTerminal(cmd.OutOrStdout()):
				return runTop(cmd, i, every)
			case watch:
				ctx, stop := untilSignal()
				defer stop()
				read := func() (inspect.Status, error) { return readStatus(ctx, i) }
				return watchStatus(ctx, cmd.OutOrStdout(), asJSON, cmd.ErrOrStderr(), every, read)
			}
			status, err := readStatus(context.Background(), i)
			if err != nil {
				return err
			}
			return printStatus(cmd.OutOrStdout(), asJSON, status)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
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

// printParts prints the parts of a status, as lines of JSON or in a table.
func printParts[T any](out io.Writer, asJSON bool, parts []T, print func(*table)) error {
	if asJSON {
		for _, part := range parts {
			if err := printJSON(out, part); err != nil {
				return err
			}
		}
		return nil
	}
	t := newTable(out)
	print(t)
	return t.Flush()
}

// printStatus prints tables, or one object of JSON.
func printStatus(out io.Writer, asJSON bool, s inspect.Status) error {
	if asJSON {
		return printJSON(out, s)
	}
	t := newTable(out)
	t.row("PROCESSED", "FAILED", "ENQUEUED", "QUARANTINED", "SCHEDULED", "RETRIES", "DEAD", "DUPLICATES")
	t.row(s.Processed, s.Failed, s.Enqueued, s.Quarantined, s.Scheduled, s.Retries, s.Dead, s.Duplicates)
	if s.HeldByLapsed > 0 {
		t.section(heldByDead(s.HeldByLapsed))
	}
	printQueues(t, s)
	printProcesses(t, s)
	for _, problem := range s.Problems {
		t.row("problem: " + problem)
	}
	return t.Flush()
}

// count returns a number, and how many of them are listed if not all are.
func count(all int64, listed int) string {
	if all > int64(listed) {
		return fmt.Sprintf("%d of %d", listed, all)
	}
	return fmt.Sprint(all)
}
