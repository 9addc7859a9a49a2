package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const processesHelp = `Lists the worker processes, of Belay and of Sidekiq, with their running jobs, as they reported them up to five seconds ago.`

func newProcesses(at *redisFlags) *cobra.Command {
	cmd := withJSON(&cobra.Command{
		Use:   "processes",
		Short: "List workers, quiet, stop and dump them",
		Long:  processesHelp,
		Example: `  belay processes
  belay processes quiet vm:12923:f641267bd2b0
  belay processes stop --all --yes`,
		Args: noWords,
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			s, err := readStatus(context.Background(), i)
			if err == nil {
				err = showAll(cmd, s.Processes, func(t *table) { printProcesses(t, s) })
			}
			return cmp.Or(err, s.ProcessesErr)
		}),
	})
	cmd.AddCommand(newSignal(at, inspect.Quiet, "Stop workers from taking jobs",
		"Stops workers from taking jobs. They finish the jobs they have, and live until they are stopped; quiet cannot be undone."),
		newSignal(at, inspect.Stop, "Stop workers", `Stops workers: they take no more jobs, give running jobs the shutdown timeout, and requeue unfinished jobs.
A supervisor may start them again.`),
		newSignal(at, inspect.Dump, "Make workers log their running jobs",
			"Makes workers write their running jobs and the stacks of all goroutines (Sidekiq: threads) to their logs."))
	return cmd
}

func printProcesses(t *table, s inspect.Status) {
	t.section("processes: " + count(s.ProcessCount, len(s.Processes)))
	var running [][]any
	rows(t, []any{"PROCESS", "STATE", "BUSY", "QUEUES", "RSS", "TAG"}, s.Processes, func(p inspect.Process) []any {
		for _, run := range p.Running {
			running = append(running, []any{run.JID, run.Class, run.Queue, runFor(run), p.Identity})
		}
		return []any{
			p.Identity, string(p.State) + word(p.Quiet, ", quiet"), fmt.Sprintf("%d/%d", p.Busy, p.Concurrency),
			queuesOf(p), fmt.Sprintf("%d MB", p.RSS/1024), p.Tag,
		}
	})
	if len(running) > 0 {
		t.section("running:")
	}
	rows(t, []any{"JOB", "CLASS", "QUEUE", "FOR", "PROCESS"}, running, func(cells []any) []any { return cells })
}

// queuesOf returns the queues of a process, by capsules if there are several: critical,mail; or
// default (25, strict): critical,mail; unsafe (1, weighted): thumbnails*3,previews*1.
func queuesOf(p inspect.Process) string {
	if len(p.Capsules) < 2 {
		return strings.Join(p.Queues, ",")
	}
	capsules := make([]string, len(p.Capsules))
	for n, c := range p.Capsules {
		queues := slices.Clone(c.Queues)
		for i, name := range queues {
			queues[i] += word(c.Weights[name] > 0, fmt.Sprintf("*%d", c.Weights[name]))
		}
		capsules[n] = fmt.Sprintf("%s (%d, %s): %s", c.Name, c.Concurrency, c.Mode, strings.Join(queues, ","))
	}
	return strings.Join(capsules, "; ")
}

// runFor returns how long a run has been running. Overdue: the handler ignores the cancellation of its
// context.
func runFor(run inspect.Run) string {
	return short(run.Elapsed) + word(run.Overdue.Duration > 0, ", overdue for "+short(run.Overdue))
}

// newSignal makes a command that sends a signal to processes.
func newSignal(at *redisFlags, signal inspect.Signal, short, long string) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   string(signal) + " IDENTITY...",
		Short: short,
		Long: long + `

The signal goes through Redis, as the buttons on Sidekiq's pages do. A process obeys at its next heartbeat, within seconds; a
Sidekiq process within ten. The signal expires after a minute. belay processes shows the identities.`,
		Example: fmt.Sprintf("  belay processes %[1]s vm:12923:f641267bd2b0\n  belay processes %[1]s --all --yes", signal),
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usage("which processes? Give identities, or --all")
			}
			return nil
		},
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, identities []string) error {
			var unread error
			turn, processes := turnOf(cmd), make(map[string]string) // of sessions
			if all {
				s, err := readStatus(context.Background(), i)
				if err != nil {
					return err
				}
				unread = s.ProcessesErr
				for _, p := range s.Processes {
					if p.State == inspect.StateAlive && !turn.signalled[p.Process] {
						identities, processes[p.Identity] = append(identities, p.Identity), p.Process
					}
				}
				if err := confirm(cmd, fmt.Sprintf("%s all %d processes", signal, len(identities))); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
			defer cancel()
			return cmp.Or(each(identities, func(identity string) (there bool, err error) {
				sent, err := i.Signal(ctx, identity, signal)
				if sent {
					turn.sentTo(processes[identity])
					printLine(cmd, identity+": "+string(signal)+" sent")
				}
				return sent || all, err // with --all, a process that has ended meanwhile is not an error
			}), unread)
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "all living processes")
	cmd.Flags().BoolP("yes", "y", false, "do not ask before --all")
	return cmd
}
