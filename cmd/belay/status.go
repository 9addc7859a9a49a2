package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const statusHelp = `Shows what is going on: counters, queues with their sizes and how long their oldest job has been waiting, the sizes of
the sets, and the worker processes with what they run, as they told it up to five seconds ago. Sidekiq's processes are
shown like Belay's. "no consumer" marks a queue from which no living process takes jobs.

With --json it is one JSON object, whose fields stay as they are:
  at, processed, failed, duplicates, enqueued, quarantined, in_dead_hands, scheduled, retries, dead, queue_count, process_count, problems [text]
  queues     [{name, size, latency_seconds, paused, quarantined, quarantined_seconds, in_dead_hands, no_consumer}]
  processes  [{identity, state, belay, hostname, pid, tag, labels, version, queues, concurrency, busy, quiet, rss_kb,
               started_at, beat_age_seconds, running [{thread, class, jid, queue, since, elapsed_seconds, overdue_seconds}]}]
duplicates are pushes that were refused because another job held their lock. quarantined jobs are those whose workers
died too often while they ran, so they wait to run alone. in_dead_hands are jobs of workers whose heartbeats have stopped; a
living worker recovers them. state is alive,
lapsed (its beats have stopped) or gone. At most 1,000 queues, processes and running jobs are listed; the counts are of
all. problems are keys that hold what they should not.

Exit status: 0, also with problems; 1 when Redis cannot be read, or lets nothing be read; 2 for a wrong command line.`

// statusTimeout is how long reading may take in all. A healthy Redis answers in milliseconds; beyond this an operator
// would rather be told.
const statusTimeout = 15 * time.Second

// leastEvery keeps --watch from being a load of its own.
const leastEvery = 100 * time.Millisecond

func newStatus(at *redisFlags) *cobra.Command {
	var asJSON, watch bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show counters, queues and workers",
		Long:    statusHelp,
		Example: "  belay status\n  belay status --watch\n  belay status --json | jq '.queues[] | select(.latency_seconds > 60)'\n  belay status --redis redis://redis.example.com:6379/2",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			redis, err := at.open()
			if err != nil {
				return err
			}
			defer func() { _ = redis.Close() }()
			if every < leastEvery {
				return usageError{fmt.Errorf("--every %v: it is at least %v", every, leastEvery)}
			}
			ctx := context.Background()
			if watch { // that is how one ends it
				var stop func()
				ctx, stop = untilSignal()
				defer stop()
			}
			read := func() (inspect.Status, error) {
				ctx, cancel := context.WithTimeout(ctx, statusTimeout)
				defer cancel()
				return inspect.New(redis, at.prefix).Status(ctx)
			}
			view := newStatusView(cmd.OutOrStdout(), asJSON)
			if watch {
				return watchStatus(ctx, view, cmd.ErrOrStderr(), every, read)
			}
			status, err := read()
			if err != nil {
				return err
			}
			return view.show(status, false)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until it is interrupted; with --json one object a line")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "with --watch: how often")
	return cmd
}

// printStatus writes tables for people. Every name in them is somebody else's text.
func printStatus(out io.Writer, s inspect.Status) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		texts := make([]string, len(cells))
		for i, cell := range cells {
			texts[i] = plain(fmt.Sprint(cell))
		}
		_, _ = fmt.Fprintln(t, strings.Join(texts, "\t"))
	}
	row("PROCESSED", "FAILED", "ENQUEUED", "QUARANTINED", "SCHEDULED", "RETRIES", "DEAD", "DUPLICATES")
	row(s.Processed, s.Failed, s.Enqueued, s.Quarantined, s.Scheduled, s.Retries, s.Dead, s.Duplicates)
	if s.HeldByLapsed > 0 {
		section(t, inDeadHands(s.HeldByLapsed))
	}
	section(t, "queues: "+count(s.QueueCount, len(s.Queues)))
	if len(s.Queues) > 0 {
		row("QUEUE", "SIZE", "LATENCY", "")
	}
	for _, queue := range s.Queues {
		row(queue.Name, queue.Size, short(queue.Latency), queueNotes(queue))
	}
	section(t, "processes: "+count(s.ProcessCount, len(s.Processes)))
	if len(s.Processes) > 0 {
		row("PROCESS", "STATE", "BUSY", "QUEUES", "RSS", "TAG")
	}
	for _, p := range s.Processes {
		row(p.Identity, stateOf(p), fmt.Sprintf("%d/%d", p.Busy, p.Concurrency), strings.Join(p.Queues, ","),
			fmt.Sprintf("%d MB", p.RSS/1024), p.Tag)
	}
	printRuns(t, row, s.Processes)
	for _, problem := range s.Problems {
		row("problem: " + problem)
	}
	return t.Flush()
}

// inDeadHands describes how many jobs wait for recovery.
func inDeadHands(jobs int64) string {
	if jobs == 0 {
		return ""
	}
	return fmt.Sprintf("in dead workers' hands: %d", jobs)
}

// quarantined returns how many jobs wait to run alone, and since when.
func quarantined(queue inspect.Queue) string {
	if queue.Quarantined == 0 {
		return ""
	}
	return fmt.Sprintf("%d quarantined for %s", queue.Quarantined, short(queue.QuarantinedFor))
}

func printRuns(t io.Writer, row func(...any), processes []inspect.Process) {
	headed := false
	for _, p := range processes {
		for _, run := range p.Running {
			if !headed {
				section(t, "running:")
				row("JOB", "CLASS", "QUEUE", "FOR", "PROCESS")
				headed = true
			}
			row(run.JID, run.Class, run.Queue, short(run.Elapsed)+overdue(run), p.Identity)
		}
	}
}

// overdue says that a handler ignores the end of its context.
func overdue(run inspect.Run) string {
	if run.Overdue.Duration == 0 {
		return ""
	}
	return ", overdue for " + short(run.Overdue)
}

func section(t io.Writer, title string) { _, _ = fmt.Fprintf(t, "\n%s\n", title) }

// count says how many there are, and how many of these are listed if not all.
func count(all int64, listed int) string {
	if all > int64(listed) {
		return fmt.Sprintf("%d of %d", listed, all)
	}
	return fmt.Sprint(all)
}

func stateOf(p inspect.Process) string {
	if p.Quiet {
		return string(p.State) + ", quiet"
	}
	return string(p.State)
}

func word(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}

// short is a duration as precise as one wants to read it.
func short(d inspect.Seconds) string {
	switch {
	case d.Duration >= time.Minute:
		return d.Round(time.Second).String()
	case d.Duration >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}
